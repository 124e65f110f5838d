"""What a run tells whoever watches it, and what it is told back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cairn.core.types import Episode


@dataclass(frozen=True)
class Moment:
    """What is known at a log: the run's counters, its newest metrics, its best evaluation and the target."""

    step: int
    progress: float
    updates: int
    values: Mapping[str, float]
    best: float = -math.inf
    target: float | None = None

    @property
    def solved(self) -> bool:
        return self.target is not None and self.best >= self.target


class Remark(Protocol):
    """Something worth saying once; printed as it prints itself."""

    @property
    def code(self) -> str: ...


class Watcher(Protocol):
    """Told of every episode that ends and asked at every log. It must be cheap and change nothing."""

    def episode(self, episode: Episode, terminated: bool) -> None: ...
    def check(self, now: Moment) -> Sequence[Remark]: ...
