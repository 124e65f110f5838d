"""How the doctor reads observations: every part as numbers side by side, and what lies where."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from gymnasium import spaces

from cairn.core.layout import BYTES, allowed, slices
from cairn.core.types import Array, GoalSpec, Spec
from cairn.doctor.play import leaves, part_at
from cairn.envs.masks import MASK
from cairn.vector.spaces import GOAL_KEYS

WIDE = 512  # entries kept of each part of an observation; wider ones are thinned out evenly
SHOWN = 6  # entries that a message names

Form = Literal["numbers", "image", "category", "mask"]


@dataclass(frozen=True)
class Part:
    """A part of an observation and its columns, `at` in the flat row and `thin` in the thinned one."""

    name: str  # "" where the observation is one array
    form: Form
    at: slice
    thin: slice


class View:
    """Turns rows of a Spec into flat rows of numbers, of which `thin` keeps some.

    A flat row has one number an entry, where a row of bytes has four bytes for some. The mask comes last, as a part.
    """

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.parts = _parts(spec)
        self.size = self.parts[-1].at.stop
        self.index = np.concatenate([np.arange(self.size)[part.at][:: _stride(part.at)] for part in self.parts])
        self.goal = spec.goal
        if spec.goal is not None and spec.goal.itemsize > 1:
            others = (
                sum(part.at.stop - part.at.start for part in self.parts if part.form != "mask") - 2 * spec.goal.goal
            )
            self.goal = GoalSpec(others, spec.goal.goal, spec.goal.seen)
        last = self.size if self.goal is None else self.goal.observation
        self.own = (self.index < last) & ~self.columns("mask")  # thinned columns that are neither a goal nor the mask
        self.numbers = self.own & self.columns("numbers")

    @property
    def images(self) -> bool:
        """Whether the observation is one image."""
        return len(self.parts) == 1 and self.parts[0].form == "image"

    def columns(self, form: Form) -> Array:
        """Which thinned columns belong to parts of a form, [thinned] bool."""
        which = np.zeros(len(self.index), bool)
        for part in self.parts:
            if part.form == form:
                which[part.thin] = True
        return which

    def flat(self, row: Array) -> Array:
        """A row of the Spec as a new flat row."""
        if not self.spec.parts:
            return np.array(row, "uint8" if self.spec.obs_dtype == "uint8" else float).ravel()
        pieces = [row[at] for _, at in slices(self.spec)]
        for i, part in enumerate(self.spec.parts):
            if self.spec.in_bytes and part.form != "image":
                pieces[i] = np.ascontiguousarray(pieces[i]).view(np.float32)
        if self.spec.masked:
            pieces.append(self.mask(row))
        return np.concatenate(pieces, dtype=np.float32 if self.spec.in_bytes else float)

    def mask(self, row: Array) -> Array:
        """[masked] bool, from a row of the Spec."""
        return allowed(self.spec, row)

    def thin(self, flat: Array) -> Array:
        """At most about WIDE entries of each part of a flat row."""
        return flat if len(self.index) == self.size else flat[self.index]

    def unit(self, spread: Array) -> Array:
        """[size] the unit of each entry of a flat row: its `spread` [thinned] in play, 1 where that is unknown or 0."""
        unit, known = np.ones(self.size), np.zeros(len(self.index), bool)
        for part in self.parts:
            known[part.thin] = _stride(part.at) == 1
        known &= spread > 1e-9
        unit[self.index[known]] = spread[known]
        return unit

    def named(self, columns: Array) -> str:
        """Thinned columns in words: entries 1, 4 of 'speed'."""
        told = []
        for part in self.parts:
            mine = [int(i) - part.at.start for i in self.index[columns] if part.at.start <= i < part.at.stop]
            if mine:
                more = f" and {len(mine) - SHOWN} more" if len(mine) > SHOWN else ""
                words = f"{'entry' if len(mine) == 1 else 'entries'} {', '.join(map(str, mine[:SHOWN]))}{more}"
                told.append(words + (f" of {part.name!r}" if part.name else ""))
        return "; ".join(told)

    def entry(self, column: int) -> str:
        """A thinned column in words: entry 1 of 'speed'."""
        return self.named(np.array([column]))

    def bounds(self, space: spaces.Space[Any]) -> tuple[Array, Array]:
        """The bounds of thinned columns, [thinned] each; infinite where the observation space has none."""
        low, high = np.full(self.size, -np.inf), np.full(self.size, np.inf)
        for part, leaf in zip(self.parts, self.leaves(space), strict=True):
            if isinstance(leaf, spaces.Box) and part.form == "numbers":
                low[part.at], high[part.at] = leaf.low.ravel(), leaf.high.ravel()
        return low[self.index], high[self.index]

    def leaves(self, space: spaces.Space[Any]) -> list[spaces.Space[Any] | None]:
        """The space of each part; None for the mask, and where it is made of several."""
        if len(self.parts) == 1:
            return [space if isinstance(space, spaces.Box) else None]
        found = {_label(path): leaf for path, leaf in leaves(space)}
        return [None if part.form == "mask" else found.get(part.name) for part in self.parts]


def raw_part(space: spaces.Space[Any], obs: Any, name: str) -> Any:
    """The value of a part, as the task returned it."""
    for path, _ in leaves(space):
        if _label(path) == name or (not name and not path):
            return part_at(obs, path)
    return None


def _label(path: tuple[str | int, ...]) -> str:
    """The name that `spec_of` gives to the part at this path."""
    return "".join(f".{key}" if isinstance(key, str) else f"[{key}]" for key in path).lstrip(".")


def _parts(spec: Spec) -> tuple[Part, ...]:
    """The parts of a flat row. A goal task of plain numbers has three, though its Spec has none."""
    sizes: list[tuple[str, Form, int]] = []
    if spec.parts:
        each = BYTES if spec.in_bytes else 1
        for part, at in slices(spec):
            sizes.append((part.name, part.form, (at.stop - at.start) // (1 if part.form == "image" else each)))
    elif spec.goal is not None:
        widths = (spec.goal.observation, spec.goal.goal, spec.goal.goal)
        sizes = [(key, "numbers", count) for key, count in zip(GOAL_KEYS, widths, strict=True)]
    else:
        image = spec.obs_dtype == "uint8" and len(spec.obs_shape) > 1
        sizes = [("", "image" if image else "numbers", math.prod(spec.obs_shape))]
    if spec.masked:
        sizes.append((MASK, "mask", spec.masked))
    parts, start, thin = [], 0, 0
    for name, form, count in sizes:
        at = slice(start, start + count)
        kept = len(range(0, count, _stride(at)))
        parts.append(Part(name, form, at, slice(thin, thin + kept)))
        start, thin = at.stop, thin + kept
    return tuple(parts)


def _stride(at: slice) -> int:
    """One of so many entries is kept."""
    count: int = at.stop - at.start
    return max(1, -(-count // WIDE))
