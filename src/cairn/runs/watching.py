"""The interface between a run and its watchers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cairn.core.types import Episode


@dataclass(frozen=True)
class Moment:
    """What is known at a log: counters, newest metrics, best evaluation and target."""

    step: int
    progress: float
    updates: int
    values: Mapping[str, float]
    best: float = -math.inf
    target: float | None = None

    @property
    def solved(self) -> bool:
        """Whether the best evaluation reached the target."""
        return self.target is not None and self.best >= self.target


class Remark(Protocol):
    """A remark of a watcher; `str` gives its text."""

    @property
    def code(self) -> str: ...


class Watcher(Protocol):
    """Sees every finished episode and every log. It must be cheap and change nothing."""

    def episode(self, episode: Episode, terminated: bool) -> None:
        """Note an episode that ended, by termination or by truncation."""

    def check(self, now: Moment) -> Sequence[Remark]:
        """The new remarks at a log."""
