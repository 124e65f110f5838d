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

    With `ends`, reaching the goal ends the episode. Takes arrays and tensors.
    """

    threshold: float
    ends: bool = False
    cost: bool = False
    base: float = -1.0

    def reached(self, achieved: Any, desired: Any) -> Any:
        """[...] bool: ‖achieved - desired‖ ≤ threshold."""
        return _squared(achieved - desired) <= self.threshold**2

    def reward(self, achieved: Any, desired: Any) -> Any:
        """[...] float32: `base`, plus 1 where the goal is reached."""
        reached = self.reached(achieved, desired)
        as_float = reached.astype(np.float32) if _of_numpy(reached) else reached.float()
        return as_float + np.float32(self.base)

    def terminated(self, achieved: Any, desired: Any) -> Any:
        """[...] bool: where the goal is reached, if that ends the episode."""
        return self.reached(achieved, desired) if self.ends else _nowhere(achieved)


@dataclass(frozen=True)
class Distance:
    """The reward is the negative distance between achieved and desired, times `scale`. No episode ends by it.

    Takes arrays and tensors.
    """

    scale: float = 1.0
    cost: bool = False

    def reward(self, achieved: Any, desired: Any) -> Any:
        """[...] float32: -scale · ‖achieved - desired‖."""
        squared = _squared(achieved - desired)
        return (np.sqrt(squared) if _of_numpy(squared) else squared.sqrt()) * np.float32(-self.scale)

    def terminated(self, achieved: Any, desired: Any) -> Any:
        """[...] bool: False everywhere."""
        return _nowhere(achieved)


def _of_numpy(x: Any) -> bool:
    """Whether this is an array or a number of NumPy; else it is a tensor. Workers do not import torch."""
    return isinstance(x, np.ndarray | np.generic)


def _squared(apart: Any) -> Any:
    """‖apart‖² over the last axis."""
    return np.einsum("...i,...i->...", apart, apart) if _of_numpy(apart) else apart.square().sum(-1)


def _nowhere(points: Any) -> Any:
    """[...] bool: False for points [..., d]."""
    shape = points.shape[:-1]
    return np.zeros(shape, bool) if _of_numpy(points) else points.new_zeros(shape).bool()


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
