"""Typed values to plain JSON and back: dataclasses by the types of their fields, unions by a 'kind'."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from cairn.core.errors import CairnError
from cairn.core.kinds import Kinds
from cairn.core.schedules import Schedule, parse
from cairn.core.unstored import Unstored
from cairn.core.untrusted import shown

T = TypeVar("T")


WIDEST = 2**63  # larger integers do not fit into numpy and torch


def to_json(value: Any) -> Any:
    """Plain JSON: dataclasses become objects that name their class under 'kind', schedules become text."""
    if isinstance(value, Schedule):
        return str(value)
    if isinstance(value, Unstored):
        return value.what or None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        body = {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"kind": type(value).__name__, **body}
    if isinstance(value, (tuple, list)):
        return [to_json(v) for v in value]
    return value


def from_json(cls: type[T], data: Any) -> T:
    """The value of type `cls` that `to_json` wrote. Raises CairnError for unknown fields and wrong types."""
    try:
        value: T = _build(cls, data)
    except (AttributeError, TypeError, ValueError, KeyError) as error:
        name = "agent" if get_origin(cls) is Annotated else cls.__name__
        raise CairnError(f"this is not a saved {name} of this version of Cairn: {error}.") from error
    return value


def _build(hint: Any, data: Any) -> Any:
    if get_origin(hint) is Annotated:
        for kinds in hint.__metadata__:
            if isinstance(kinds, Kinds):
                return _build_union(tuple(kinds.types.values()), data)
        hint = get_args(hint)[0]
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _build_union(get_args(hint), data)
    if origin is Literal:
        return _wanted(data, isinstance(data, str) and data in get_args(hint), "one of the known words")
    if hint is Schedule:
        number = isinstance(data, (int, float)) and not isinstance(data, bool)
        return parse(str(_wanted(data, number or isinstance(data, str), "a schedule")))
    if isinstance(hint, type) and issubclass(hint, Unstored):
        return hint(_wanted(data, isinstance(data, str), "a description"))
    if dataclasses.is_dataclass(hint):
        return _build_dataclass(hint, _wanted(data, isinstance(data, dict), "an object"))
    if origin is tuple:
        return _build_tuple(get_args(hint), _wanted(data, isinstance(data, (list, tuple)), "a list"))
    if origin is dict:
        of = get_args(hint)[1]
        return {key: _build(of, value) for key, value in _wanted(data, isinstance(data, dict), "an object").items()}
    if hint is float:
        number = type(data) is float or (type(data) is int and abs(data) < WIDEST)
        _wanted(data, number and not math.isnan(data), "a number")
        return (
            data if type(data) is int else float(data)
        )  # 200 stays an int, so that writing it again gives the same text
    if hint is int:
        return _wanted(data, type(data) is int and abs(data) < WIDEST, "a whole number")
    if hint in (bool, str):
        return _wanted(data, type(data) is hint, "true or false" if hint is bool else "text")
    return data


def _wanted(data: Any, good: bool, what: str) -> Any:
    if not good:
        raise ValueError(f"{shown(data)} found where {what} is wanted")
    return data


def _build_dataclass(hint: Any, data: dict[str, Any]) -> Any:
    hints = get_type_hints(hint, include_extras=True)
    body = {k: v for k, v in data.items() if k != "kind"}
    unknown = set(body) - set(hints)
    if unknown:
        raise ValueError(f"{getattr(hint, '__name__', hint)} has no field {shown(sorted(unknown)[0])}")
    return hint(**{k: _build(hints[k], v) for k, v in body.items()})


def _build_tuple(of: tuple[Any, ...], data: Any) -> Any:
    if of[-1] is Ellipsis:
        return tuple(_build(of[0], v) for v in data)
    _wanted(data, len(data) == len(of), f"a list of {len(of)}")
    return tuple(_build(hint, v) for hint, v in zip(of, data, strict=True))


def _build_union(options: tuple[Any, ...], data: Any) -> Any:
    if data is None and type(None) in options:
        return None
    some = [o for o in options if o is not type(None)]
    if len(some) == 1:
        return _build(some[0], data)
    told = data.get("kind") if isinstance(data, dict) else None
    kind = next((option for option in some if option.__name__ == told), None)
    if kind is None:
        raise ValueError(f"there is no {shown(told)}" if told else "it does not say of which kind it is")
    return _build(kind, data)


def digest(value: Mapping[str, Any]) -> str:
    """SHA-256 of a JSON object in hexadecimal, without its member `digest`."""
    body = {k: v for k, v in value.items() if k != "digest"}
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
