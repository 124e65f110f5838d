"""What loops, collectors and checkpoints ask of an agent, and the defaults that most agents share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

from torch import Tensor

from cairn.core.errors import CairnError
from cairn.core.state import Part
from cairn.core.types import Array, Rollout, Spec, Transition

Metrics = Mapping[str, Tensor | Callable[[], Tensor]]  # a function is called only when its metric is written


class Memory(Protocol):
    """State of N open episodes that an agent needs to act: a hierarchy's subgoals, for example."""

    @property
    def target(self) -> Tensor | None:
        """[N, d] the points that a hierarchy's low level makes for; None for an agent without subgoals."""

    def forget(self, which: Array) -> None:
        """[N] bool: these begin an episode."""

    def recorded(self) -> Array:
        """[N, k] what the replay stores beside each step: a hierarchy's subgoals."""


class Agent(Protocol):
    """`act`, and the parts that make up its state. `progress` is the share of the run that is done, set by the loop."""

    spec: Spec
    progress: float

    @property
    def cfg(self) -> Any: ...
    @property
    def policy_parts(self) -> Mapping[str, Part]:
        """Networks and normalisers, which acting needs. This is what a saved policy holds."""

    @property
    def training_parts(self) -> Mapping[str, Part]:
        """Optimisers and generators, which only training needs."""

    @property
    def levels(self) -> Mapping[str, Agent]:
        """The agents that a hierarchy is made of, by name; empty for a flat agent."""

    @property
    def positions(self) -> slice | None:
        """The columns of the observation that subgoals are points in; None for a flat agent."""

    @property
    def act(self) -> Callable[..., Tensor]:
        """act(obs, *, explore) -> actions for obs [N, ...]; with `memory=` where the agent has one."""

    def memory(self, count: int) -> Any:
        """A new `Memory` of `count` episodes, which `act` then takes as `memory=`; None where the agent needs none."""

    def settle(self) -> None:
        """Called after the policy parts were filled from a saved policy."""

    def judges_actions(self) -> bool:
        """Whether `action_value` works."""

    def action_value(self, obs: Tensor, action: Tensor) -> Tensor:
        """Q(s, a) [B] of observations [B, ...] and actions [B] or [B, dim]."""


class BaseAgent:
    """The defaults of an agent without levels, memory and action values. Agents inherit it and nothing else.

    An agent is made as `Agent(cfg, spec, *, seed, device)` and sets `cfg`, `spec`, `progress`, `policy_parts` and
    `training_parts`. It has `act` and `update`, which returns metrics. On-policy it also has `horizon`.
    """

    levels: Mapping[str, Agent] = MappingProxyType({})
    positions: slice | None = None

    def memory(self, count: int) -> Any:
        return None

    def settle(self) -> None:
        return None

    def judges_actions(self) -> bool:
        return False

    def action_value(self, obs: Tensor, action: Tensor) -> Tensor:
        raise CairnError(f"{type(self).__name__} has no Q(s, a).")


class OnPolicy(Agent, Protocol):
    """Learns from rollouts of its own. `horizon` is the steps of each environment in one; 0 means whole episodes."""

    @property
    def horizon(self) -> int: ...
    def update(self, rollout: Rollout) -> Metrics: ...


class ReplayConfig(Protocol):
    """The settings that the off-policy loop reads."""

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
    """A config whose replay is drawn evenly and keeps observations as they are; DQN's has settings for both."""

    priority: ClassVar[float] = 0.0
    frame_bytes: ClassVar[int] = 0


@dataclass(frozen=True)
class Learner:
    """A config that learns from a replay of transitions, one of which takes `every` steps; not where it is frozen."""

    config: ReplayConfig
    every: int = 1
    frozen: bool = False


class OffPolicy(Agent, Protocol):
    """Learns from replayed transitions. Its config is a `ReplayConfig`."""

    def update(self, batch: Transition) -> Metrics: ...
