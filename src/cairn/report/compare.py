"""Compares runs: groups with the same configuration, and the options in which groups differ."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cairn.core.serialise import to_json
from cairn.core.untrusted import shown
from cairn.recipes import RECIPES
from cairn.recipes.identity import NOT_HASHED
from cairn.report.runs import MOST, RunFolder

NOT_LEARNING = NOT_HASHED - {"name"}  # runs of different names are different groups


@dataclass(frozen=True)
class Group:
    """Runs of one configuration, which differ only in their seeds and in what does not affect learning."""

    label: str
    runs: tuple[RunFolder, ...]

    @property
    def first(self) -> RunFolder:
        """The first run."""
        return self.runs[0]

    def best(self) -> RunFolder:
        """The run with the best evaluation."""
        return max(self.runs, key=lambda run: max((p.value for p in run.evaluations), default=-math.inf))


def flat(config: dict[str, Any], at: str = "") -> dict[str, str]:
    """All options by their names on the command line, with values as text: {"agent.lr": "0.001", ...}."""
    found: dict[str, str] = {}
    for key, value in config.items():
        name = f"{at}{key}"
        if isinstance(value, dict) and value:
            found |= flat(value, f"{name}.")
        elif key == "kind":
            found[at.rstrip(".") or "kind"] = str(value).removesuffix("Config").lower()
        else:
            found[name] = value if isinstance(value, str) else json.dumps(_whole(value))
    return found


def _whole(value: Any) -> Any:
    """500.0 becomes 500, so that integers and floats compare equal."""
    if isinstance(value, list):
        return [_whole(v) for v in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < MOST else value


def grouped(runs: Sequence[RunFolder]) -> list[Group]:
    """Groups of runs with the same recipe and configuration, in order; their labels are unique."""
    together: dict[str, list[RunFolder]] = {}
    for run in runs:
        learning = {k: v for k, v in run.config.items() if k not in NOT_LEARNING}
        key = json.dumps(learning, sort_keys=True) if run.config else f"no config: {run.path}"
        together.setdefault(key, []).append(run)
    sets = [tuple(members) for members in together.values()]
    return [Group(_label(members, sets), members) for members in sets]


def _label(members: tuple[RunFolder, ...], sets: Sequence[tuple[RunFolder, ...]]) -> str:
    """The recipe's name and, if other groups share it, the options that distinguish this one."""
    name, mine = members[0].name, flat(members[0].config)
    others = [flat(s[0].config) for s in sets if s is not members and s[0].name == name]
    if not others:
        return name
    told = []
    for key in dict.fromkeys(key for config in (mine, *others) for key in config if key not in NOT_LEARNING):
        alike = [other for other in others if other.get(key) == mine.get(key)]
        if len(alike) < len(others):
            told.append(f"{key} {shown(mine[key], 24)}" if key in mine else f"no {key}")
            others = alike
    return f"{name} ({', '.join(told) if told and not others else members[0].path.name})"


def differences(groups: Sequence[Group]) -> list[tuple[str, list[str]]]:
    """Options that differ between runs, except the seed, with each group's values."""
    if len({id(run) for group in groups for run in group.runs}) < 2:
        return []
    flats = [[flat(run.config) for run in group.runs] for group in groups]
    names = dict.fromkeys(name for several in flats for one in several for name in one)
    rows = []
    for name in names:
        values = [list(dict.fromkeys(one.get(name, "-") for one in several)) for several in flats]
        if name not in ("seed", "about") and len({v for several in values for v in several}) > 1:
            rows.append((name, [", ".join(several) for several in values]))
    return rows


def changed(run: RunFolder) -> list[tuple[str, str, str]] | None:
    """(option, value in the recipe, value in the run) where they differ; None if no recipe has that name."""
    if run.name not in RECIPES:
        return None
    ships, ran = flat(to_json(RECIPES[run.name])), flat(run.config)
    names = [n for n in dict.fromkeys([*ships, *ran]) if n not in NOT_LEARNING and not n.endswith("capacity")]
    return [(n, ships.get(n, "-"), ran.get(n, "-")) for n in names if ships.get(n) != ran.get(n)]
