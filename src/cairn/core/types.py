"""The plain data that walks through the house. Frozen; shapes in the docstrings; numpy until a tensor is needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from cairn.core.goals import Region

if TYPE_CHECKING:  # environment workers import this file, and must not pay for torch
    from torch import Tensor

Array = npt.NDArray[Any]
B = TypeVar("B")


@dataclass(frozen=True)
class Discrete:
    """Actions 0..n-1 inside Cairn; `start` is added at the environment's door."""

    n: int
    start: int = 0

    @property
    def described(self) -> str:
        """In a sentence."""
        return f"{self.n} discrete actions"

    def to_env(self, action: Array) -> Array:
        return action + self.start if self.start else action

    def from_env(self, action: Array) -> Array:
        return np.asarray(action) - self.start


@dataclass(frozen=True)
class Box:
    """Real actions of `shape`. Inside Cairn they are flat [N, dim] and, where bounds are finite, scaled to [-1, 1].

    Where the space is one of integers `dtype` is its type, and an action is rounded to the nearest at the
    environment's door.
    """

    shape: tuple[int, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    dtype: str = "float32"

    @property
    def dim(self) -> int:
        return len(self.low)

    @property
    def described(self) -> str:
        """In a sentence."""
        return f"continuous actions of {self.dim} numbers from {min(self.low):g} to {max(self.high):g}"

    @property
    def bounded(self) -> bool:
        """Whether every bound, and the way between them, is a finite float32."""
        with np.errstate(over="ignore", invalid="ignore"):
            low, high = self._bounds()
            return bool(np.isfinite(high - low).all())

    def _bounds(self) -> tuple[Array, Array]:
        return np.asarray(self.low, np.float32), np.asarray(self.high, np.float32)

    def to_env(self, action: Array) -> Array:
        """[N, dim] in Cairn's units -> [N, *shape] in the environment's, clipped to its bounds."""
        low, high = self._bounds()
        if self.bounded:
            action = low + (np.clip(action, -1.0, 1.0) + 1.0) * (0.5 * (high - low))
        else:
            action = np.clip(action, low, high)
        if self.dtype != "float32":
            action = np.rint(np.asarray(action, np.float64)).clip(self.low, self.high)
        return action.astype(self.dtype, copy=False).reshape(-1, *self.shape)

    def from_env(self, action: Array) -> Array:
        """[N, *shape] in the environment's units -> [N, dim] in Cairn's; 0 where only one value is allowed."""
        flat = np.asarray(action, np.float32).reshape(-1, self.dim)
        if not self.bounded:
            return flat
        low, high = self._bounds()
        width = high - low
        return np.where(width > 0, 2.0 * (flat - low) / np.where(width > 0, width, 1.0) - 1.0, 0.0).astype(np.float32)


ActionSpec = Discrete | Box


@dataclass(frozen=True)
class GoalSpec:
    """How a goal task's flat observation is laid out: [observation | achieved | desired].

    Where not `seen`, networks are shown the way from the achieved to the desired and not where that begins.
    """

    observation: int
    goal: int
    seen: bool = True

    @property
    def achieved(self) -> slice:
        return slice(self.observation, self.observation + self.goal)

    @property
    def desired(self) -> slice:
        return slice(self.observation + self.goal, self.observation + 2 * self.goal)


@dataclass(frozen=True)
class Spec:
    """What an agent knows of a task: the shapes it sees and the actions it may take."""

    obs_shape: tuple[int, ...]
    obs_dtype: str
    action: ActionSpec
    goal: GoalSpec | None = None
    reachable: Region | None = None  # where the task says that subgoals can be reached
    stack: int = 1  # observations are the last so many frames, oldest first, zeros before an episode's first

    @property
    def brief(self) -> str:
        """Its spaces in a sentence: observations (8,) and 4 discrete actions."""
        goal = f" with goals of {self.goal.goal}" if self.goal is not None else ""
        return f"observations {self.obs_shape}{goal} and {self.action.described}"

    @property
    def action_shape(self) -> tuple[int, ...]:
        return () if isinstance(self.action, Discrete) else (self.action.dim,)

    @property
    def action_dtype(self) -> str:
        return "int64" if isinstance(self.action, Discrete) else "float32"


@dataclass(frozen=True)
class Episode:
    """One finished episode of environment `env`. `success` is None where the task does not tell."""

    env: int
    total: float
    length: int
    success: bool | None


@dataclass(frozen=True)
class Step:
    """What one action did in each of N environments.

    next_obs   [N, ...] the true successor of the action, even where the episode ended
    obs        [N, ...] what the policy sees next: the successor, or the first observation of a new episode
    reward     [N] float32; terminated, truncated [N] bool
    valid      [N] bool; False where nothing was stepped (a reset row of a NEXT_STEP backend, a restarted worker)
    episodes   those that ended with this step
    """

    obs: Array
    next_obs: Array
    reward: Array
    terminated: Array
    truncated: Array
    valid: Array
    episodes: tuple[Episode, ...] = field(default=())


@dataclass(frozen=True)
class Transition:
    """A batch to learn from. reward is the n-step return; discount is γᵏ(1 - terminated), the weight of V(next_obs).

    obs, next_obs [B, ...]; action [B] or [B, dim]; reward, discount [B]
    """

    obs: Tensor
    action: Tensor
    reward: Tensor
    next_obs: Tensor
    discount: Tensor

    def to(self, device: str) -> Self:
        return _moved(self, device)

    def split(self, count: int) -> list[Self]:
        """As `count` batches, dealt like cards: each has its share of whatever lies at the front."""
        if count == 1:
            return [self]
        return [type(self)(**{k: v[i::count] for k, v in self.__dict__.items()}) for i in range(count)]


@dataclass(frozen=True)
class WeightedTransition(Transition):
    """A batch that was not drawn evenly; weight [B] is 1/(N P(i)), by which its mean becomes an even draw's."""

    weight: Tensor


@dataclass(frozen=True)
class SubgoalBatch:
    """Steps under a subgoal: what the low level of a hierarchy learns from.

    obs, next_obs [B, ...]; action [B] or [B, dim]; target [B, d] the point it was to make for; terminated [B] bool
    """

    obs: Tensor
    action: Tensor
    next_obs: Tensor
    target: Tensor
    terminated: Tensor

    def to(self, device: str) -> SubgoalBatch:
        return _moved(self, device)


@dataclass(frozen=True)
class Window:
    """Stretches of at most c steps, each under one subgoal: what the high level of a hierarchy learns from.

    obs [B, c, ...] and action [B, c] or [B, c, dim] of every step; inside [B, c] is False past a window's end, where
    its last step is repeated; next_obs [B, ...] is what came after it; target [B, d] the point it was to make for;
    reward [B] the sum of its rewards; terminated [B] bool
    """

    obs: Tensor
    action: Tensor
    inside: Tensor
    next_obs: Tensor
    target: Tensor
    reward: Tensor
    terminated: Tensor

    def to(self, device: str) -> Window:
        return _moved(self, device)


def _moved(batch: B, device: str) -> B:
    """A dataclass of tensors on another device."""
    if device == "cpu":
        return batch
    return type(batch)(**{k: v.to(device, non_blocking=True) for k, v in batch.__dict__.items()})


@dataclass(frozen=True)
class Rollout:
    """T steps of N environments in the order they happened; every field is [T, N, ...]."""

    obs: Tensor
    action: Tensor
    reward: Tensor
    next_obs: Tensor
    terminated: Tensor
    truncated: Tensor
    valid: Tensor
