"""Episodes that are played to examine a task: actions, observations and rewards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from gymnasium import spaces

from cairn.core.types import Array

Path = tuple[str | int, ...]  # keys of a Dict and places in a Tuple
Behaviour = Literal["uniform", "held", "steady"]
BEHAVIOURS: tuple[Behaviour, ...] = ("uniform", "held", "uniform", "steady")  # used in turn
HUGE = float(np.finfo(np.float32).max) / 2  # bounds of this size are none
HOLDS = (4, 16, 64)  # steps that an action is held for; one value per episode


@dataclass(frozen=True)
class Trace:
    """One episode of T steps, or the part of it that there was time for.

    obs [T+1, D] the flat observation, thinned out if it is wide; action [T, A], discrete ones one-hot; reward [T];
    achieved, desired [T+1, G], empty for a task without goals; success is None where the task does not report it
    """

    behaviour: Behaviour
    obs: Array
    action: Array
    reward: Array
    achieved: Array
    desired: Array
    terminated: bool
    truncated: bool
    success: bool | None

    @property
    def length(self) -> int:
        """Steps of the episode."""
        return len(self.reward)

    @property
    def ended(self) -> bool:
        """Whether it ended by termination or truncation."""
        return self.terminated or self.truncated


def policy(behaviour: Behaviour, space: spaces.Space[Any], rng: np.random.Generator) -> Callable[[], Any]:
    """A function that draws actions.

    uniform: a new random action at each step; held: an extreme action for several steps; steady: one for the whole
    episode.
    White noise averages out. Held extremes show how far and how fast the task can be driven.
    """
    if behaviour == "uniform":
        return lambda: draw(space, rng)
    hold = int(rng.choice(HOLDS)) if behaviour == "held" else 2**31
    state: dict[str, Any] = {"left": 0, "action": None}

    def act() -> Any:
        if state["left"] == 0:
            state.update(left=hold, action=draw(space, rng, extreme=True))
        state["left"] -= 1
        return state["action"]

    return act


def draw(space: spaces.Space[Any], rng: np.random.Generator, *, extreme: bool = False) -> Any:
    """A random action; with `extreme`, each real number is at its lowest, middle or highest value."""
    if isinstance(space, spaces.Discrete):
        return int(space.start + rng.integers(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        return (space.start + rng.integers(space.nvec)).astype(space.dtype)
    if isinstance(space, spaces.MultiBinary):
        return rng.integers(0, 2, space.shape).astype(space.dtype)
    if isinstance(space, spaces.Box):
        share = rng.integers(0, 3, space.shape) / 2 if extreme else rng.random(space.shape)
        return _between(space, share)
    return _in_each_part(space, lambda part: draw(part, rng, extreme=extreme))


def at_end(space: spaces.Space[Any], end: float) -> Any:
    """The lowest action (0) or the highest (1)."""
    if isinstance(space, spaces.Discrete):
        return int(space.start + end * (space.n - 1))
    if isinstance(space, spaces.MultiDiscrete):
        return (space.start + end * (space.nvec - 1)).astype(space.dtype)
    if isinstance(space, spaces.MultiBinary):
        return np.full(space.shape, end, space.dtype)
    if isinstance(space, spaces.Box):
        return _between(space, np.full(space.shape, end))
    return _in_each_part(space, lambda part: at_end(part, end))


def middle(space: spaces.Space[Any]) -> Any:
    """The middle action: in continuous tasks usually the one that does nothing."""
    return at_end(space, 0.5)


def as_row(space: spaces.Space[Any], action: Any) -> Array:
    """An action as a row of numbers; discrete ones one-hot."""
    if isinstance(space, spaces.Discrete):
        return np.array(np.arange(space.n) == int(action) - space.start, float)
    if isinstance(space, spaces.MultiDiscrete):
        chosen = np.ravel(action) - np.ravel(space.start)
        return np.concatenate(
            [np.arange(n) == k for n, k in zip(np.ravel(space.nvec), chosen, strict=True)], dtype=float
        )
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        return np.concatenate([as_row(leaf, part_at(action, path)) for path, leaf in leaves(space)])
    return np.ravel(np.asarray(action, float))


def limits(space: spaces.Box) -> tuple[Array, Array]:
    """The bounds of an action space. Without bounds, or with huge ones, they are ±1, or 2 from the bound there is."""
    low, high = space.low.astype(float), space.high.astype(float)
    with np.errstate(over="ignore", invalid="ignore"):
        open_ = ~np.isfinite((high - low).astype(np.float32))
    above, below = np.isfinite(low) & (low > -HUGE), np.isfinite(high) & (high < HUGE)
    least = np.where(above, low, np.where(below, high - 2, -1.0))
    most = np.where(below, high, np.where(above, low + 2, 1.0))
    return np.where(open_, least, low), np.where(open_, most, high)


def permitted(space: spaces.Space[Any], action: Any, mask: Array | None) -> Any:
    """The action, each option that `mask` [options] forbids replaced by an allowed one, always by the same."""
    if mask is None:
        return action
    counts = options_of(space)
    starts = _starts(space)
    chosen = np.ravel(action) - starts
    allowed = np.split(mask, np.cumsum(counts)[:-1])
    picked = [
        k if ok[k] else (found := np.flatnonzero(ok))[k % len(found)] for k, ok in zip(chosen, allowed, strict=True)
    ]
    new = np.array(picked) + starts
    return int(new[0]) if isinstance(space, spaces.Discrete) else new.reshape(space.shape).astype(space.dtype)


def with_option(space: spaces.Space[Any], action: Any, option: int) -> Any:
    """The action with one option taken, `option` being its place in a mask."""
    counts = options_of(space)
    choice = int(np.searchsorted(np.cumsum(counts), option, side="right"))
    value = option - sum(counts[:choice]) + int(_starts(space)[choice])
    if isinstance(space, spaces.Discrete):
        return value
    changed = np.array(action)
    changed.flat[choice] = value
    return changed


def options_of(space: spaces.Space[Any]) -> list[int]:
    """The number of options of each choice of a Discrete, MultiDiscrete or MultiBinary space."""
    if isinstance(space, spaces.Discrete):
        return [int(space.n)]
    if isinstance(space, spaces.MultiDiscrete):
        return [int(n) for n in np.ravel(space.nvec)]
    return [2] * int(np.prod(space.shape or ()))


def _starts(space: spaces.Space[Any]) -> Array:
    """The first option of each choice."""
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        return np.ravel(space.start)
    return np.zeros(len(options_of(space)), np.int64)


@dataclass(frozen=True)
class Lever:
    """One number or one choice of an action, and values to try for it: the lowest first, the highest last."""

    name: str
    path: Path
    index: int | None  # in the array of its leaf; None: the leaf is one choice
    values: tuple[float, ...]
    real: bool

    def set(self, action: Any, value: float) -> Any:
        """A copy of the action with another value."""
        leaf = part_at(action, self.path)
        if self.index is None:
            return _with_part(action, self.path, int(value))
        leaf = leaf.copy()
        leaf.flat[self.index] = value
        return _with_part(action, self.path, leaf)


def levers(space: spaces.Space[Any]) -> list[Lever]:
    """Every number and every choice of an action. Those that can only take one value are left out."""
    found: list[Lever] = []
    for path, leaf in leaves(space):
        label = "".join(f".{key}" if isinstance(key, str) else f"[{key}]" for key in path).lstrip(".")
        of = f" of {label}" if label else ""
        if isinstance(leaf, spaces.Box):
            low, high = limits(leaf)
            for i, ends in enumerate(zip(low.flat, high.flat, strict=True)):
                real = not np.issubdtype(leaf.dtype, np.integer)
                found.append(Lever(f"dimension {i}{of}", path, i, tuple(map(float, ends)), real))
            continue
        for i, (n, start) in enumerate(zip(options_of(leaf), _starts(leaf), strict=True)):
            values = tuple(float(start + k) for k in sorted({0, (n - 1) // 3, 2 * (n - 1) // 3, n - 1}))
            alone = isinstance(leaf, spaces.Discrete)
            found.append(Lever(label if alone else f"choice {i}{of}", path, None if alone else i, values, False))
    return [lever for lever in found if lever.values[0] < lever.values[-1]]


def leaves(space: spaces.Space[Any], path: Path = ()) -> Iterator[tuple[Path, spaces.Space[Any]]]:
    """The spaces that are neither Dict nor Tuple, each with the keys and places that lead to it."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        named = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, part in named:
            yield from leaves(part, (*path, key))
    else:
        yield path, space


def part_at(value: Any, path: Path) -> Any:
    """A part of a nested value."""
    for key in path:
        value = value[key]
    return value


def _with_part(value: Any, path: Path, part: Any) -> Any:
    """A copy of a nested value with another part."""
    if not path:
        return part
    key, *rest = path
    changed = _with_part(value[key], tuple(rest), part)
    if isinstance(value, tuple):
        return tuple(changed if i == key else one for i, one in enumerate(value))
    return {**value, key: changed}


def _in_each_part(space: spaces.Space[Any], make: Callable[[spaces.Space[Any]], Any]) -> Any:
    if isinstance(space, spaces.Tuple):
        return tuple(make(part) for part in space.spaces)
    assert isinstance(space, spaces.Dict)  # `spec_of` has refused all others
    return {key: make(part) for key, part in space.spaces.items()}


def _between(space: spaces.Box, share: Array) -> Array:
    low, high = limits(space)
    value: Array = low + share * (high - low)
    whole = np.issubdtype(space.dtype, np.integer)
    return np.asarray((np.rint(value) if whole else value).clip(low, high), space.dtype)
