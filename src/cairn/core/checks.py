"""Ranges written into types, so that a config states what it accepts and one function enforces it.

    gamma: Unit = 0.99

is a float for the type checker and a number in [0, 1] for `validated`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, is_dataclass, replace
from numbers import Integral, Real
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from cairn.core.errors import CairnError

T = TypeVar("T")


@dataclass(frozen=True)
class Range:
    """low ≤ value ≤ high, or low < value where `open_low`."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False

    def admits(self, value: float) -> bool:
        above = value > self.low if self.open_low else value >= self.low
        return above and value <= self.high and math.isfinite(value)

    def __str__(self) -> str:
        if self.high == math.inf:
            return f"greater than {self.low:g}" if self.open_low else f"at least {self.low:g}"
        return f"between {self.low:g} and {self.high:g}"


Unit = Annotated[float, Range(0, 1)]
Positive = Annotated[float, Range(0, open_low=True)]
NonNegative = Annotated[float, Range(0)]
Count = Annotated[int, Range(1)]
Natural = Annotated[int, Range(0)]
Side = Annotated[int, Range(1, 1000)]  # of a picture, in pixels
Widths = Annotated[tuple[int, ...], Range(1)]


def _ranges(hint: Any) -> list[Range]:
    """The ranges a hint carries, looking through unions such as `Count | None`."""
    if get_origin(hint) is Annotated:
        return [m for m in hint.__metadata__ if isinstance(m, Range)]
    return [r for arg in get_args(hint) for r in _ranges(arg)]


def _kinds(hint: Any) -> list[Any]:
    """The types a hint admits, looking through unions and ranges."""
    if get_origin(hint) is Annotated:
        return _kinds(hint.__origin__)
    return [kind for arg in get_args(hint) for kind in _kinds(arg)] or [hint]


def validated(config: T, prefix: str = "") -> T:
    """The same config, with numbers and words made schedules where those are meant; CairnError where one is amiss."""
    from cairn.core.schedules import Schedule, parse  # which are written in the ranges above

    hints, meant = get_type_hints(type(config), include_extras=True), dict[str, Any]()
    for f in fields(config):  # type: ignore[arg-type]
        value = getattr(config, f.name)
        name = f"{prefix}{f.name}"
        if isinstance(value, (int, float, str)) and Schedule in _kinds(hints[f.name]):
            value = meant[f.name] = parse(str(value))
        elif is_dataclass(value) and not isinstance(value, (type, Schedule)):
            inner = validated(value, f"{name}.")
            if inner is not value:
                meant[f.name] = inner
        check(name, value, hints[f.name])
    return replace(config, **meant) if meant else config  # type: ignore[type-var]


def check(name: str, value: Any, hint: Any) -> None:
    """CairnError in one sentence where `value` is not what a hint such as `Count` or `bool` states."""
    if get_origin(hint) is Literal and value not in get_args(hint):
        raise CairnError(f"{name} is {value!r}; it must be one of {', '.join(map(repr, get_args(hint)))}.")
    if not any(_is(value, kind) for kind in _kinds(hint)):
        wanted = " or ".join(WORDS[kind] for kind in _kinds(hint) if WORDS[kind])
        raise CairnError(f"{name} is {value!r}; it must be {wanted}.")
    for allowed in _ranges(hint):
        items = getattr(value, "bounds", value)  # a schedule is checked at both ends
        items = items if isinstance(items, (tuple, list)) else [items]
        if not items:
            raise CairnError(f"{name} is empty; it must hold at least one number.")
        for item in items:
            if isinstance(item, (int, float)) and not allowed.admits(item):
                raise CairnError(f"{name} is {item:g}; it must be {allowed}.")


WORDS = {bool: "true or false", int: "a whole number", float: "a number", type(None): ""}


def _is(value: Any, kind: Any) -> bool:
    """Whether a value is of one of the kinds that have words; what is of any other kind is not looked at here."""
    if kind not in WORDS:
        return True
    if kind in (int, float):
        return isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
    return isinstance(value, (bool, np.bool_) if kind is bool else kind)


def one_of(name: str, value: object, known: tuple[object, ...]) -> None:
    """ValueError, as environments raise, where an argument is none of the known values."""
    if value not in known:
        raise ValueError(f"{name} is {value!r}; it can be {', '.join(map(repr, known))}")
