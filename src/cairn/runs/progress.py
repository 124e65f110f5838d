"""The progress of a run: one line on a terminal, elsewhere (a file, a notebook, a batch job) a line every minute."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from cairn.core.terminal import columns, cut, readable, wrapped
from cairn.core.turns import shared
from cairn.recipes.recipe import Recipe

SHORTEST_NAME = 8  # characters of a run's name
BETWEEN = {True: 0.5, False: 60.0}  # seconds between updates, on a terminal and elsewhere


def progress_of(recipe: Recipe, start: int = 0) -> Progress:
    """The progress line of a run that begins at step `start`."""
    prefix = f"seed {recipe.seed}: " if shared() else ""
    return Progress(recipe.name or recipe.env, recipe.steps, start=start, prefix=prefix)


class Progress:
    """One line on a terminal, updated twice a second: steps, speed, score, time left. Elsewhere a line every minute.

    A run that shares its process with others has no such line; its sentences begin with `prefix`.
    """

    def __init__(
        self, name: str, steps: int, *, start: int = 0, stream: TextIO | None = None, prefix: str = ""
    ) -> None:
        self.name, self.steps, self.stream, self.prefix = name, steps, stream or sys.stderr, prefix
        self.live = self.stream.isatty() and not prefix
        self.begun, self.start = time.perf_counter(), start
        self.shown = 0.0 if self.live else self.begun

    def show(self, step: int, score: str) -> None:
        """Update the line, or print one, if it is time."""
        now = time.perf_counter()
        if self.prefix or now - self.shown < BETWEEN[self.live]:
            return
        self.shown = now
        speed = (step - self.start) / max(now - self.begun, 1e-9)
        left = (self.steps - step) / max(speed, 1e-9)
        clock = f"{int(left // 3600)}:{int(left // 60 % 60):02d}:{int(left % 60):02d}"
        line = self._line(f"{step:,}/{self.steps:,} steps", f"{speed:,.0f}/s", score, clock)
        self.stream.write(f"\r\x1b[2K{line}" if self.live else f"{line}\n")
        self.stream.flush()

    def _line(self, steps: str, speed: str, score: str, clock: str) -> str:
        """A line that fits the terminal: the name is cut first, then the speed is left out."""
        width = columns(self.stream) - 1  # the last column would wrap the cursor to the next line
        rest = readable("  ".join(part for part in (steps, speed, score, f"{clock} left") if part), self.stream)
        if len(rest) + SHORTEST_NAME + 2 > width:
            rest = readable("  ".join(part for part in (steps, score, f"{clock} left") if part), self.stream)
        name = cut(readable(self.name, self.stream), max(width - len(rest) - 2, SHORTEST_NAME))
        return f"{name}  {rest}"[:width]

    def say(self, sentence: str) -> None:
        """Print a sentence on its own line, wrapped on a terminal."""
        sentence = readable(f"{self.prefix}{sentence}", self.stream)
        if self.live:
            sentence = f"\r\x1b[2K{wrapped(sentence, '  ', width=columns(self.stream))}"
        self.stream.write(f"{sentence}\n")
        self.stream.flush()

    def done(self) -> None:
        """End the line."""
        if self.live:
            self.stream.write("\n")
            self.live = False
