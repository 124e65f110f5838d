"""The interface between a training loop and its run. `cairn.runs.run.Run` implements it."""

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
    def seed(self) -> int:
        """The root seed, from which all random streams are derived."""

    @property
    def device(self) -> str:
        """The torch device that the agent learns on."""

    @property
    def steps_in_all(self) -> int:
        """Environment steps after which the run ends."""

    @property
    def interrupted(self) -> str | None:
        """Why the run was told to stop, such as a signal; None while it was not."""

    @property
    def progress(self) -> float:
        """The share of the steps that were taken, in [0, 1]."""

    @property
    def lesson(self) -> Any:
        """What an imitation algorithm learns from; None for other algorithms."""

    def going(self) -> bool:
        """False once all steps are taken, the target is held, or a signal arrived."""

    def env_seeds(self) -> list[int]:
        """Seeds to reset every environment with at this step."""

    def advance(self, step: Step, counted: Array) -> None:
        """Count the steps taken, `counted` [N] bool, and record the episodes that ended."""

    def meet(self, valid: Any = None) -> None:
        """Called when steps were counted: where several processes learn, add up the steps of all.

        On-policy, `valid` [T, N] tells which steps of the rollout count; some are left out where another learner has
        fewer, so that all make as many updates.
        """

    def log(self, metrics: Metrics) -> None:
        """Record metrics of an update; they are written when a log is due."""

    def checkpoint_due(self) -> bool:
        """Whether `house_keeping` will save a checkpoint now."""

    def house_keeping(self, agent: Any, restarts: int, replay: Any = None) -> bool:
        """Log, evaluate and save where due. True: reset the environments now (see `env_seeds`)."""
