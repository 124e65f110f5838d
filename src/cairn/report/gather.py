"""Collects what a report shows: runs, groups, played policies, and a sentence for each thing that is missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cairn.core.errors import CairnError
from cairn.core.goals import Region
from cairn.evidence.table import read_results
from cairn.report.compare import Group, changed, grouped
from cairn.report.markup import plain
from cairn.report.plan import Trace, axes, play_all
from cairn.report.runs import RunFolder, find_runs, read_run
from cairn.runs.checkpoint import load_policy
from cairn.runs.evaluation import as_policy
from cairn.runs.visited import Visited, read_visited

PLACES = 3  # dimensions of a goal that can be a position


@dataclass(frozen=True)
class Plan:
    """Episodes of a group's best policy, from above."""

    group: Group
    run: RunFolder
    traces: list[Trace]
    floor: Region | None
    visited: Visited | None = None  # the archive in its newest checkpoint, of cells that can be drawn


@dataclass(frozen=True)
class Report:
    """Everything that a page shows, and a sentence for each thing that could not be read."""

    groups: list[Group]
    plans: list[Plan]
    results: list[dict[str, object]]
    faults: list[str]

    @property
    def runs(self) -> list[RunFolder]:
        """The runs of all groups."""
        return [run for group in self.groups for run in group.runs]


def gather(
    paths: Iterable[Path], *, episodes: int = 0, media: bool = True, results: Path | None = None, trust: bool = False
) -> Report:
    """Read the runs, and let the best policy of each group play `episodes` if it can be drawn from above.

    Policies whose task imports a module are played only with `trust`. A fault of one run becomes a sentence of the
    report,
    and does not affect the others.
    """
    runs: list[RunFolder] = []
    faults: list[str] = []
    for path in find_runs(paths):
        try:
            runs.append(read_run(path, media=media))
            faults += runs[-1].faults
        except CairnError as error:
            faults.append(str(error))
        except OSError as error:
            faults.append(f"{path} cannot be read: {error.strerror}.")
    groups = grouped(runs)
    plans = (
        [plan for group in groups if (plan := _plan(group, episodes, trust, faults)) is not None] if episodes else []
    )
    recorded = _recorded(groups, results, faults)
    said = [" ".join(plain(fault).split()) for fault in faults]  # one line each
    return Report(groups, plans, recorded, list(dict.fromkeys(said)))


def _plan(group: Group, episodes: int, trust: bool, faults: list[str]) -> Plan | None:
    run = group.best()
    if not (run.path / "best").is_dir():
        return None
    try:
        saved = load_policy(run.path / "best", trust=trust)
        player = as_policy(saved.agent)
        goal = saved.agent.spec.goal
        subgoals = saved.agent.positions is not None
        if axes(player, saved.agent.spec) is None or (not subgoals and goal is not None and goal.goal > PLACES):
            return None
        visited = read_visited(run.path, saved.agent) if subgoals else None
        drawn = visited is not None and visited.placed and len(visited.size) >= 2 and len(visited.cells) > 0
        traces, floor = play_all(player, saved.task.for_scoring(), episodes=episodes)
        return Plan(group, run, traces, floor, visited if drawn else None)
    except CairnError as error:
        faults.append(f"{run.path} was not played, so it has no picture from above: {error}")
    except Exception as error:  # a task's code may raise anything
        faults.append(f"{run.path} could not be played for its picture: {type(error).__name__}: {error}.")
    return None


def _recorded(groups: Sequence[Group], folder: Path | None, faults: list[str]) -> list[dict[str, object]]:
    """The recorded results of these recipes."""
    found: list[dict[str, object]] = []
    for name in dict.fromkeys(g.first.name for g in groups if folder is not None and changed(g.first) is not None):
        try:
            found += read_results(folder, name) if folder is not None else []
        except CairnError as error:
            faults.append(str(error))
    return found
