"""Ranges as part of types: a config states what it accepts, and one function enforces it.

    gamma: Unit = 0.99

is a float for the type checker and a number in [0, 1] for `validated`.
"""

from __future__ import annotations

import math
import os
import reprlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from numbers import Integral, Real
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from cairn.core.errors import CairnError
from cairn.core.kinds import Kinds

T = TypeVar("T")


@dataclass(frozen=True)
class Range:
    """low ≤ value ≤ high, or low < value where `open_low`. `empty` allows a tuple without numbers."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    empty: bool = False

    def admits(self, value: float) -> bool:
        """Whether a number lies in the range and is finite."""
        above = value > self.low if self.open_low else value >= self.low
        return above and value <= self.high and (isinstance(value, int) or math.isfinite(value))

    def __str__(self) -> str:
        if self.high == math.inf:
            return f"greater than {self.low:g}" if self.open_low else f"at least {self.low:g}"
        most = f"{self.high:,.0f}" if self.high >= 1e4 else f"{self.high:g}"
        return f"at most {most}" if self.low == -math.inf else f"between {self.low:g} and {most}"


Unit = Annotated[float, Range(0, 1)]
Positive = Annotated[float, Range(0, open_low=True)]
NonNegative = Annotated[float, Range(0)]
Count = Annotated[int, Range(1)]
Natural = Annotated[int, Range(0)]
Envs = Annotated[int, Range(1), Range(high=100_000)]  # environments stepped together
Parallel = Annotated[int, Range(0), Range(high=1024)]  # threads or processes; 0 is as many as there are cores
Learning = Annotated[int, Range(1), Range(high=1024)]  # processes that learn
Episodes = Annotated[int, Range(1), Range(high=1_000_000)]  # of one evaluation
Ahead = Annotated[int, Range(1), Range(high=10_000)]  # steps of an n-step return
Side = Annotated[int, Range(1, 1000)]  # of a picture, in pixels
Widths = Annotated[tuple[int, ...], Range(1)]
Layers = Annotated[tuple[int, ...], Range(1, empty=True)]  # as Widths, or none
Indices = Annotated[tuple[int, ...], Range(0)]
AnyIndices = Annotated[tuple[int, ...], Range(0, empty=True)]  # as Indices, or none
Lengths = Annotated[tuple[float, ...], Range(0, open_low=True)]
AnyLengths = Annotated[tuple[float, ...], Range(0, open_low=True, empty=True)]  # as Lengths, or none
EpisodeSeed = Annotated[int, Range(0, 2**31 - 1)]  # the range that every environment accepts

MOST = 2**63 - 1  # the largest integer of 64 bits
NOT: Any = object()  # sentinel: the value has another type
WORDS: dict[Any, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}


def validated(config: T, prefix: str = "") -> T:
    """The same config with every value converted to the type of its field.

    Args:
        config: An instance of any dataclass.
        prefix: Put before the names of fields in messages, such as `agent.`.

    Raises:
        CairnError: A value has another type or is out of range.
    """
    hints, instance = get_type_hints(type(config), include_extras=True), cast(Any, config)
    given = {f.name: getattr(instance, f.name) for f in fields(instance)}
    read = {name: fit(f"{prefix}{name}", value, hints[name]) for name, value in given.items()}
    changed = {name: value for name, value in read.items() if value is not given[name]}
    return cast(T, replace(instance, **changed)) if changed else config


def check(name: str, value: Any, hint: Any) -> None:
    """Raise CairnError where `value` does not match a hint such as `Count` or `bool`."""
    fit(name, value, hint)


def fit(name: str, value: Any, hint: Any) -> Any:
    """Convert `value` to the type that a hint such as `Count`, `Rate | None` or `tuple[int, ...]` states.

    NumPy numbers become Python numbers, a list becomes a tuple, a single number a tuple of one, a path a string, and a
    number or text a schedule. Raises CairnError where no type of the hint fits, or a number is out of range.
    """
    kinds = _kinds(hint)
    for kind, ranges in kinds:
        meant = _read(name, value, kind)
        if meant is not NOT:
            _within(name, meant, ranges)
            return meant
    configs = [kind.__name__ for kind, _ in kinds if is_dataclass(kind) and isinstance(kind, type)]
    if len(configs) > 1:
        wanted = [f"a config such as {configs[0]}(), one of {', '.join(configs)}"]
    else:
        wanted = list(dict.fromkeys(word for kind, _ in kinds if (word := _word(kind))))
    raise CairnError(f"{name} is {short(value)}; it must be {' or '.join(wanted)}.")


def short(value: Any) -> str:
    """A value for a message: on one line, and cut where it is long."""
    if callable(value) and not isinstance(value, type):
        return "a function"
    try:
        return " ".join(_REPR.repr(value).split())
    except Exception:  # a user's __repr__ may raise anything, and Python refuses to print very long integers
        return "a number of thousands of digits" if isinstance(value, int) else f"a {type(value).__name__}"


_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxother, _REPR.maxlong = 3, 80, 80, 30


def _kinds(hint: Any) -> list[tuple[Any, list[Range]]]:
    """The types that a hint admits, each with its ranges; unions are expanded."""
    if get_origin(hint) is Annotated:
        for union in hint.__metadata__:
            if isinstance(union, Kinds):
                return [(kind, []) for kind in union.types.values()]
        ranges = [m for m in hint.__metadata__ if isinstance(m, Range)]
        return [(kind, found + ranges) for kind, found in _kinds(hint.__origin__)]
    if get_origin(hint) in (Union, UnionType):
        return [found for arg in get_args(hint) for found in _kinds(arg)]
    return [(hint, [])]


def _read(name: str, value: Any, kind: Any) -> Any:
    """The value converted to one type, or NOT."""
    if _is_array(value) and value.ndim == 0:
        value = value.item()
    origin = get_origin(kind) or kind
    if kind in READERS:
        return READERS[kind](value)
    if kind is Any:
        return value
    if origin is Literal:
        return next((known for known in get_args(kind) if isinstance(value, str) and value == known), NOT)
    if origin is tuple:
        return _row(name, value, get_args(kind)[0])
    if origin is dict:
        return _dictionary(name, value, get_args(kind)[1])
    if hasattr(kind, "read"):  # a Schedule
        return kind.read(name, value, NOT)
    if not isinstance(value, kind):
        return NOT
    return validated(value, f"{name}.") if is_dataclass(kind) else value


# Neither numpy nor torch is imported here: the command line and environment workers read configs without them. A value
# can only be an array or a torch device if its library was already imported.


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def _is_bool(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return isinstance(value, bool) or (numpy is not None and isinstance(value, numpy.bool_))


def _bool(value: Any) -> Any:
    return bool(value) if _is_bool(value) else NOT


def _int(value: Any) -> Any:
    number = _float(value)
    if number is NOT or type(number) is int:
        return number
    return int(number) if math.isfinite(number) and number == int(number) else NOT  # 1e6 counts as an integer


def _float(value: Any) -> Any:
    if type(value) is int or type(value) is float:
        return value
    if _is_bool(value) or not isinstance(value, Real):
        return NOT
    if isinstance(value, Integral):
        return int(value)
    try:
        return float(value)
    except OverflowError:  # a Fraction can be larger than any float
        return -math.inf if value < 0 else math.inf


def _str(value: Any) -> Any:
    torch = sys.modules.get("torch")
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if torch is not None and isinstance(value, torch.device):
        return str(value)
    return value if type(value) is str else str(value) if isinstance(value, str) else NOT


def _none(value: Any) -> Any:
    return None if value is None else NOT


READERS: dict[Any, Callable[[Any], Any]] = {bool: _bool, int: _int, float: _float, str: _str, type(None): _none}


def _row(name: str, value: Any, hint: Any) -> Any:
    """A tuple, each item converted to the hint. A single number becomes a tuple of one."""
    items = value.tolist() if _is_array(value) else value
    items = items if isinstance(items, (tuple, list)) else [items]
    kinds = [kind for kind, _ in _kinds(hint)]
    if any(all(_read(name, item, kind) is NOT for kind in kinds) for item in items):
        return NOT
    meant = tuple(fit(name, item, hint) for item in items)
    same = type(value) is tuple and all(a is b for a, b in zip(value, meant, strict=True))
    return value if same else meant


def _dictionary(name: str, value: Any, hint: Any) -> Any:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        return NOT
    meant = {key: fit(f"{name}.{key}", item, hint) for key, item in value.items()}
    same = type(value) is dict and all(value[key] is meant[key] for key in meant)
    return value if same else meant


def _within(name: str, value: Any, ranges: list[Range]) -> None:
    """Raise CairnError where a number, a bound of a schedule or an item of a tuple is out of range or not finite."""
    items = getattr(value, "bounds", value)
    if items == () and any(not allowed.empty for allowed in ranges):
        raise CairnError(f"{name} is empty; it must hold at least one number.")
    for item in items if isinstance(items, tuple) else (items,):
        if type(item) not in (int, float):
            continue
        told = f"{item:g}" if type(item) is float or abs(item) <= 10**6 else short(item)
        for allowed in ranges:
            if not allowed.admits(item):
                raise CairnError(f"{name} is {told}; it must be {allowed}.")
        if type(item) is float and not math.isfinite(item):
            raise CairnError(f"{name} is {told}; it must be a finite number.")
        if type(item) is int and abs(item) > MOST:  # such an integer may not fit into a float
            raise CairnError(f"{name} is {told}; it must be {f'at most {MOST}' if item > 0 else f'at least {-MOST}'}.")


def _word(kind: Any) -> str:
    """What a message calls a type; "" for None."""
    origin = get_origin(kind) or kind
    if origin is Literal:
        return f"one of {', '.join(map(repr, get_args(kind)))}"
    if origin is tuple:
        item = _kinds(get_args(kind)[0])[0][0]
        if get_origin(item) is Literal:
            return f"one or more of {', '.join(map(repr, get_args(item)))}"
        whole = item is int
        return "whole numbers, such as (64, 64)" if whole else "numbers, such as (1.0, 2.0)"
    if origin is dict:
        return "a dictionary of names and values"
    if kind is type(None):
        return ""
    return WORDS.get(kind) or getattr(kind, "words", "") or f"a {getattr(kind, '__name__', kind)}"


def one_of(name: str, value: object, known: tuple[object, ...]) -> None:
    """Raise ValueError, as environments do, where an argument is not one of the known values."""
    if value not in known:
        raise ValueError(f"{name} is {value!r}; it can be {', '.join(map(repr, known))}")
