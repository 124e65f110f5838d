"""Actions of Dict and Tuple spaces, and the union of all action spaces."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cairn.core.actions import Array, Box, Discrete, MultiDiscrete, Simple
from cairn.core.errors import CairnError


@dataclass(frozen=True)
class Composite:
    """Actions of a Dict or a Tuple: its leaves side by side in a row of floats [N, width] inside Cairn.

    `paths` locates each leaf in the space: ".arm" is a key of a Dict, "[0]" an index of a Tuple. Discrete choices are
    floats
    with integer values. `to_env` keeps rows; `structured` converts one to the environment's action.
    """

    parts: tuple[Simple, ...]
    paths: tuple[tuple[str, ...], ...]

    @property
    def described(self) -> str:
        """The space as part of a sentence."""
        return " together with ".join(part.described for part in self.parts)

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers of each part in a row."""
        return tuple(math.prod(part.shape_inside) for part in self.parts)

    @property
    def shape_inside(self) -> tuple[int, ...]:
        """The shape of one action inside Cairn."""
        return (sum(self.widths),)

    @property
    def dtype_inside(self) -> str:
        """The NumPy type of an action inside Cairn."""
        return "float32"

    @property
    def choices(self) -> tuple[int, ...]:
        """The number of options of each discrete choice; () if there is none."""
        return tuple(n for part in self.parts for n in part.choices)

    @property
    def outputs(self) -> int:
        """Outputs of a network for one action: a logit per option, a mean per real number."""
        return sum(part.outputs for part in self.parts)

    def to_env(self, action: Array) -> Array:
        """The rows themselves; see `structured`."""
        return action

    def leaves(self, rows: Array) -> list[Array]:
        """The environment's actions [N, *shape] for each part of rows [N, width]."""
        found, start = [], 0
        for part, width in zip(self.parts, self.widths, strict=True):
            inside = rows[:, start : start + width].astype(part.dtype_inside).reshape(-1, *part.shape_inside)
            found.append(part.to_env(inside))
            start += width
        return found

    def structured(self, row: Array) -> Any:
        """One row [width] as the environment's Dict or Tuple."""
        tree: dict[Any, Any] = {}
        for path, leaf in zip(self.paths, self.leaves(row[None]), strict=True):
            *way, last = (_key(step) for step in path)
            branch = tree
            for key in way:
                branch = branch.setdefault(key, {})
            branch[last] = leaf[0]
        return _tuples(tree)

    def from_env(self, action: Any) -> Array:
        """An environment's action as one row [1, width]."""
        rows = []
        for part, path, width in zip(self.parts, self.paths, self.widths, strict=True):
            leaf = action
            for step in path:
                leaf = leaf[_key(step)]
            rows.append(np.asarray(part.from_env(np.asarray(leaf)[None]), np.float32).reshape(1, width))
        return np.concatenate(rows, 1)


def _key(step: str) -> str | int:
    """The key of one step of a path: "arm" for ".arm", 0 for "[0]"."""
    return int(step[1:-1]) if step[0] == "[" else step[1:]


def _tuples(tree: Any) -> Any:
    """Convert dictionaries whose keys are indices to tuples."""
    if not isinstance(tree, dict):
        return tree
    made = {key: _tuples(value) for key, value in tree.items()}
    return tuple(made[i] for i in range(len(made))) if all(isinstance(key, int) for key in made) else made


ActionSpec = Discrete | MultiDiscrete | Box | Composite


def discrete_or_box(action: ActionSpec, who: str) -> Discrete | Box:
    """The action space if it is Discrete or Box. Raises CairnError otherwise."""
    if isinstance(action, (Discrete, Box)):
        return action
    raise CairnError(f"{who} acts in Discrete and Box spaces, and this task has {action.described}; use ppo or a2c.")
