"""Reads what a run wrote: its curves and its watchers' remarks. The run may still be writing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cairn.core.errors import CairnError
from cairn.core.metric import MEASURES
from cairn.core.untrusted import MIB, NotThere, parse_json, read_text

LOG, REMARKS = 64 * MIB, MIB  # largest sizes of metrics.csv and watch.jsonl, in bytes
LINES = 2_000_000  # of metrics.csv
SAID = {"step": int, "code": str, "severity": str, "what": str, "evidence": str, "remedy": str}  # a line of watch.jsonl


class Point(NamedTuple):
    """One line of metrics.csv."""

    step: int
    seconds: float
    value: float


@dataclass(frozen=True)
class Curves:
    """All metrics by name, in the order they were written, and the number of unreadable lines."""

    named: dict[str, list[Point]]
    lost: int = 0

    def last(self) -> Point | None:
        """The newest measurement of any metric."""
        return max((points[-1] for points in self.named.values()), key=lambda p: (p.step, p.seconds), default=None)


def read_curves(folder: Path) -> Curves:
    """metrics.csv of a run folder; no curves without it. An unfinished last line does not count as lost."""
    path = folder / "metrics.csv"
    try:
        whole = read_text(path, LOG, links=False).split("\n")[:-1]
    except NotThere:
        return Curves({})
    if len(whole) > LINES:
        raise CairnError(f"{path} is refused: it has more than {LINES:,} lines.")
    named: dict[str, list[Point]] = {}
    lost = 0
    for line in whole[1:]:
        try:
            step, seconds, name, value = line.split(",")
            point = Point(int(step), float(seconds), float(value))
            named.setdefault(name, []).append(point)
        except ValueError:
            lost += 1
    return Curves(named, lost)


def evaluations(folder: Path, metric: str) -> list[Point]:
    """The evaluations so far, by the recipe's metric: 'return' or 'success'."""
    return read_curves(folder).named.get(MEASURES[metric], [])


def held(points: list[Point], target: float | None, hold: int) -> bool:
    """Whether the last evaluations held the target for as long as it takes to stop a run early."""
    return target is not None and len(points) >= hold and all(p.value >= target for p in points[-hold:])


def finite(points: list[Point]) -> list[Point]:
    """The points with finite values."""
    return [p for p in points if math.isfinite(p.value)]


def read_remarks(folder: Path) -> tuple[list[dict[str, Any]], int]:
    """Remarks of watchers (step, code, severity, what, evidence, remedy), and the number of unreadable lines."""
    path = folder / "watch.jsonl"
    try:
        lines = read_text(path, REMARKS, links=False).splitlines()
    except NotThere:
        return [], 0
    except CairnError:
        return [], 1
    remarks, lost = [], 0
    for line in lines:
        try:
            body = parse_json(line, str(path))
        except CairnError:
            body = None
        if isinstance(body, dict) and {key: type(value) for key, value in body.items()} == SAID:
            remarks.append(body)
        else:
            lost += 1
    return remarks, lost
