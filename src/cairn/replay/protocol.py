"""What the off-policy loop asks of a replay."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Generator

from cairn.core.types import Array, Step, Transition


class Checkpointable(Protocol):
    """What a checkpoint asks of a replay: `cut` before a reset of every environment, `save` after it."""

    @property
    def generator(self) -> Generator: ...
    def cut(self) -> None: ...
    def save(self) -> dict[str, Any]: ...
    def load(self, saved: dict[str, Any]) -> None: ...


class Replay(Checkpointable, Protocol):
    """Add steps, sample batches."""

    def __len__(self) -> int: ...
    def add(self, obs: Array, action: Array, step: Step) -> None: ...
    def sample(self, batch: int) -> Transition: ...
