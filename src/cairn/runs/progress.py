"""The live line of a run. Quiet when nobody watches."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Progress:
    """One line on a terminal, rewritten twice a second: steps, speed, score, time left."""

    def __init__(self, name: str, steps: int, *, start: int = 0, stream: TextIO | None = None) -> None:
        self.name, self.steps, self.stream = name, steps, stream or sys.stderr
        self.live = self.stream.isatty()
        self.begun, self.start = time.perf_counter(), start
        self.shown = 0.0

    def show(self, step: int, score: str) -> None:
        now = time.perf_counter()
        if not self.live or now - self.shown < 0.5:
            return
        self.shown = now
        speed = (step - self.start) / max(now - self.begun, 1e-9)
        left = (self.steps - step) / max(speed, 1e-9)
        clock = f"{int(left // 3600)}:{int(left // 60 % 60):02d}:{int(left % 60):02d}"
        line = f"{self.name}  {step:,}/{self.steps:,} steps  {speed:,.0f}/s  {score}  {clock} left"
        self.stream.write(f"\r\x1b[2K{line}")
        self.stream.flush()

    def say(self, sentence: str) -> None:
        """A sentence worth keeping, on a line of its own."""
        self.stream.write(f"\r\x1b[2K{sentence}\n" if self.live else f"{sentence}\n")
        self.stream.flush()

    def done(self) -> None:
        if self.live:
            self.stream.write("\n")
            self.live = False
