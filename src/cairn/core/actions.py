"""Action spaces as agents see them, and the conversion to an environment's own actions and back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Discrete:
    """Actions 0..n-1 inside Cairn. The environment's own actions begin at `start`."""

    n: int
    start: int = 0

    @property
    def described(self) -> str:
        """The space as part of a sentence."""
        return f"{self.n} discrete actions"

    @property
    def shape_inside(self) -> tuple[int, ...]:
        """The shape of one action inside Cairn."""
        return ()

    @property
    def dtype_inside(self) -> str:
        """The NumPy type of an action inside Cairn."""
        return "int64"

    @property
    def choices(self) -> tuple[int, ...]:
        """The number of options of each discrete choice; () if there is none."""
        return (self.n,)

    @property
    def outputs(self) -> int:
        """Outputs of a network for one action: a logit per option, a mean per real number."""
        return self.n

    def to_env(self, action: Array) -> Array:
        """Cairn's actions [N] -> the environment's."""
        return action + self.start if self.start else action

    def from_env(self, action: Array) -> Array:
        """The environment's actions [N] -> Cairn's."""
        return np.asarray(action) - self.start


@dataclass(frozen=True)
class MultiDiscrete:
    """Several discrete choices at once, [N, k] inside Cairn, each from 0 to nvec - 1.

    The environment's actions have `shape` and begin at `start`. MultiBinary is the case of two options each.
    """

    nvec: tuple[int, ...]
    start: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: str = "int64"

    @property
    def described(self) -> str:
        """The space as part of a sentence."""
        options = f"{self.nvec[0]}" if len(set(self.nvec)) == 1 else f"{min(self.nvec)} to {max(self.nvec)}"
        return f"{len(self.nvec)} discrete choices of {options} options"

    @property
    def shape_inside(self) -> tuple[int, ...]:
        """The shape of one action inside Cairn."""
        return (len(self.nvec),)

    @property
    def dtype_inside(self) -> str:
        """The NumPy type of an action inside Cairn."""
        return "int64"

    @property
    def choices(self) -> tuple[int, ...]:
        """The number of options of each discrete choice; () if there is none."""
        return self.nvec

    @property
    def outputs(self) -> int:
        """Outputs of a network for one action: a logit per option, a mean per real number."""
        return sum(self.nvec)

    def to_env(self, action: Array) -> Array:
        """Cairn's actions [N, k] -> the environment's [N, *shape]."""
        given: Array = (action + np.asarray(self.start)).astype(self.dtype, copy=False)
        return given.reshape(-1, *self.shape)

    def from_env(self, action: Array) -> Array:
        """The environment's actions [N, *shape] -> Cairn's [N, k]."""
        inside: Array = np.asarray(action, np.int64).reshape(-1, len(self.nvec)) - np.asarray(self.start)
        return inside


@dataclass(frozen=True, eq=False)
class Box:
    """Real actions of `shape`. Inside Cairn they are flat [N, dim] and, if all bounds are finite, scaled to [-1, 1].

    Boxes of different float types are equal: a policy of the one fits the other.
    """

    shape: tuple[int, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    dtype: str = "float32"  # of the environment's actions; `to_env` rounds to integers

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.shape, self.low, self.high, self.dtype if self.whole else "float"

    @property
    def whole(self) -> bool:
        """Whether the environment's actions are integers."""
        return not self.dtype.startswith("float")

    @property
    def dim(self) -> int:
        """Numbers in one action."""
        return len(self.low)

    @property
    def described(self) -> str:
        """The space as part of a sentence."""
        return f"continuous actions of {self.dim} numbers from {min(self.low):g} to {max(self.high):g}"

    @property
    def shape_inside(self) -> tuple[int, ...]:
        """The shape of one action inside Cairn."""
        return (self.dim,)

    @property
    def dtype_inside(self) -> str:
        """The NumPy type of an action inside Cairn."""
        return "float32"

    @property
    def choices(self) -> tuple[int, ...]:
        """The number of options of each discrete choice; () if there is none."""
        return ()

    @property
    def outputs(self) -> int:
        """Outputs of a network for one action: a logit per option, a mean per real number."""
        return self.dim

    @cached_property
    def bounded(self) -> bool:
        """Whether every bound, and the distance between them, is a finite float32."""
        with np.errstate(over="ignore", invalid="ignore"):
            low, high = self._bounds
            return bool(np.isfinite(high - low).all())

    @cached_property
    def _bounds(self) -> tuple[Array, Array]:
        return np.asarray(self.low, np.float32), np.asarray(self.high, np.float32)

    def to_env(self, action: Array) -> Array:
        """Cairn's actions [N, dim] -> the environment's [N, *shape], clipped to its bounds."""
        low, high = self._bounds
        if self.bounded:
            action = low + (np.minimum(np.maximum(action, -1.0), 1.0) + 1.0) * (0.5 * (high - low))
        action = np.minimum(np.maximum(action, low), high)  # after scaling too: rounding can lead beyond a bound
        if self.dtype != "float32":  # whose bounds need not be numbers of float32
            exact = np.asarray(action, np.float64)
            action = (np.rint(exact) if self.whole else exact).clip(self.low, self.high)
        return action.astype(self.dtype, copy=False).reshape(-1, *self.shape)

    def from_env(self, action: Array) -> Array:
        """The environment's actions [N, *shape] -> Cairn's [N, dim]; 0 where low equals high."""
        flat = np.asarray(action, np.float32).reshape(-1, self.dim)
        if not self.bounded:
            return flat
        low, high = self._bounds
        width = high - low
        return np.where(width > 0, 2.0 * (flat - low) / np.where(width > 0, width, 1.0) - 1.0, 0.0).astype(np.float32)


Simple = Discrete | MultiDiscrete | Box
