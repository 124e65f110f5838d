"""Reads command-line options: words become fields of a dataclass, a mistake becomes one sentence.

Every option of every command is a field of a dataclass and is read here. `core.checks.validated` checks ranges, as in
Python. tyro prints `--help`, see `help`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from tyro.conf import Positional

from cairn.cli.values import is_flag, kinds, shortened, value_of, without_notes
from cairn.core.checks import validated
from cairn.core.errors import CairnError
from cairn.core.sb3_names import hint as hint_at
from cairn.core.schedules import Schedule
from cairn.core.unstored import Unstored

T = TypeVar("T")
Place = tuple[str, ...]  # place of a value in a dataclass: ("agent", "gamma")
ON_OR_OFF = ("true", "false", "yes", "no", "on", "off")


@dataclass(frozen=True)
class Field:
    """One option: the place of its value in the dataclass, and its type."""

    path: Place
    hint: Any
    positional: bool = False
    aliases: tuple[str, ...] = ()
    required: bool = False

    @property
    def flag(self) -> str:
        """The option as it is typed: --agent.batch-size."""
        return "--" + ".".join(self.path).replace("_", "-")

    @property
    def refusal(self) -> str:
        """The form that switches an option off: --no-half, --agent.no-layer-norm."""
        return "--" + ".".join((*self.path[:-1], f"no-{self.path[-1]}")).replace("_", "-")

    @property
    def is_bool(self) -> bool:
        """Whether it is a switch."""
        return self.hint is bool

    @property
    def is_many(self) -> bool:
        """Whether it takes several values."""
        return any(get_origin(kind) is tuple for kind in kinds(self.hint))


# -- the three ways to read: all arguments, changes of a value, some of the arguments


def parse(cls: type[T], args: Sequence[str], *, default: T | None = None, prog: str) -> T:
    """The dataclass that these arguments describe, checked; `default` gives the values of absent options."""
    if default is not None:
        return parse_changes(default, args, prog=prog)[0]
    if asks_for_help(args):
        from cairn.cli.help import show

        show(cls, prog=prog)
    known = options(cls)
    found = _read_all(args, known, prog=prog)
    missing = [f for f in known if f.required and f.path not in found]
    if missing:
        raise CairnError(f"{prog} needs {_named(missing[0])}; `{prog} --help` shows every option.")
    return validated(_made(cls, found))


def parse_changes(
    default: T,
    args: Sequence[str],
    *,
    prog: str,
    beside: type[Any] | None = None,
    refused: Mapping[str, str] | None = None,
    elsewhere: Callable[[str], str] | None = None,
) -> tuple[T, set[str]]:
    """`default` changed by these arguments, checked; and the names of the fields that they give.

    Args:
        default: The values of absent options.
        args: The arguments.
        prog: The command, for messages.
        beside: Declares options that `parse_known` has read before; help and hints include them.
        refused: Flags that the command does not take -> the sentence that says why.
        elsewhere: Says where else Cairn has a setting, see `sb3_names.hint`.

    Raises:
        CairnError: An argument is wrong.
    """
    if asks_for_help(args):
        from cairn.cli.help import show

        show(*([] if beside is None else [beside]), default, prog=prog)
    refused = refused or {}
    known = [option for option in options(default) if option.flag not in refused]
    more = [] if beside is None else options(beside)
    found = _read_all(args, known, prog=prog, beside=more, refused=refused, elsewhere=elsewhere)
    changed: T = _changed(default, found)
    return validated(changed), {path[0] for path in found}


def parse_known(cls: type[T], args: Sequence[str]) -> tuple[T, list[str]]:
    """The dataclass that some of these arguments describe, checked; and the words that are not its options."""
    found, rest = read(args, options(cls))
    return validated(_made(cls, found), "--"), rest


def peek(cls: type[T], args: Sequence[str]) -> T:
    """Like `parse_known`, for arguments that are read and checked again later."""
    return _made(cls, read(args, options(cls))[0])


def asks_for_help(args: Sequence[str]) -> bool:
    """Whether --help or -h is among the arguments."""
    return bool({"--help", "-h"} & set(args))


# -- which options there are


def options(source: Any, path: Place = ()) -> list[Field]:
    """All options of a dataclass; of an instance also those of the configs in it."""
    cls = source if isinstance(source, type) else type(source)
    hints, out = get_type_hints(cls, include_extras=True), list[Field]()
    for f in fields(cls):
        value = None if isinstance(source, type) else getattr(source, f.name)
        if is_config(value):
            out += options(value, (*path, f.name))
            continue
        bare, notes = without_notes(hints[f.name])
        if _is_given_in_python(bare):
            continue
        aliases = [alias for note in notes for alias in getattr(note, "aliases", None) or ()]
        required = f.default is MISSING and f.default_factory is MISSING
        out.append(Field((*path, f.name), bare, Positional in notes, tuple(aliases), required))
    return out


def _is_given_in_python(hint: Any) -> bool:
    """Whether the values of a field are no words, such as functions."""
    items = [get_args(kind)[0] if get_origin(kind) is tuple else kind for kind in kinds(hint)]
    return any(isinstance(item, type) and issubclass(item, Unstored) for item in items)


def is_config(value: Any) -> bool:
    """Whether the fields of a value are options too: --agent.gamma, --agent.low.gamma."""
    return is_dataclass(value) and not isinstance(value, (type, Schedule))


# -- reading them


def read(
    args: Sequence[str], known: Sequence[Field], unknown: Callable[[str], None] | None = None
) -> tuple[dict[Place, Any], list[str]]:
    """Place -> value for each option that is given, and the other words in order.

    `unknown` is called with each flag that is not in `known`.
    """
    flags = {f.flag: f for f in known if not f.positional}
    flags |= {alias: f for f in known for alias in f.aliases}
    refusals = {f.refusal: f for f in known if f.is_bool}
    found: dict[Place, Any] = {}
    left, rest = list(args), list[str]()
    while left:
        word = left.pop(0)
        name, equals, text = word.partition("=")
        name = name.replace("_", "-")
        option = flags.get(name) or refusals.get(name)
        if option is None or not is_flag(word):
            if unknown is not None and is_flag(word):
                unknown(word.partition("=")[0])
            rest.append(word)
            continue
        if option.path in found:
            raise CairnError(f"{option.flag} is given twice; give it once.")
        words = [text] if equals else _following(left, option)
        if name in refusals and words:
            raise CairnError(f"{name} takes no value, not {shortened(words[0])}.")
        found[option.path] = False if name in refusals else value_of(option.flag, words, option.hint)
    return found, rest


def _read_all(
    args: Sequence[str],
    known: Sequence[Field],
    *,
    prog: str,
    beside: Sequence[Field] = (),
    refused: Mapping[str, str] | None = None,
    elsewhere: Callable[[str], str] | None = None,
) -> dict[Place, Any]:
    """Place -> value for each option that is given. Raises CairnError for other words."""
    names = [f.flag for f in (*known, *beside) if not f.positional]
    names += [alias for f in known for alias in f.aliases] + [f.refusal for f in known if f.is_bool]

    def unknown(flag: str) -> None:
        if refused and flag in refused:
            raise CairnError(refused[flag])
        raise CairnError(_unknown(flag, names, prog, elsewhere))

    found, loose = read(args, known, unknown)
    return found | _positions(loose, [f for f in known if f.positional], prog)


def _following(args: list[str], option: Field) -> list[str]:
    """Remove and return the words that belong to an option."""
    words: list[str] = []
    while args and not is_flag(args[0]):
        if option.is_bool and args[0].lower() not in ON_OR_OFF:
            break  # a switch without a value
        words.append(args.pop(0))
        if not option.is_many:
            break
    return words


def _positions(loose: list[str], wanted: Sequence[Field], prog: str) -> dict[Place, Any]:
    found: dict[Place, Any] = {}
    for option in wanted:
        if option.is_many:
            found[option.path] = value_of(_named(option), loose, option.hint)
            return found
        if loose:
            found[option.path] = value_of(_named(option), [loose.pop(0)], option.hint)
    if loose:
        raise CairnError(f"unexpected argument {shortened(loose[0])}; `{prog} --help` shows what it takes.")
    return found


def _named(option: Field) -> str:
    return option.path[-1].upper().replace("_", "-") if option.positional else option.flag


def _unknown(flag: str, known: Iterable[str], prog: str, elsewhere: Callable[[str], str] | None) -> str:
    hint = hint_at(flag, known, elsewhere) if flag.startswith("--") else ""
    return f"there is no option {shortened(flag)}.{hint} `{prog} --help` shows them all."


def _made(cls: type[T], found: Mapping[Place, Any]) -> T:
    return cls(**{path[0]: value for path, value in found.items()})


def _changed(default: Any, found: Mapping[Place, Any]) -> Any:
    """The dataclass with these values at their places."""
    inner: dict[str, dict[Place, Any]] = {}
    changes: dict[str, Any] = {}
    for path, value in found.items():
        if len(path) == 1:
            changes[path[0]] = value
        else:
            inner.setdefault(path[0], {})[path[1:]] = value
    changes |= {name: _changed(getattr(default, name), values) for name, values in inner.items()}
    return replace(default, **changes)
