"""Reward rules of goal tasks: pure functions of achieved and desired goals, for any number of pairs at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from cairn.core.types import Array


class GoalRule(Protocol):
    """Maps achieved and desired goals [..., goal] to [...]. It needs no environment, so hindsight can relabel with it.

    With `cost`, the reward may also hold a part that does not depend on the goal, such as a penalty for touching a
    wall.
    Hindsight keeps that part when it changes the goal. It also keeps a termination that the goal does not explain.
    """

    @property
    def cost(self) -> bool: ...
    def reward(self, achieved: Array, desired: Array) -> Array:
        """[...] float32: the reward for these goals, without the part that `cost` announces."""

    def terminated(self, achieved: Array, desired: Array) -> Array:
        """[...] bool: whether the episode ends because the goal is reached."""


@dataclass(frozen=True)
class Within:
    """Pays `base` each step, and 1 more while achieved is within `threshold` of desired: by default -1 and 0.

    With `ends`, reaching the goal ends the episode.
    """

    threshold: float
    ends: bool = False
    cost: bool = False
    base: float = -1.0

    def reached(self, achieved: Array, desired: Array) -> Array:
        """[...] bool: ‖achieved - desired‖ ≤ threshold."""
        apart = achieved - desired
        out: Array = np.einsum("...i,...i->...", apart, apart) <= self.threshold**2
        return out

    def reward(self, achieved: Array, desired: Array) -> Array:
        """[...] float32: `base`, plus 1 where the goal is reached."""
        return self.reached(achieved, desired).astype(np.float32) + np.float32(self.base)

    def terminated(self, achieved: Array, desired: Array) -> Array:
        """[...] bool: where the goal is reached, if that ends the episode."""
        return self.reached(achieved, desired) if self.ends else np.zeros(achieved.shape[:-1], bool)


@dataclass(frozen=True)
class Distance:
    """The reward is the negative distance between achieved and desired, times `scale`. No episode ends by it."""

    scale: float = 1.0
    cost: bool = False

    def reward(self, achieved: Array, desired: Array) -> Array:
        """[...] float32: -scale · ‖achieved - desired‖."""
        apart = achieved - desired
        out: Array = np.sqrt(np.einsum("...i,...i->...", apart, apart)) * np.float32(-self.scale)
        return out

    def terminated(self, achieved: Array, desired: Array) -> Array:
        """[...] bool: False everywhere."""
        return np.zeros(achieved.shape[:-1], bool)


Corner = tuple[float, ...]


@dataclass(frozen=True)
class Region:
    """Where a point may lie: a union of boxes (low, high) over the first axes. The other axes are unbounded.

    A task can state one as `reachable`: the region of reachable subgoals. It is plain data, so that a policy file can
    hold it.
    """

    boxes: tuple[tuple[Corner, Corner], ...]

    def nearest(self, point: Any) -> Any:
        """The nearest points of the region, [..., d] for points [..., d]. Takes arrays and tensors."""
        array = isinstance(point, np.ndarray)
        like: Any = partial(np.asarray, dtype=point.dtype) if array else point.new_tensor
        where: Any = np.where if array else lambda which, a, b: a.where(which, b)
        out = point.copy() if array else point.clone()
        best = head = point[..., : len(self.boxes[0][0])]
        least = head[..., :1] * 0 + np.inf
        for low, high in self.boxes:  # without branches, because exported policies contain this
            inside = head.clip(like(low), like(high))
            apart = ((inside - head) ** 2).sum(-1, keepdims=True)
            best = where(apart < least, inside, best)
            least = where(apart < least, apart, least)
        out[..., : head.shape[-1]] = best
        return out

    def holds(self, point: Array) -> Array:
        """[...] bool: whether points [..., d] lie inside."""
        out: Array = (self.nearest(point) == point).all(-1)
        return out
