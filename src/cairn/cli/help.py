"""`--help`: the options that dataclasses declare, laid out by tyro from their types, defaults and comments."""

from __future__ import annotations

import json
from dataclasses import make_dataclass
from typing import Annotated, Any, NoReturn

import tyro
from tyro.constructors import PrimitiveConstructorSpec, PrimitiveTypeInfo

from cairn.core.schedules import Schedule
from cairn.core.schedules import parse as parse_schedule


def show(*sources: Any, prog: str, after: str = "") -> NoReturn:
    """Print the options of dataclasses, or of instances with their values as defaults, then `after`; exit with 0."""
    extra: dict[str, Any] = {}
    if len(sources) == 1:
        shown = sources[0] if isinstance(sources[0], type) else type(sources[0])
        extra = {} if isinstance(sources[0], type) else {"default": sources[0]}
    else:
        shown = _together(sources)
        extra = {"description": sources[-1].__doc__}
    try:
        tyro.cli(shown, args=["--help"], prog=prog, registry=_registry(), config=(tyro.conf.AvoidSubcommands,), **extra)
    except SystemExit:
        print(after, end="\n" if after else "")
        raise SystemExit(0) from None
    raise AssertionError("tyro exits after it has printed a help")


def _together(sources: tuple[Any, ...]) -> type[Any]:
    """One dataclass whose options are those of all `sources`, without a prefix. Classes must have defaults."""
    members = []
    for index, source in enumerate(sources):
        cls, value = (source, source()) if isinstance(source, type) else (type(source), source)
        members.append((f"part{index}", Annotated[cls, tyro.conf.arg(name="")], value))
    return make_dataclass("Options", members)


def _registry() -> tyro.constructors.ConstructorRegistry:
    """How tyro shows what it does not know: schedules and JSON dictionaries."""
    registry = tyro.constructors.ConstructorRegistry()

    @registry.primitive_rule
    def schedules(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
        if info.type is not Schedule:
            return None
        return PrimitiveConstructorSpec(
            nargs=1,
            metavar="NUMBER|linear(START,END[,SHARE])|exponential(START,END[,SHARE])",
            instance_from_str=lambda words: parse_schedule(words[0]),
            is_instance=lambda value: isinstance(value, Schedule),
            str_from_instance=lambda value: [str(value)],
        )

    @registry.primitive_rule
    def dictionaries(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
        if info.type_origin is not dict and info.type is not dict:
            return None
        return PrimitiveConstructorSpec(
            nargs=1,
            metavar="JSON",
            instance_from_str=lambda words: json.loads(words[0]),
            is_instance=lambda value: isinstance(value, dict),
            str_from_instance=lambda value: [json.dumps(value)],
        )

    return registry
