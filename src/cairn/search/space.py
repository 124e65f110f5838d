"""The search space: each number of a recipe, multiplied by a factor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from cairn.core.checks import validated
from cairn.core.errors import CairnError, closest
from cairn.core.sb3_names import meanings
from cairn.core.schedules import Schedule

SPREAD = 4.0  # a factor lies between 1 / SPREAD and SPREAD
STEPS = 16  # in which a spread is narrowed to fit a field's range
USUAL = (
    "lr",
    "gamma",
    "tau",
    "batch_size",
    "hidden",
    "horizon",
    "epochs",
    "updates_per_step",
    "target_every",
    "entropy_weight",
)


def varied(agent: Any, names: Sequence[str] = ()) -> list[str]:
    """The fields of a config to vary: those named, or the usual ones that it has and that are not 0."""
    known = {f.name: getattr(agent, f.name) for f in fields(agent)}
    numbers = [name for name, value in known.items() if _is_number(value)]
    for name in names:
        if name not in numbers:
            meant = next((f" In Cairn it is {word}." for word in meanings(name) if word in numbers), "")
            meant = meant or closest(name, numbers)
            raise CairnError(f"agent.{name} is not a numeric setting of this agent.{meant}")
        if _size(known[name]) == 0:
            raise CairnError(f"agent.{name} is 0, and settings are varied by a factor; set it to another value first.")
    chosen = list(dict.fromkeys(names)) or [name for name in USUAL if name in numbers and _size(known[name]) != 0]
    if not chosen:
        raise CairnError("this agent has no numeric setting to vary.")
    return chosen


def bounds(agent: Any, name: str) -> tuple[float, float]:
    """The smallest and the largest factor for a field: 1 / SPREAD and SPREAD, or as far as its range allows."""
    return 1 / _furthest(agent, name, lambda f: 1 / f), _furthest(agent, name, lambda f: f)


def _furthest(agent: Any, name: str, factor: Callable[[float], float]) -> float:
    for step in range(STEPS, 0, -1):
        spread = float(SPREAD ** (step / STEPS))
        try:
            scaled(agent, {name: factor(spread)})
        except CairnError:
            continue
        return spread
    return 1.0


def scaled(agent: Any, factors: Mapping[str, float]) -> Any:
    """The config with these fields multiplied. For numbers near 1, such as γ, the distance to 1 is multiplied."""
    changed = {name: _times(getattr(agent, name), factor) for name, factor in factors.items()}
    return validated(replace(agent, **changed), "agent.")


def _is_number(value: Any) -> bool:
    if isinstance(value, tuple):
        return bool(value) and all(isinstance(v, int) for v in value)
    return isinstance(value, (int, float, Schedule)) and not isinstance(value, bool)


def _size(value: Any) -> float:
    return value.start if isinstance(value, Schedule) else value[0] if isinstance(value, tuple) else value


def _times(value: Any, factor: float) -> Any:
    if isinstance(value, tuple):
        return tuple(_times(v, factor) for v in value)
    if isinstance(value, Schedule):
        return replace(value, start=value.start * factor, end=value.end * factor)
    if isinstance(value, int):
        return max(round(value * factor), 1)
    if 0.5 < value < 1:
        return 1 - min((1 - value) * factor, 0.5)
    return value * factor
