"""The agent protocols that training loops, collectors and checkpoints rely on, and the shared defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

from torch import Tensor

from cairn.core.errors import CairnError
from cairn.core.policy_module import PolicyModule
from cairn.core.state import Part
from cairn.core.types import Array, Rollout, Spec, Transition

Metrics = Mapping[str, Tensor | Callable[[], Tensor]]  # functions are called only when a log is due


class Memory(Protocol):
    """State of N open episodes that an agent needs to act: the subgoals of a hierarchy, or what a network remembers."""

    @property
    def target(self) -> Tensor | None:
        """[N, d] the points that a hierarchy's low level is to reach; None for an agent without subgoals."""

    def forget(self, which: Array) -> None:
        """Reset the state of the episodes `which` [N] bool, because they begin."""

    def recorded(self) -> Array:
        """[N, k] what is stored with each step: the subgoals of a hierarchy, or the states before it."""


class Agent(Protocol):
    """An agent acts; its parts hold its state. The loop sets `progress`, the finished share of the run in [0, 1]."""

    spec: Spec
    progress: float
    own: Any  # networks of the user's own (`nets.own.Own`), or None

    @property
    def cfg(self) -> Any: ...

    @property
    def policy_parts(self) -> Mapping[str, Part]:
        """Networks and normalisers, which acting needs. A saved policy holds these."""

    @property
    def training_parts(self) -> Mapping[str, Part]:
        """Optimisers and generators, which only training needs."""

    @property
    def levels(self) -> Mapping[str, Agent]:
        """The agents of a hierarchy by name; empty for a flat agent."""

    @property
    def positions(self) -> slice | None:
        """The columns of the observation in which subgoals are points; None for a flat agent."""

    @property
    def act(self) -> Callable[..., Tensor]:
        """The function `act(obs, *, explore)`: actions for obs [N, ...]; also `memory=` where the agent has one."""

    def memory(self, count: int) -> Any:
        """A new `Memory` for `count` episodes, to pass to `act`; None where the agent needs none."""

    def settle(self) -> None:
        """Update derived state after the policy parts were loaded from a saved policy."""

    def policy_module(self) -> PolicyModule:
        """What `cairn export` writes to ONNX and TorchScript files."""

    def judges_actions(self) -> bool:
        """Whether the agent has `action_value`."""

    def action_value(self, obs: Tensor, action: Tensor) -> Tensor:
        """Q(s, a) [B] for observations [B, ...] and actions [B] or [B, dim]."""


class BaseAgent:
    """The defaults of an agent without levels, memory and action values. Agents inherit from it.

    An agent is made as `Agent(cfg, spec, *, seed, device)` and sets `cfg`, `spec`, `progress`, `policy_parts` and
    `training_parts`. It has `act` and `update`, which returns metrics. An on-policy agent also has `horizon`.
    """

    levels: Mapping[str, Agent] = MappingProxyType({})
    positions: slice | None = None
    own: Any = None
    core: Any = None  # the recurrent cell of an agent with memory, `nets.recurrent.Recurrent`

    def memory(self, count: int) -> Any:
        return None if self.core is None else self.core.memory(count)

    def settle(self) -> None:
        return None

    def policy_module(self) -> PolicyModule:
        memory = self.memory(1)
        return PolicyModule(self) if memory is None else memory.policy_module(self)

    def judges_actions(self) -> bool:
        return False

    def action_value(self, obs: Tensor, action: Tensor) -> Tensor:
        raise CairnError(f"{type(self).__name__} has no Q(s, a).")


class OnPolicy(Agent, Protocol):
    """Learns by `update` from its own rollouts of `horizon` steps per environment (0: of whole episodes)."""

    @property
    def horizon(self) -> int: ...
    def update(self, rollout: Rollout) -> Metrics: ...


class ReplayConfig(Protocol):
    """The settings that the off-policy loop reads. The comments of `DQNConfig` explain them."""

    @property
    def capacity(self) -> int: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def learning_starts(self) -> int: ...
    @property
    def updates_per_step(self) -> float: ...
    @property
    def gamma(self) -> float: ...
    @property
    def n_step(self) -> int: ...
    @property
    def priority(self) -> float: ...
    @property
    def frame_bytes(self) -> int: ...


REPLAY_SETTINGS: tuple[str, ...] = ("capacity", "batch_size", "learning_starts", "updates_per_step", "gamma", "n_step")
REPLAY_SETTINGS += ("priority", "frame_bytes")


class PlainReplay:
    """Base of configs with uniform replay of whole observations. Only DQN has settings for both."""

    priority: ClassVar[float] = 0.0
    frame_bytes: ClassVar[int] = 0


@dataclass(frozen=True)
class Learner:
    """A config that learns from a replay. One transition spans `every` steps; a `frozen` one is not trained."""

    config: ReplayConfig
    every: int = 1
    frozen: bool = False


class OffPolicy(Agent, Protocol):
    """Learns by `update` from batches of transitions [B]. Its config is a `ReplayConfig`."""

    def update(self, batch: Transition) -> Metrics: ...
