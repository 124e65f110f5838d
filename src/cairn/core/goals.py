"""What a goal task pays: pure functions of what was achieved and what was desired, on any number of pairs at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from cairn.core.types import Array


class GoalRule(Protocol):
    """achieved, desired [..., goal] -> [...]. No environment stands behind it, so hindsight may ask it anything.

    `cost` says that a step's reward may hold, besides, something that does not depend on the goal (a wall was touched):
    hindsight keeps that part when it changes the goal. So it does with a termination that the goal does not explain.
    """

    @property
    def cost(self) -> bool: ...
    def reward(self, achieved: Array, desired: Array) -> Array: ...
    def terminated(self, achieved: Array, desired: Array) -> Array: ...


@dataclass(frozen=True)
class Within:
    """`base` a step, and 1 more where the achieved lies within `threshold` of the desired: -1 and 0, if not 0 and 1.

    `ends` where arriving ends the episode.
    """

    threshold: float
    ends: bool = False
    cost: bool = False
    base: float = -1.0

    def reached(self, achieved: Array, desired: Array) -> Array:
        """‖achieved - desired‖ ≤ threshold"""
        apart = achieved - desired
        out: Array = np.einsum("...i,...i->...", apart, apart) <= self.threshold**2
        return out

    def reward(self, achieved: Array, desired: Array) -> Array:
        return self.reached(achieved, desired).astype(np.float32) + np.float32(self.base)

    def terminated(self, achieved: Array, desired: Array) -> Array:
        return self.reached(achieved, desired) if self.ends else np.zeros(achieved.shape[:-1], bool)


@dataclass(frozen=True)
class Distance:
    """The reward is how far the achieved lies from the desired, negative and times `scale`; arriving ends nothing."""

    scale: float = 1.0
    cost: bool = False

    def reward(self, achieved: Array, desired: Array) -> Array:
        """-scale · ‖achieved - desired‖"""
        apart = achieved - desired
        out: Array = np.sqrt(np.einsum("...i,...i->...", apart, apart)) * np.float32(-self.scale)
        return out

    def terminated(self, achieved: Array, desired: Array) -> Array:
        return np.zeros(achieved.shape[:-1], bool)


Corner = tuple[float, ...]


@dataclass(frozen=True)
class Region:
    """Where a point may lie: a union of boxes (low, high) over the first axes; further axes are free.

    A task that has one as `reachable` says which subgoals can be reached. Plain data: a saved policy keeps it.
    """

    boxes: tuple[tuple[Corner, Corner], ...]

    def nearest(self, point: Any) -> Any:
        """[..., d] -> [..., d]: each point itself where it lies inside, else the nearest that does. Arrays, tensors."""
        array = isinstance(point, np.ndarray)
        like: Any = partial(np.asarray, dtype=point.dtype) if array else point.new_tensor
        out = point.copy() if array else point.clone()
        head, best = point[..., : len(self.boxes[0][0])], out[..., : len(self.boxes[0][0])]
        least = head[..., :1] * 0 + np.inf
        for low, high in self.boxes:
            inside = head.clip(like(low), like(high))
            apart = ((inside - head) ** 2).sum(-1, keepdims=True)
            closer = (apart < least)[..., 0]
            best[closer], least[closer] = inside[closer], apart[closer]
        return out

    def holds(self, point: Array) -> Array:
        """[..., d] -> [...] bool"""
        out: Array = (self.nearest(point) == point).all(-1)
        return out
