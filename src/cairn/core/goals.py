"""What a goal task pays: pure functions of what was achieved and what was desired, on any number of pairs at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

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
    """-1 a step, and 0 where the achieved lies within `threshold` of the desired; `ends` where arriving ends it."""

    threshold: float
    ends: bool = False
    cost: bool = False

    def reached(self, achieved: Array, desired: Array) -> Array:
        """‖achieved - desired‖ ≤ threshold"""
        apart = achieved - desired
        out: Array = np.einsum("...i,...i->...", apart, apart) <= self.threshold**2
        return out

    def reward(self, achieved: Array, desired: Array) -> Array:
        return self.reached(achieved, desired).astype(np.float32) - np.float32(1)

    def terminated(self, achieved: Array, desired: Array) -> Array:
        return self.reached(achieved, desired) if self.ends else np.zeros(achieved.shape[:-1], bool)
