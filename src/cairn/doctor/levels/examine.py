"""Examines a saved hierarchy: its levels play, with an ideal one in the place of either."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cairn.algorithms.hiro.agent import HIRO
from cairn.algorithms.player import Player
from cairn.algorithms.registry import agent_name
from cairn.core.checks import Episodes, EpisodeSeed, Positive, fit
from cairn.core.errors import CairnError
from cairn.core.format import percent
from cairn.core.terminal import table, wrapped
from cairn.core.types import Array
from cairn.doctor.finding import Finding, ordered, plural
from cairn.doctor.levels.figures import Figures, asked_and_left, edges_of, figures, visited_cells
from cairn.doctor.levels.play import Director, Ideal, Oracle, Own, Played, Stage
from cairn.doctor.levels.verdict import Evidence, findings, verdict
from cairn.doctor.levels.ways import cells_in
from cairn.runs.checkpoint import Saved, load_policy
from cairn.runs.visited import Visited, cell_size, read_visited

SHARES = (0.45, 0.8, 1.0)  # of the time limit, at which this policy, the oracle and the ideal low level end
SAME = 1e-4  # relative difference of coordinates that are the same


@dataclass(frozen=True)
class Levels:
    """What the doctor found out about a hierarchy.

    Attributes:
        path: The policy.
        env: Its task.
        verdict: A sentence that names the level at fault, if one is.
        findings: What keeps it from its goal, the gravest first.
        own: Figures of the policy as it is.
        oracle: Figures of waypoints over its low level; None where the task has no goals in the space of subgoals.
        ideal: Figures of its high level over an ideal low level; None where the task has no method `place`.
        mapped: Whether the waypoints followed the task's reachable region or its method `waypoints`.
        cells: Cells of the reachable region; None where the task declares none.
        seen: How many of them these episodes visited.
        archived: How many of them the archive of the run holds; None without an archive.
    """

    path: str
    env: str
    verdict: str
    findings: list[Finding]
    own: Figures
    oracle: Figures | None
    ideal: Figures | None
    mapped: bool
    cells: int | None
    seen: int | None
    archived: int | None

    def as_json(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        """The tables, and the verdict where it is no finding, which says the same."""
        said = [] if any(one.what == self.verdict for one in self.findings) else [wrapped(self.verdict, "  ")]
        return "\n".join([_table(self), _more(self), *said])


def is_hierarchy(saved: Saved) -> bool:
    """Whether a saved policy has levels to examine."""
    return bool(saved.agent.levels)


def diagnose_levels(
    path: Path | str, *, episodes: int = 20, seed: int = 1000, seconds: float = 60.0, trust: bool = False
) -> Levels:
    """Find out which level of a hierarchy is at fault.

    Args:
        path: A run folder, a checkpoint or a zoo entry.
        episodes: Episodes to play in each way.
        seed: Seed of the first episode; episode i uses seed + i.
        seconds: Time limit; where it is reached, fewer episodes are played.
        trust: Whether its task may import a module by its name, or open a file.

    Returns:
        The verdict, the findings and the figures.

    Raises:
        CairnError: There is no policy, it is not a hierarchy, or it does not fit its task.
        EnvError: The task raises an error.
    """
    episodes, seed = fit("episodes", episodes, Episodes), fit("seed", seed, EpisodeSeed)
    seconds = fit("seconds", seconds, Positive)
    saved = load_policy(Path(path), trust=trust)
    if not is_hierarchy(saved):
        raise CairnError(f"{path} is a policy of {agent_name(saved.agent.cfg)}, which has no levels to examine.")
    return examine_levels(saved, Path(path), episodes=episodes, seed=seed, seconds=seconds)


def examine_levels(saved: Saved, path: Path, *, episodes: int, seed: int, seconds: float) -> Levels:
    """`diagnose_levels` of a policy that was read from `path`."""
    agent: Any = saved.agent  # with levels: `is_hierarchy`
    begun, seeds = time.monotonic(), range(seed, seed + episodes)
    stage = Stage(agent, saved.task.for_scoring(), episodes)
    try:
        Player(agent).must_suit(stage.spec)
        plays: list[list[Played] | None] = [stage.play(Own(agent), seeds, begun + SHARES[0] * seconds), None, None]
        shared = shared_axes(agent, plays[0] or [])
        oracle = Oracle(agent, shared, stage.envs, strides(agent, plays[0] or [])) if shared else None
        others: list[Director | None] = [oracle, Ideal(agent) if stage.can("place") else None]
        for k, director in enumerate(others, 1):
            if director is not None:
                plays[k] = stage.play(director, seeds, begun + SHARES[k] * seconds)
        mapped = oracle is not None and (oracle.map is not None or stage.can("waypoints"))
    finally:
        stage.close()
    own = plays[0] or []
    away, _ = asked_and_left(own, agent.cfg.every)
    edges = edges_of(np.linalg.norm(away, axis=1))
    told = [None if one is None else _figures(one, agent, edges) for one in plays]
    assert told[0] is not None
    cells, seen, archived = coverage(agent, own, read_visited(path, agent))
    evidence = Evidence(
        own=told[0],
        oracle=told[1] if told[1] is not None and told[1].episodes else None,
        ideal=told[2] if told[2] is not None and told[2].episodes else None,
        mapped=mapped,
        lost=sum(one.lost for one in plays[1] or []),
        goals=len(plays[1] or []),
        cells=cells,
        seen=None if seen is None else max(seen, archived or 0),
    )
    cut = _cut(plays, episodes, seconds)
    if not evidence.own.episodes:
        said, found = f"No episode ended within {seconds:g} s.", cut
    else:
        said, found = verdict(evidence)[0], [*findings(evidence), *cut]
    return Levels(
        str(path), saved.task.id, said, ordered(found), evidence.own, evidence.oracle, evidence.ideal, mapped,
        cells, seen, archived,
    )  # fmt: skip


def _figures(played: list[Played], agent: HIRO, edges: Array) -> Figures:
    found = figures(played, every=agent.cfg.every, near=agent.cfg.near, edges=edges)
    return found if math.isfinite(found.mean_return) else replace(found, mean_return=0.0)


def _cut(plays: list[list[Played] | None], episodes: int, seconds: float) -> list[Finding]:
    """The finding that fewer episodes were played than asked for."""
    ended = [sum(one.ended for one in played) for played in plays if played is not None]
    if min(ended) == episodes:
        return []
    what = "There was not enough time to examine everything."
    evidence = f"{seconds:g} s; {' and '.join(map(str, ended))} of {plural(episodes, 'episode')} each ended"
    return [Finding("out-of-time", "hint", what, evidence, "Raise the time limit (seconds), or play fewer episodes.")]


def shared_axes(agent: HIRO, played: list[Played]) -> int:
    """How many axes of a goal are the first axes of a subgoal: all, where subgoals are goals; 0 without goals."""
    layout = agent.spec.goal
    if layout is None:
        return 0
    if agent.positions == layout.achieved:
        return int(agent.dim)
    shared = 0
    for axis in range(min(agent.dim, layout.goal)):
        pairs = [(one.path[-1][axis], one.achieved[axis]) for one in played if one.achieved is not None and one.ended]
        if not pairs or not all(math.isclose(a, b, rel_tol=SAME, abs_tol=SAME) for a, b in pairs):
            break
        shared += 1
    return shared


def strides(agent: HIRO, played: list[Played]) -> Array:
    """The longest step along each axis of a subgoal [d] in these episodes."""
    longest = np.zeros(agent.dim)
    for one in played:
        if len(one.path) > 1:
            longest = np.maximum(longest, np.abs(np.diff(np.stack(one.path), axis=0)).max(0))
    return longest


def coverage(agent: HIRO, played: list[Played], visited: Visited | None) -> tuple[int | None, int | None, int | None]:
    """Cells of the reachable region, those of them that the episodes visited, and those in the archive.

    All None without a region of up to three axes; the last one without an archive of its places.
    """
    region, size = agent.spec.reachable, cell_size(agent)
    axes = 0 if region is None else min(len(region.boxes[0][0]), agent.dim)
    if region is None or not 1 <= axes <= 3:
        return None, None, None
    size = size[:axes] if visited is None or visited.placed else agent.range.cpu().numpy()[:axes].astype(float)
    cells = cells_in(region, size)
    archived = None
    if visited is not None and visited.placed:
        archived = len(cells & set(map(tuple, visited.cells[:, :axes].tolist())))
    return len(cells), len(cells & visited_cells(played, size)), archived


# -- as text


def _table(levels: Levels) -> str:
    """Who played, and what came of it."""
    rows = []
    parts = [
        ("this policy", levels.own),
        ("oracle waypoints + low level", levels.oracle),
        ("high level + ideal low level", levels.ideal),
    ]
    for name, one in parts:
        if one is not None:
            rows.append(
                {
                    "levels": name,
                    "played": one.episodes,
                    "success": _share(one.success),
                    "return": f"{one.mean_return:.4g}",
                    "reached": _share(one.reached),
                    "covered": _share(one.covered),
                    "falls": _share(one.fell),
                }
            )
    asked = [
        {
            "subgoal asked": f"{a.least:.3g} to {a.most:.3g}",
            "of all": _share(a.share),
            "reached": _share(a.reached),
            "left": "-" if a.left is None else f"{a.left:.3g}",
            **({"by waypoints": _share(b.reached)} if levels.oracle is not None and b is not None else {}),
        }
        for a, b in zip(
            levels.own.asked, levels.oracle.asked if levels.oracle else (None,) * len(levels.own.asked), strict=True
        )
    ]
    return "\n\n".join(table(part) for part in (rows, asked) if part) + "\n"


def _more(levels: Levels) -> str:
    """Directions and coverage, and what could not be measured."""
    lines = []
    if levels.own.directions:
        told = ", ".join(f"{name} {_share(value)}" for name, value in levels.own.directions.items())
        lines.append(f"reached by direction: {told}")
    if levels.cells is not None:
        seen = f"cells of the reachable region visited: {levels.seen} of {levels.cells}"
        lines.append(seen + ("" if levels.archived is None else f", {levels.archived} in the archive of the run"))
    if levels.oracle is None:
        lines.append("no oracle: the task has no goals in the space of subgoals")
    elif not levels.mapped:
        lines.append("the task declares no reachable region: waypoints are on the straight line")
    if levels.ideal is None:
        lines.append("no ideal low level: the task has no method place(point)")
    return "\n".join(wrapped(line, "  ") for line in lines)


def _share(value: float | None) -> str:
    return "-" if value is None else percent(round(value, 2))
