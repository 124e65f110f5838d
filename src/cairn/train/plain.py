"""Typed values to plain JSON and back: dataclasses by their field types, unions by a 'kind'."""

from __future__ import annotations

import dataclasses
import types
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from cairn.core.errors import CairnError
from cairn.core.schedules import Schedule, parse

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """Dataclasses become dictionaries that name their class under 'kind'; schedules become text."""
    if isinstance(value, Schedule):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        body = {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"kind": type(value).__name__, **body}
    if isinstance(value, (tuple, list)):
        return [to_plain(v) for v in value]
    return value


def from_plain(cls: type[T], data: Any) -> T:
    """The value of type `cls` that `to_plain` wrote; CairnError where a field is unknown or of another type."""
    try:
        value: T = _build(cls, data)
    except (AttributeError, TypeError, ValueError, KeyError) as error:
        name = getattr(cls, "__name__", "agent")  # the one union that is read by itself
        raise CairnError(f"this is not a saved {name} of this version of Cairn: {error}.") from error
    return value


def _build(hint: Any, data: Any) -> Any:
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _build_union(get_args(hint), data)
    if hint is Schedule:
        return parse(data)
    if dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint, include_extras=True)
        body = {k: v for k, v in data.items() if k != "kind"}
        unknown = set(body) - set(hints)
        if unknown:
            raise ValueError(f"{getattr(hint, '__name__', hint)} has no field {sorted(unknown)[0]}")
        return hint(**{k: _build(hints[k], v) for k, v in body.items()})  # type: ignore[operator]
    if origin is tuple:
        return tuple(_build(get_args(hint)[0], v) for v in data)
    if hint is float:
        return data if type(data) is int else float(data)  # 200 stays 200: what is read back is what was written
    return data


def _build_union(options: tuple[Any, ...], data: Any) -> Any:
    if data is None and type(None) in options:
        return None
    some = [o for o in options if o is not type(None)]
    if len(some) == 1:
        return _build(some[0], data)
    told = data.get("kind") if isinstance(data, dict) else None
    kind = next((option for option in some if option.__name__ == told), None)
    if kind is None:
        raise ValueError(f"there is no {told}" if told else "it does not say of which kind it is")
    return _build(kind, data)
