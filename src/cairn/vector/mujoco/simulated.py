"""What a task is, beside its physics: the arithmetic of its observations, rewards and terminations, for N at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from cairn.core.types import Array
from cairn.envs.ant import must_be_finite
from cairn.native.physics import Plan, Rows
from cairn.vector.checks import blame


class Simulated(ABC):
    """The tasks of N environments that were made alike.

    Its arithmetic is that of the environment's own `step`, with the same types and in the same order, so that results
    are equal to the bit. All settings are read from the environment. `rows` are the numbers that physics leaves.
    """

    def __init__(self, envs: Sequence[Any], holders: Sequence[Any] = ()) -> None:
        """`envs` are without wrappers; `holders` have their `model` and `data`, if they do not themselves."""
        self.envs, self.env, self.holders = list(envs), envs[0], list(holders or envs)
        self.model = self.holders[0].model
        self.success: Array = np.full(len(envs), -1, np.int8)  # of each environment; -1 where the task has none
        self.rows: Rows

    @abstractmethod
    def plan(self) -> Plan:
        """What a step of the physics is made of."""

    def act(self, action: Array) -> None:
        """Before a step: write `rows.given` for actions [N, dim], and keep what rewards need of the state before."""
        self.rows.given["ctrl"][:] = action

    @abstractmethod
    def observe(self, out: Array) -> None:
        """After a step: write observations into `out` [N, width]."""

    @abstractmethod
    def judge(self, action: Array, obs: Array) -> tuple[Array, Array]:
        """After `observe` wrote `obs`: reward [N] and terminated [N] bool."""

    def begun(self, i: int) -> None:  # noqa: B027, many tasks keep nothing
        """Environment `i` was reset by its own method."""


def weighted(weight: Any, sums: Array) -> Array:
    """weight · sums [N] float32, rounded as `weight * np.float32(...)` is: NumPy 1 and 2 differ."""
    out: Array = weight * sums.astype(np.result_type(weight * np.float32(1)), copy=False)
    return out


def squared_sum(x: Array) -> Array:
    """The sum of squares of each row [N, ...], in the order in which NumPy sums one row."""
    out: Array = np.square(x).reshape(len(x), -1).sum(axis=1)
    return out


def lengths(x: Array) -> Array:
    """The length of each row [N, 3], by a product, as `np.linalg.norm` of one row."""
    out: Array = np.sqrt(x[:, None, :] @ x[:, :, None])[:, 0, 0]
    return out


def refuse_not_finite_actions(action: Array) -> None:
    """Raise EnvError, as the environment would, for the first action that is not finite."""
    if np.isfinite(action).all():
        return
    for i, one in enumerate(action):
        try:
            must_be_finite(one)
        except ValueError as error:
            raise blame(i, error) from error
