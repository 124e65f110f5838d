"""How options of the command line are read: words become the fields of a dataclass, a mistake becomes one sentence.

Only `--help` is left to tyro. Ranges are checked by `core.checks.validated`, as for Python.
"""

from __future__ import annotations

import json
import math
import os
import re
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import tyro

from cairn.core.checks import MOST, validated
from cairn.core.errors import CairnError, closest
from cairn.core.sb3_names import hint as hint_at
from cairn.core.schedules import Schedule
from cairn.core.schedules import parse as parse_schedule

T = TypeVar("T")
PARTS = ("agent", "high", "low", "learner")  # fields whose own fields are options: --agent.low.gamma
MORE = {  # options that a command reads by itself
    "train": ("--out", "--record", "--resume", "--trust"),
    "sweep": ("--out", "--seeds", "--jobs", "--episodes"),
    "tune": ("--out", "--trials", "--jobs", "--vary"),
}
SHOWN = 60  # characters of a wrong value in a sentence
NEGATIVE = re.compile(r"-(\d|\.\d|inf|nan)", re.IGNORECASE)
GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+")
GROUPED_ROW = re.compile(r"[1-9](,\d{3})+|[1-9]\d{0,2}(,\d{3})*,0\d\d(,\d{3})*")  # 1,024 and 16,000; not 256,256
SUFFIXED = re.compile(r"([+-]?[\d._]+)([kKmM])")
SUFFIXES = {"k": 1_000, "m": 1_000_000}
WORDS = {int: "a whole number", float: "a number", str: "a text", Path: "a path", bool: "true or false"}


@dataclass(frozen=True)
class Field:
    """One option: where its value belongs in the dataclass, and what it may be."""

    path: tuple[str, ...]
    hint: Any
    positional: bool = False
    aliases: tuple[str, ...] = ()
    required: bool = False

    @property
    def flag(self) -> str:
        return "--" + ".".join(self.path).replace("_", "-")

    @property
    def refusal(self) -> str:
        """What turns a switch off: --no-half, --agent.no-layer-norm."""
        return "--" + ".".join((*self.path[:-1], f"no-{self.path[-1]}")).replace("_", "-")

    @property
    def is_bool(self) -> bool:
        return self.hint is bool

    @property
    def is_many(self) -> bool:
        return any(get_origin(kind) is tuple for kind in kinds(self.hint))


def parse(cls: type[T], args: Sequence[str], *, default: T | None = None, prog: str) -> T:
    """The dataclass that these arguments describe, checked; `default` gives what they leave out."""
    if {"--help", "-h"} & set(args):
        _help(cls, default, prog)
    known = options(default if default is not None else cls)
    found = _read(list(args), known, prog)
    if default is None:
        missing = [f for f in known if f.required and f.path not in found]
        if missing:
            raise CairnError(f"{prog} needs {_named(missing[0])}; `{prog} --help` shows every option.")
        return validated(cls(**{path[0]: value for path, value in found.items()}))
    changed: T = _changed(default, found)
    return validated(changed)


def take(args: Sequence[str], flag: str) -> tuple[str | None, list[str]]:
    """The value of one option, and the arguments without it."""
    value, rest, words = None, list[str](), iter(args)
    for word in words:
        name, equals, text = word.partition("=")
        if name != flag:
            rest.append(word)
            continue
        if value is not None:
            raise CairnError(f"{flag} is given twice; give it once.")
        value = text if equals else next(words, "")
        if not value or (not equals and _is_flag(value)):
            raise CairnError(f"{flag} needs a value.")
    return value, rest


def switch(args: Sequence[str], flag: str) -> tuple[bool, list[str]]:
    """Whether a switch such as --trust is on, and the arguments without it. It is read as `parse` reads one."""
    option, value, rest, left = Field((flag.removeprefix("--"),), bool), None, list[str](), list(args)
    while left:
        name, equals, text = left.pop(0).partition("=")
        if name not in (option.flag, option.refusal):
            rest.append(name + equals + text)
            continue
        if value is not None:
            raise CairnError(f"{flag} is given twice; give it once.")
        words = [text] if equals else _following(left, option)
        if name == option.refusal and words:
            raise CairnError(f"{name} takes no value, not {_short(words[0])}.")
        value = name == option.flag and _switch(flag, words)
    return bool(value), rest


def options(source: Any, path: tuple[str, ...] = ()) -> list[Field]:
    """Every option of a dataclass; of an instance also those of the agents in it."""
    cls = source if isinstance(source, type) else type(source)
    hints, out = get_type_hints(cls, include_extras=True), list[Field]()
    for f in fields(cls):
        value = None if isinstance(source, type) else getattr(source, f.name)
        if is_dataclass(value) and f.name in PARTS:
            out += options(value, (*path, f.name))
            continue
        bare, notes = _bare(hints[f.name])
        aliases = [alias for note in notes for alias in getattr(note, "aliases", None) or ()]
        required = f.default is MISSING and f.default_factory is MISSING
        out.append(Field((*path, f.name), bare, tyro.conf.Positional in notes, tuple(aliases), required))
    return out


def kinds(hint: Any) -> list[Any]:
    """The types that a hint admits, looking through unions and notes."""
    hint = _bare(hint)[0]
    if get_origin(hint) in (Union, types.UnionType):
        return [kind for arg in get_args(hint) for kind in kinds(arg)]
    return [hint]


def _bare(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """A hint without the notes on it, and the notes."""
    if get_origin(hint) is not Annotated:
        return hint, ()
    bare, notes = _bare(hint.__origin__)
    return bare, (*notes, *hint.__metadata__)


# -- words into values


def _read(args: list[str], known: Sequence[Field], prog: str) -> dict[tuple[str, ...], Any]:
    """Field -> value, for each that is given."""
    flags = {f.flag: f for f in known if not f.positional}
    flags |= {alias: f for f in known for alias in f.aliases}
    refusals = {f.refusal: f for f in known if f.is_bool}
    found: dict[tuple[str, ...], Any] = {}
    loose: list[str] = []
    while args:
        word = args.pop(0)
        if not _is_flag(word):
            loose.append(word)
            continue
        name, equals, text = word.partition("=")
        name = name.replace("_", "-")
        option = flags.get(name) or refusals.get(name)
        if option is None:
            raise CairnError(_unknown(word.partition("=")[0], [*flags, *refusals], prog))
        if option.path in found:
            raise CairnError(f"{option.flag} is given twice; give it once.")
        words = [text] if equals else _following(args, option)
        if name in refusals and words:
            raise CairnError(f"{name} takes no value, not {_short(words[0])}.")
        found[option.path] = False if name in refusals else value_of(option.flag, words, option.hint)
    return found | _positions(loose, [f for f in known if f.positional], prog)


def _following(args: list[str], option: Field) -> list[str]:
    """The words that belong to an option, taken off the arguments."""
    words: list[str] = []
    while args and not _is_flag(args[0]):
        if option.is_bool and args[0].lower() not in ("true", "false", "yes", "no", "on", "off"):
            break  # a switch, and what follows is something else
        words.append(args.pop(0))
        if not option.is_many:
            break
    return words


def _positions(loose: list[str], wanted: Sequence[Field], prog: str) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    for option in wanted:
        if option.is_many:
            found[option.path] = value_of(_named(option), loose, option.hint)
            return found
        if loose:
            found[option.path] = value_of(_named(option), [loose.pop(0)], option.hint)
    if loose:
        raise CairnError(f"{_short(loose[0])} is one word too many; `{prog} --help` shows what it takes.")
    return found


def value_of(flag: str, words: Sequence[str], hint: Any) -> Any:
    """The value that these words stand for; CairnError where they stand for none."""
    admitted = kinds(hint)
    if hint is bool:
        return _switch(flag, words)
    if type(None) in admitted and [word.lower() for word in words] in (["none"], ["null"]):
        return None
    for kind in admitted:
        if get_origin(kind) is tuple:
            if flag.startswith("-") and not words:
                raise CairnError(f"{flag} needs a value.")
            if len(words) == 1 and GROUPED_ROW.fullmatch(words[0]):
                whole, row = words[0].replace(",", ""), [str(int(part)) for part in words[0].split(",")]
                told = f"write {whole} for one number, ({','.join(row)}) for {len(row)}"
                raise CairnError(f"{flag} is {words[0]}, which can be read in two ways; {told}.")
            items = [part for word in words for part in word.strip("[]()").split(",") if part.strip()]
            if get_args(kind)[0] is Path:
                items = list(words)
            return tuple(value_of(flag, [item.strip()], get_args(kind)[0]) for item in items)
    if len(words) != 1 or not words[0]:
        raise CairnError(f"{flag} needs a value.")
    return _single(flag, words[0], admitted)


def _switch(flag: str, words: Sequence[str]) -> bool:
    if not words or words[0].lower() in ("true", "yes", "on", "1"):
        return True
    if words[0].lower() in ("false", "no", "off", "0"):
        return False
    raise CairnError(f"{flag} is {_short(words[0])}; it is a switch: write {flag}, or {flag}=false.")


def _single(flag: str, word: str, admitted: Sequence[Any]) -> Any:
    choices = [choice for kind in admitted if get_origin(kind) is Literal for choice in get_args(kind)]
    for kind in admitted:
        if kind is Schedule:
            return parse_schedule(word, flag)
        if get_origin(kind) is dict or kind is dict:
            return _dictionary(flag, word)
        if kind is int or kind is float:
            number = _number(word)
            if number is not None and (kind is float or number == int(number)):
                return kind(number) if abs(number) <= MOST else number  # `validated` says what is too large
        if kind is str or kind is Path:
            return kind(word)
    if word in choices:
        return word
    if choices:
        wanted = f"one of {', '.join(map(str, choices))}"
        raise CairnError(f"{flag} is {_short(word)}; it must be {wanted}.{closest(word, map(str, choices))}")
    wanted = " or ".join(WORDS[kind] for kind in admitted if kind in WORDS)
    point = f": {word.replace(',', '.')}?" if float in admitted and re.fullmatch(r"-?\d+,\d+", word) else "."
    raise CairnError(f"{flag} is {_short(word)}; it must be {wanted}{point}")


def _number(word: str) -> int | float | None:
    """'3000', '3,000', '3_000', '3e3', '3k' and '1.5M' as they are meant; None where it is no finite number."""
    if GROUPED.fullmatch(word):
        word = word.replace(",", "")
    suffixed = SUFFIXED.fullmatch(word)
    try:
        if suffixed:
            return _finite(round(float(suffixed[1]) * SUFFIXES[suffixed[2].lower()], 6))
        return int(word) if re.fullmatch(r"[+-]?[\d_]+", word) else _finite(float(word))
    except ValueError:  # also of an integer of thousands of digits
        return None


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _dictionary(flag: str, word: str) -> dict[str, Any]:
    try:
        found = json.loads(word)
    except (ValueError, RecursionError):
        raise CairnError(f"""{flag} is {_short(word)}; it must be JSON, such as '{{"name": 1}}'.""") from None
    if not isinstance(found, dict):
        raise CairnError(f"""{flag} is {_short(word)}; it must be names and values, such as '{{"name": 1}}'.""")
    return found


def _is_flag(word: str) -> bool:
    return len(word) > 1 and word.startswith("-") and not NEGATIVE.match(word)


def _short(word: str) -> str:
    shown = repr(word)[1:-1]  # what a terminal could take for an order is written out
    return shown if len(shown) <= SHOWN else shown[:SHOWN] + "..."


def _named(option: Field) -> str:
    return option.path[-1].upper().replace("_", "-") if option.positional else option.flag


def _unknown(flag: str, known: Iterable[str], prog: str) -> str:
    command = prog.split()[1]
    if flag == "--agent":
        return f"a recipe has its agent; without one, name both: cairn {command} --env ENV --agent sac."
    hint = hint_at(flag, [*known, *MORE.get(command, ())]) if flag.startswith("--") else ""
    return f"there is no option {_short(flag)}.{hint} `{prog} --help` shows them all."


def _changed(default: Any, found: Mapping[tuple[str, ...], Any]) -> Any:
    """The dataclass with these values at their places."""
    inner: dict[str, dict[tuple[str, ...], Any]] = {}
    changes: dict[str, Any] = {}
    for path, value in found.items():
        if len(path) == 1:
            changes[path[0]] = value
        else:
            inner.setdefault(path[0], {})[path[1:]] = value
    changes |= {name: _changed(getattr(default, name), values) for name, values in inner.items()}
    return replace(default, **changes)


# -- help


def _help(cls: type[Any], default: Any, prog: str) -> None:
    extra: dict[str, Any] = {} if default is None else {"default": default}
    tyro.cli(cls, args=["--help"], prog=prog, registry=_registry(), config=(tyro.conf.AvoidSubcommands,), **extra)


def _registry() -> Any:
    """How tyro shows what it does not know: schedules and JSON dictionaries."""
    from tyro.constructors import PrimitiveConstructorSpec, PrimitiveTypeInfo

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


# -- where something is to be written: looked at before any work is done


def writable_file(path: Path, flag: str) -> Path:
    """The path, where a file can be written there; CairnError where not. Nothing is created."""
    if path.is_dir():
        raise CairnError(f"{flag} is {path}, which is a folder; name a file.")
    if path.exists() and not os.access(path, os.W_OK):
        raise CairnError(f"{flag} is {path}, which may not be written; name another file.")
    _reachable(path.parent, flag, path)
    return path


def writable_folder(path: Path, flag: str) -> Path:
    """The path, where a folder can be made or filled there; CairnError where not. Nothing is created."""
    if path.exists() and not path.is_dir():
        raise CairnError(f"{flag} is {path}, which is a file; name a folder.")
    _reachable(path, flag, path)
    return path


def _reachable(folder: Path, flag: str, path: Path) -> None:
    for above in (folder, *folder.absolute().parents):
        if not os.path.lexists(above):
            continue
        if not above.is_dir():
            raise CairnError(f"{flag} is {path}, and {above} is no folder; name another place.")
        if not os.access(above, os.W_OK | os.X_OK):
            raise CairnError(f"{flag} is {path}, and {above} may not be written into; name another place.")
        return
