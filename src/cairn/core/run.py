"""What a training loop asks of its run and tells it. `cairn.runs.run.Run` is the implementation."""

from __future__ import annotations

from typing import Any, Protocol

from cairn.core.agent import Metrics
from cairn.core.types import Array, Step


class TrainingRun(Protocol):
    """Counters, seeds, logs and checkpoints of one run."""

    step: int  # environment steps taken
    updates: int  # gradient steps taken
    notes: dict[str, Any]  # stored with the policy

    @property
    def seed(self) -> int: ...
    @property
    def device(self) -> str: ...
    @property
    def steps_in_all(self) -> int: ...
    @property
    def interrupted(self) -> str | None: ...
    @property
    def progress(self) -> float:
        """The share of the steps that is taken, in [0, 1]."""

    @property
    def lesson(self) -> Any:
        """What an imitator learns from; None for the others."""

    def going(self) -> bool:
        """False when the steps are taken, the target is held or a signal came."""

    def env_seeds(self) -> list[int]:
        """Seeds for a reset of every environment at this step."""

    def advance(self, step: Step, counted: Array) -> None:
        """Count the steps taken [N] bool and note the episodes that ended."""

    def log(self, metrics: Metrics) -> None: ...
    def checkpoint_due(self) -> bool: ...
    def house_keeping(self, agent: Any, restarts: int, replay: Any = None) -> bool:
        """Log, evaluate and save where due. True where the environments must now be reset (see `env_seeds`)."""
