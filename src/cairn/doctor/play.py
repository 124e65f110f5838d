"""Episodes played to be looked at: what was done, seen and paid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from gymnasium import spaces

from cairn.core.types import Array

Behaviour = Literal["uniform", "held", "steady"]
BEHAVIOURS: tuple[Behaviour, ...] = ("uniform", "held", "uniform", "steady")  # taken in turn
HOLDS = (4, 16, 64)  # steps an action is held for; one of them an episode


@dataclass(frozen=True)
class Trace:
    """One episode of T steps, or the part of it there was time for.

    obs [T+1, D] the flat observation, thinned out where it is wide; action [T, A], discrete ones one-hot; reward [T];
    achieved, desired [T+1, G], empty where the task has no goals; success is None where the task does not tell
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
        return len(self.reward)

    @property
    def ended(self) -> bool:
        return self.terminated or self.truncated


def policy(behaviour: Behaviour, space: spaces.Space[Any], rng: np.random.Generator) -> Callable[[], Any]:
    """uniform: any action, each step anew; held: an extreme one for some steps; steady: one for the whole episode.

    White noise undoes itself at once. Held extremes show how far and how fast the task can be driven.
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
    """An action; where `extreme`, each dimension at its lowest, its middle or its highest."""
    if isinstance(space, spaces.Discrete):
        return int(space.start + rng.integers(space.n))
    assert isinstance(space, spaces.Box)
    low, high = limits(space)
    share = rng.integers(0, 3, space.shape) / 2 if extreme else rng.random(space.shape)
    return (low + share * (high - low)).astype(space.dtype)


def at_end(space: spaces.Space[Any], end: float) -> Any:
    """The lowest action (0) or the highest (1)."""
    if isinstance(space, spaces.Discrete):
        return int(space.start + end * (space.n - 1))
    assert isinstance(space, spaces.Box)
    low, high = limits(space)
    return (low + end * (high - low)).astype(space.dtype)


def middle(space: spaces.Space[Any]) -> Any:
    """The action halfway: of a continuous task usually the one that does nothing."""
    return at_end(space, 0.5)


def limits(space: spaces.Box) -> tuple[Array, Array]:
    """The bounds of an action space, ±1 where it has none."""
    low, high = space.low.astype(float), space.high.astype(float)
    return np.where(np.isfinite(low), low, -1.0), np.where(np.isfinite(high), high, 1.0)


def as_row(space: spaces.Space[Any], action: Any) -> Array:
    """An action as a row of numbers."""
    if isinstance(space, spaces.Discrete):
        return np.array(np.arange(space.n) == int(action) - space.start, float)
    return np.ravel(np.asarray(action, float))
