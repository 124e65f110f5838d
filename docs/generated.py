"""Tables that docs/hooks.py puts into the guide: every command and option, and the keywords of other libraries.

They are made from what the command line itself reads: dataclasses, their comments, and cairn.core.sb3_names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from tyro._docstrings import get_field_docstring

from cairn.algorithms.registry import ALGORITHMS, names, owners
from cairn.cli import bench, doctor, native, policies, reports, results, search, train
from cairn.cli.options import Field, options
from cairn.cli.usage import USAGE, lines_of
from cairn.cli.values import kinds
from cairn.core.sb3_names import NOTES, RENAMED, WITHOUT, written
from cairn.core.schedules import Schedule
from cairn.recipes.recipe import OF_A_TASK, Recipe

# The options of each command, in the order of `cairn --help`.
COMMANDS: dict[str, type[Any]] = {
    "train": train.TrainOptions,
    "eval": policies.EvalArgs,
    "watch": policies.WatchArgs,
    "report": reports.ReportArgs,
    "list": results.ListArgs,
    "results": results.ResultsArgs,
    "doctor": doctor.DoctorArgs,
    "new-env": doctor.NewEnvArgs,
    "sweep": search.SweepOptions,
    "tune": search.TuneOptions,
    "import": policies.ImportArgs,
    "export": policies.ExportArgs,
    "demos": policies.DemosArgs,
    "bench": bench.BenchArgs,
    "native": native.NativeArgs,
}
# Commands that take the options of a run, but for these.
ALSO = {"train": "", "sweep": "`--seed` and `--resume`, which it sets itself", "tune": "`--resume`"}
THEIRS = ("a2c", "dqn", "ppo", "sac", "td3")  # algorithms of Stable-Baselines3
VALUES = {int: "integer", float: "number", str: "text", Path: "path", dict: "JSON", Schedule: "number or schedule"}


def grid(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; bars in cells are escaped."""
    lines = [list(heads), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


# -- commands


def commands() -> str:
    """A section for each command: its usage, what it does, its options."""
    return "\n\n".join(command(name) for name in COMMANDS)


def command(name: str) -> str:
    cls = COMMANDS[name]
    usage = "\n".join(line.removeprefix("  ") for line in lines_of(name).splitlines())
    about = " ".join((cls.__doc__ or "").split())
    told = [f"## cairn {name}", about, f"```text\n{usage}\n```", option_table(cls)]
    if name in ALSO:
        but = f", except {ALSO[name]}" if ALSO[name] else ""
        told.append(f"It also takes all [options of a run](#options-of-a-run){but}.")
    return "\n\n".join(told)


def run_options() -> str:
    """The options of a run, which are the fields of a recipe."""
    return option_table(Recipe, without=("agent",))


def agent_options() -> str:
    """A section for each algorithm with its options."""
    return "\n\n".join(f"### {name}\n\n{_agent(name)}" for name in names())


def _agent(name: str) -> str:
    entry = ALGORITHMS[name]
    told = [f"`{entry.config.__name__}` in Python.", option_table(entry.config, "agent.", without=entry.parts)]
    for part in entry.parts:
        config = type(getattr(entry.config(), part))
        chosen = next(one for one in names() if ALGORITHMS[one].config is config)
        own = f"its options begin with `--agent.{part}.`"
        told.append(f"`--agent.{part}` is an algorithm ({chosen} by default); {own}.")
    return "\n\n".join(told)


def option_table(cls: type[Any], prefix: str = "", *, without: Iterable[str] = ()) -> str:
    """A table of the options that a dataclass declares."""
    rows = []
    for option in options(cls):
        name = option.path[0]
        if name not in without:
            rows.append((_name(option, prefix), _value(option), _default(cls, name), _help(cls, name)))
    return grid(("option", "value", "default", "meaning"), rows)


def _name(option: Field, prefix: str) -> str:
    if option.positional:
        return f"`{option.path[0].upper()}`"
    return ", ".join(f"`{flag}`" for flag in (option.flag.replace("--", f"--{prefix}", 1), *option.aliases))


def _value(option: Field) -> str:
    """What may follow an option, in words."""
    return "switch" if option.is_bool else ", ".join(word for kind in kinds(option.hint) for word in _words(kind))


def _words(kind: Any) -> list[str]:
    if get_origin(kind) is Literal:
        return [f"`{one}`" for one in get_args(kind)]
    if get_origin(kind) is tuple:
        return [*(word for inner in kinds(get_args(kind)[0]) for word in _words(inner)), "..."]
    return ["`none`"] if kind is type(None) else [VALUES[get_origin(kind) or kind]]


def _default(cls: type[Any], name: str) -> str:
    found = next(f for f in fields(cls) if f.name == name)
    if found.default_factory is not MISSING:
        value = found.default_factory()
    elif found.default is not MISSING:
        value = found.default
    else:
        return "required"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple) and value:
        return f"`{' '.join(map(str, value))}`"
    return "" if value in ("", {}, ()) else f"`{str(value).lower() if value is None else value}`"


def _help(cls: type[Any], name: str) -> str:
    text = " ".join((get_field_docstring(cls, name, ()) or "").split())
    return _capital(text)


def _capital(text: str) -> str:
    """A capital at the start, but not of a Greek letter or a name such as num_envs."""
    first = text.partition(" ")[0]
    return text[:1].upper() + text[1:] if first.isascii() and first.rstrip(",.;:").isalpha() else text


# -- keywords of Stable-Baselines3 and CleanRL


def keywords() -> str:
    """Every keyword that cairn.core.sb3_names knows, and what to write instead."""
    rows = [(f"`{name}`", answer(name)) for name in sorted({*RENAMED, *WITHOUT}, key=lambda one: one.strip("_"))]
    return grid(("Stable-Baselines3, CleanRL", "Cairn"), rows)


def answer(name: str) -> str:
    """What replaces a keyword: a setting with an example, where it belongs, and how the value is converted."""
    if name == "callback":
        return "`callback=f` (`learn`), a function of a progress object"
    told = [_setting(setting, name) for setting in RENAMED.get(name, ()) if _place(setting)]
    if name in WITHOUT and WITHOUT[name] != NOTES.get(name) and (not told or "ppo" in WITHOUT[name]):
        told.append(f"leave it out: {WITHOUT[name]}")
    return "; ".join(told) + (f". {_capital(NOTES[name])}" if name in NOTES else "")


def _setting(setting: str, name: str) -> str:
    if setting == "agent":
        return "`--agent ppo` (the command line)"
    return f"`{written(setting, name)}` ({_place(setting)})"


def _place(setting: str) -> str:
    """Who takes a setting: algorithms by name, `learn`, or a command."""
    if owners(setting):
        return ", ".join(one for one in owners(setting) if one in THEIRS) or ", ".join(owners(setting))
    if setting in ("env", "envs", "device", "threads"):
        return "`PPO(env, ...)`"
    if setting in (*OF_A_TASK, "env_args") or setting == "agent":
        return "the command line" + ("; in Python a `Task`" if setting != "agent" else "")
    if setting in {f.name for f in fields(Recipe)} | {"out", "resume"}:
        return "`learn`"
    for command, cls in COMMANDS.items():
        if setting in {f.name for f in fields(cls)}:
            return f"`cairn {command}`"
    return ""


assert set(COMMANDS) == {line.split()[1] for line in USAGE.splitlines() if line.startswith("  cairn ")}
