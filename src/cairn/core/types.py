"""Plain data types that all packages share. They are frozen, and numpy until a tensor is needed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Self, TypeVar

import numpy as np

from cairn.core.actions import Array as Array
from cairn.core.actions import Box as Box
from cairn.core.actions import Discrete as Discrete
from cairn.core.actions import MultiDiscrete as MultiDiscrete
from cairn.core.composite_actions import ActionSpec as ActionSpec
from cairn.core.composite_actions import Composite as Composite
from cairn.core.goals import Region

if TYPE_CHECKING:  # environment workers import this file and should not import torch
    from torch import Tensor

B = TypeVar("B")


@dataclass(frozen=True)
class GoalSpec:
    """Layout of a goal task's flat observation: [observation | achieved | desired], the goals of width `goal`.

    In a row of bytes `observation` counts bytes, and each of the `goal` numbers takes `itemsize` = 4 of them.
    """

    observation: int
    goal: int
    seen: bool = True  # False: networks get desired - achieved without achieved itself
    itemsize: int = 1

    @property
    def achieved(self) -> slice:
        """Columns of the achieved goal."""
        return slice(self.observation, self.observation + self.itemsize * self.goal)

    @property
    def desired(self) -> slice:
        """Columns of the desired goal."""
        return slice(self.achieved.stop, self.achieved.stop + self.itemsize * self.goal)

    def read(self, rows: Array, which: slice) -> Array:
        """The numbers [..., goal] of `achieved` or `desired` in rows [..., width]."""
        found = rows[..., which]
        return found if self.itemsize == 1 else np.ascontiguousarray(found).view(np.float32)

    def write(self, rows: Array, goal: Array) -> None:
        """Put other desired goals [..., goal] into rows [..., width]."""
        rows[..., self.desired] = goal if self.itemsize == 1 else np.ascontiguousarray(goal, np.float32).view(np.uint8)


@dataclass(frozen=True)
class ObsPart:
    """A part of an observation that is made of several.

    numbers   an array of floats
    image     bytes [height, width, channels] or channels first
    category  one whole number below `n`, which networks embed
    """

    name: str
    form: Literal["numbers", "image", "category"]
    shape: tuple[int, ...]
    n: int = 0

    @property
    def entries(self) -> int:
        """The values in it."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Spec:
    """The observation and action spaces of a task, as an agent sees them.

    An observation of several `parts` is one row of them, in order. Where one of them is an image the row is of bytes,
    and a number takes four of them; otherwise it is of floats. The last `masked` entries of a row tell, with 1 and 0,
    which options of the action are allowed; networks do not see them.
    """

    obs_shape: tuple[int, ...]
    obs_dtype: str
    action: ActionSpec
    goal: GoalSpec | None = None
    reachable: Region | None = None  # region of reachable subgoals, if the task states one
    stack: int = 1  # frames per observation, oldest first; zeros before the start of an episode
    parts: tuple[ObsPart, ...] = ()  # (): one array
    masked: int = 0  # 0: every action is always allowed

    @property
    def brief(self) -> str:
        """The spaces as part of a sentence: observations (8,) and 4 discrete actions."""
        goal = f" with goals of {self.goal.goal}" if self.goal is not None else ""
        masks = ", some of them forbidden at times" if self.masked else ""
        return f"observations {self.seen}{goal} and {self.action.described}{masks}"

    @property
    def seen(self) -> str:
        """What networks see, in a few words: "(8,)", or "camera (64, 64, 3), speed (2,)"."""
        if self.parts:
            return ", ".join(f"{part.name} {part.shape}" for part in self.parts)
        return str(self.obs_shape if not self.masked else (self.obs_shape[0] - self.masked,))

    @property
    def mixed(self) -> bool:
        """Whether there are parts that are not plain numbers."""
        return any(part.form != "numbers" for part in self.parts)

    @property
    def in_bytes(self) -> bool:
        """Whether a row of parts is of bytes."""
        return bool(self.parts) and self.obs_dtype == "uint8"

    def alike(self, other: Spec) -> bool:
        """Whether a policy of the one fits the other: actions and observations are equal, part by part.

        Policies of 0.1 do not know of parts.
        """
        mine, theirs = ((one.obs_shape, one.obs_dtype, one.action, one.masked) for one in (self, other))
        return mine == theirs and (self.parts == other.parts or not self.parts or not other.parts)

    @property
    def action_shape(self) -> tuple[int, ...]:
        """Shape of one action inside Cairn."""
        return self.action.shape_inside

    @property
    def action_dtype(self) -> str:
        """NumPy type of an action inside Cairn."""
        return self.action.dtype_inside


@dataclass(frozen=True)
class Episode:
    """A finished episode of environment `env`; `success` is None where the task does not report it."""

    env: int
    total: float
    length: int
    success: bool | None


@dataclass(frozen=True)
class Step:
    """The result of one action in each of N environments.

    next_obs   [N, ...] the true successor of the action, even where the episode ended
    obs        [N, ...] the next input of the policy: the successor, or the first observation of a new episode
    reward     [N] float32; terminated, truncated [N] bool
    valid      [N] bool; False where no step was taken (a reset row of a NEXT_STEP backend, a restarted worker)
    episodes   the episodes that ended with this step
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
    """A training batch. reward is the n-step return; discount is γᵏ(1 - terminated), the weight of V(next_obs).

    obs, next_obs [B, ...]; action [B] or [B, dim]; reward, discount [B]
    """

    obs: Tensor
    action: Tensor
    reward: Tensor
    next_obs: Tensor
    discount: Tensor

    def to(self, device: str) -> Self:
        """The batch on another device."""
        return _moved(self, device)

    def split(self, count: int) -> list[Self]:
        """`count` batches; row i goes to batch i mod `count`, so that each has its share of the first rows."""
        if count == 1:
            return [self]
        return [type(self)(**{k: v[i::count] for k, v in self.__dict__.items()}) for i in range(count)]


@dataclass(frozen=True)
class WeightedTransition(Transition):
    """A batch from prioritised replay; weight [B] is 1/(N P(i)), the importance weight."""

    weight: Tensor


@dataclass(frozen=True)
class Sequences(Transition):
    """B sequences of consecutive steps for an agent with memory: first steps that only warm its state up, then L steps.

    obs     [T, B, ...] of all steps, time first: the warm-up, the L steps, and n - 1 more that n-step returns look at
    begins  [T, B] bool: where a step begins an episode, whose state is zero
    state   [B, width] before the first step
    after   [L · B] which of the steps behind the warm-up, in rows of B, has `next_obs` as its successor
    weight  [L · B] of a step in the mean: 0 where there is none

    action, reward, next_obs and discount [L · B, ...] are those of the L steps, as in `Transition`.
    """

    begins: Tensor
    state: Tensor
    after: Tensor
    weight: Tensor


@dataclass(frozen=True)
class SubgoalBatch:
    """Steps under a subgoal, from which the low level of a hierarchy learns.

    obs, next_obs [B, ...]; action [B] or [B, dim]; target [B, d] the point to reach; terminated [B] bool
    """

    obs: Tensor
    action: Tensor
    next_obs: Tensor
    target: Tensor
    terminated: Tensor

    def to(self, device: str) -> SubgoalBatch:
        """The batch on another device."""
        return _moved(self, device)


@dataclass(frozen=True)
class Window:
    """Windows of at most c steps, each under one subgoal, from which the high level of a hierarchy learns.

    obs [B, c, ...], action [B, c] or [B, c, dim]; inside [B, c] is False past the end of a window, where the last step
    is
    repeated; next_obs [B, ...]; target [B, d] the point to reach; reward [B] summed; terminated [B] bool
    """

    obs: Tensor
    action: Tensor
    inside: Tensor
    next_obs: Tensor
    target: Tensor
    reward: Tensor
    terminated: Tensor

    def to(self, device: str) -> Window:
        """The batch on another device."""
        return _moved(self, device)


def _moved(batch: B, device: str) -> B:
    """A dataclass of tensors on another device."""
    if device == "cpu":
        return batch
    return type(batch)(**{k: v.to(device, non_blocking=True) for k, v in batch.__dict__.items()})


@dataclass(frozen=True)
class Rollout:
    """T steps of N environments in the order they happened; every field is [T, N, ...].

    state  what an agent with memory knew before each step
    """

    obs: Tensor
    action: Tensor
    reward: Tensor
    next_obs: Tensor
    terminated: Tensor
    truncated: Tensor
    valid: Tensor
    state: Tensor | None = None
