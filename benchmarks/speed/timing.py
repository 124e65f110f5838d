"""What one measurement says, and the clock behind a time to target."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """`updates` is the optimiser's own count of its steps: proof that both sides did the same work.

    `score` is the mean return of the policy at the end, over the case's episodes, without exploration and without the
    clock: proof that both sides learn.
    """

    seconds: float
    steps: int
    updates: int
    memory_mb: float
    score: float

    @property
    def speed(self) -> float:
        return self.steps / self.seconds


class Clock:
    """Wall-clock seconds since it was made, less those spent inside `paused`."""

    def __init__(self) -> None:
        self.made = self.begun = time.perf_counter()

    @property
    def total(self) -> float:
        """With those spent inside `paused`."""
        return time.perf_counter() - self.made

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.begun

    @contextmanager
    def paused(self) -> Iterator[None]:
        at = time.perf_counter()
        yield
        self.begun += time.perf_counter() - at
