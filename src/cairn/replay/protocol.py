"""What loops and checkpoints ask of a replay, and what a replay is made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from torch import Generator

from cairn.core.agent import Metrics
from cairn.core.goals import GoalRule
from cairn.core.types import Array, Spec, Step, Transition

BATCHES_AT_ONCE = 8


class Checkpointable(Protocol):
    """What a checkpoint asks of a replay: `cut` before a reset of every environment, `save` after it."""

    @property
    def generator(self) -> Generator: ...
    def cut(self) -> None: ...
    def save(self) -> dict[str, Any]: ...
    def load(self, saved: dict[str, Any]) -> None: ...


class Replay(Checkpointable, Protocol):
    """Add steps, sample batches."""

    @property
    def batches_at_once(self) -> int:
        """Batches that may be drawn together, before the first of them is learned from."""

    def __len__(self) -> int: ...
    def add(self, obs: Array, action: Array, step: Step) -> None: ...
    def sample(self, batch: int) -> Transition: ...
    def after_update(self, metrics: Metrics) -> None:
        """Called with the metrics of the update that the last batch was drawn for."""


class EvenDraw:
    """A replay whose draws do not depend on what was learned."""

    @property
    def batches_at_once(self) -> int:
        return BATCHES_AT_ONCE

    def after_update(self, metrics: Metrics) -> None:
        return None


@dataclass(frozen=True)
class ReplayPlan:
    """What a run makes its replay from."""

    spec: Spec
    num_envs: int
    generator: Generator
    slack: int  # rows kept beyond the capacity, so that a checkpoint's are not overwritten
    folder: Path | None  # of memory-mapped files; None: in memory
    device: str
    hindsight: str  # which goals replay is relabelled with; "off": none
    hindsight_k: int
    goal_rule: Callable[[], GoalRule]  # CairnError where the task has none
