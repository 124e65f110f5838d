"""`--help`: the options of dataclasses, laid out by tyro from types, defaults and comments."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import make_dataclass
from typing import Annotated, Any, NoReturn

import tyro
from tyro.constructors import PrimitiveConstructorSpec, PrimitiveTypeInfo

from cairn.cli.options import options
from cairn.core.schedules import Schedule
from cairn.core.schedules import parse as parse_schedule
from cairn.core.terminal import columns, readable, wrapped

LONGER_IN_ASCII = 12  # characters by which a line may grow in ASCII
WIDEST = 120  # columns; with more, tyro puts options side by side
SCHEDULES = (
    'SCHEDULE is "linear(START,END)" or "exponential(START,END)" over the run; a third number is the share of the run'
    " after which END is reached."
)


def show(*sources: Any, prog: str, after: str = "") -> NoReturn:
    """Print the options of dataclasses, or of instances with their values as defaults, then `after`; exit with 0."""
    print(wrapped(" ".join((sources[-1].__doc__ or "").split())), end="\n\n")  # tyro does not wrap it
    extra: dict[str, Any] = {"description": ""}
    if len(sources) == 1:
        shown = sources[0] if isinstance(sources[0], type) else type(sources[0])
        extra |= {} if isinstance(sources[0], type) else {"default": sources[0]}
    else:
        shown = _together(sources)
    printed, utf8 = Printed(), readable("λ") == "λ"
    try:
        with contextlib.redirect_stdout(printed), _columns(min(columns(), WIDEST) - (0 if utf8 else LONGER_IN_ASCII)):
            tyro.cli(
                shown, args=["--help"], prog=prog, registry=_registry(), config=(tyro.conf.AvoidSubcommands,), **extra
            )
    except SystemExit:
        lines = [readable(line).rstrip() for line in printed.getvalue().splitlines()]
        first = next(i for i, line in enumerate(lines) if not line)  # the end of tyro's usage, which may be too wide
        places = " ".join(f.path[-1].upper() for f in options(shown) if f.positional)
        options_shown = _clear(_with_names("\n".join(lines[first:]), places.split()))
        print("\n".join([f"usage: {prog} {places} [OPTIONS]".replace("  ", " "), options_shown]))
        below = wrapped(f"{after}\n{SCHEDULES}".strip() if _has_schedules(sources) else after, "  ")
        print(below, end="\n" if below else "")
        raise SystemExit(0) from None
    raise AssertionError("tyro exits after it has printed a help")


def _with_names(text: str, places: list[str]) -> str:
    """The rows of positional arguments with their names, as in the usage, where tyro shows only their types."""
    names = iter(places)
    head, _, rest = text.partition("positional arguments")
    rows, options_title, below = rest.partition("options\n")
    rows = re.sub(r"^(  )(\S.*?)(?=  |$)", lambda m: m[1] + next(names, m[2]).ljust(len(m[2])), rows, flags=re.M)
    return f"{head}positional arguments{rows}{options_title}{below}" if rest else text


def _clear(text: str) -> str:
    """The options without remarks that nothing is set ("{None}|" before a type, empty defaults) and nested brackets."""
    text = re.sub(r"\[([^][]+) \[\1 \.\.\.\]\]", lambda m: f"{m[1]} ...".ljust(len(m[0])), text)
    text = re.sub(r"\{None\}\|(\S+)( {2,})?", lambda m: m[1] + (m[2] + " " * len("{None}|") if m[2] else ""), text)
    # the text itself may say what None means, such as "default: the recipe's (SB3: seed)"
    text = re.sub(r"(default: (?:[^()]|\(SB3:[^()]*\))*?)\s+\(default:\s+None\)", r"\1", text)
    return re.sub(r"\s+\(default:\s+(\'\')?\)| +$", "", text, flags=re.M)


class Printed(io.StringIO):
    """Captures what tyro prints, in colour if the terminal has colours."""

    def isatty(self) -> bool:
        """Whether the real standard output is a terminal."""
        return sys.__stdout__ is not None and sys.__stdout__.isatty()


@contextlib.contextmanager
def _columns(width: int) -> Iterator[None]:
    """Context with a terminal of this width. In ASCII it must be narrower: letters become words (λ: lambda)."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(width)
    try:
        yield
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before


def _has_schedules(sources: tuple[Any, ...]) -> bool:
    return any(not isinstance(source, type) for source in sources)  # a recipe, whose agent has schedules


def _together(sources: tuple[Any, ...]) -> type[Any]:
    """One dataclass with the options of all `sources`, without prefixes. Classes need defaults."""
    members = []
    for index, source in enumerate(sources):
        cls, value = (source, source()) if isinstance(source, type) else (type(source), source)
        members.append((f"part{index}", Annotated[cls, tyro.conf.arg(name="")], value))
    return make_dataclass("Options", members)


def _registry() -> tyro.constructors.ConstructorRegistry:
    """How tyro shows types that it does not know: schedules and JSON dictionaries."""
    registry = tyro.constructors.ConstructorRegistry()

    @registry.primitive_rule
    def schedules(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
        if info.type is not Schedule:
            return None
        return PrimitiveConstructorSpec(
            nargs=1,
            metavar="NUMBER|SCHEDULE",
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
