"""The interface of replays for loops and checkpoints, and the plan a replay is made from."""

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
    """A replay that checkpoints can hold. Call `cut` before all environments are reset, and `save` after it."""

    @property
    def generator(self) -> Generator:
        """The random generator of all samples."""

    def cut(self) -> None:
        """End all open episodes with the newest row: the environments are about to be reset."""

    def save(self) -> dict[str, Any]:
        """The state for a checkpoint, once mapped files are on disk."""

    def load(self, saved: dict[str, Any]) -> None:
        """Continue from a checkpoint. Raises CairnError where the files do not match it."""


class Replay(Checkpointable, Protocol):
    """Stores steps and samples batches; its length is the number of transitions that can be sampled."""

    @property
    def batches_at_once(self) -> int:
        """Batches that may be drawn together before the first of them is learned from."""

    def __len__(self) -> int: ...
    def add(self, obs: Array, action: Array, step: Step, recorded: Array) -> None:
        """Store one step of N environments: obs [N, ...], action [N] or [N, dim].

        `recorded` [N, k] is what the agent's memory recorded of it; k is 0 without one.
        """

    def sample(self, batch: int) -> Transition:
        """A batch of `batch` transitions."""

    def after_update(self, metrics: Metrics) -> None:
        """Receive the metrics of the update with the last batch."""


class EvenDraw:
    """Base of replays whose sampling does not depend on what was learned."""

    @property
    def batches_at_once(self) -> int:
        """Several batches can be drawn together."""
        return BATCHES_AT_ONCE

    def after_update(self, metrics: Metrics) -> None:
        """Do nothing."""
        return None


@dataclass(frozen=True)
class ReplayPlan:
    """What a run makes its replay from."""

    spec: Spec
    num_envs: int
    generator: Generator
    slack: int  # rows beyond the capacity, so that those of a checkpoint are not overwritten
    folder: Path | None  # folder of memory-mapped files; None: in memory
    device: str
    hindsight: str  # strategy of hindsight replay; "off": none
    hindsight_k: int
    goal_rule: Callable[[], GoalRule]  # raises CairnError where the task has none
