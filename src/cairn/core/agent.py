"""What the loops ask of an agent. A Protocol: agents inherit nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from cairn.core.state import Part
from cairn.core.types import Array, Rollout, Spec, Transition

Metrics = Mapping[str, Tensor | Callable[[], Tensor]]  # a function is asked only when its metric is written


class Agent(Protocol):
    """`act`, and the parts that make up its state. `progress` is the share of the run that is done, set by the loop."""

    spec: Spec
    progress: float

    @property
    def cfg(self) -> Any: ...
    @property
    def policy_parts(self) -> Mapping[str, Part]:
        """What acting and judging need: networks and normalisers. This is what a saved policy holds."""

    @property
    def training_parts(self) -> Mapping[str, Part]:
        """What going on with training needs besides: optimisers, generators."""

    def act(self, obs: Tensor, *, explore: bool) -> Tensor: ...


class Memory(Protocol):
    """What an agent keeps of each environment's episode while it acts."""

    def forget(self, which: Array) -> None:
        """[N] bool: these begin an episode."""


@runtime_checkable
class Remembering(Protocol):
    """An agent whose actions depend on more than the observation."""

    def memory(self, count: int) -> Memory: ...
    def act(self, obs: Tensor, *, explore: bool, memory: Any = None) -> Tensor: ...


class OnPolicy(Agent, Protocol):
    """Learns from rollouts of its own. `horizon` is the steps of each environment in one; 0 means whole episodes."""

    @property
    def horizon(self) -> int: ...
    def update(self, rollout: Rollout) -> Metrics: ...


class OffPolicy(Agent, Protocol):
    """Learns from replayed transitions.

    Its config has capacity, batch_size, learning_starts, updates_per_step, gamma and n_step.
    """

    def update(self, batch: Transition) -> Metrics: ...
