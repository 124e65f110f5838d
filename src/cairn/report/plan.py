"""A top view of episodes: the agent's path, its subgoals and its goal."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from cairn.algorithms.player import Player
from cairn.core.errors import CairnError
from cairn.core.goals import Region
from cairn.core.types import Array, Episode, Spec
from cairn.envs.task import LONGEST, Task
from cairn.report.play import play
from cairn.vector.checks import close_env
from cairn.vector.spaces import spec_of_env

KINDS = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class Trace:
    """One episode from above: path [T + 1, 2]; subgoals [n, 2] in the order they were chosen; goal [2]."""

    path: Array
    subgoals: Array
    goal: Array | None
    episode: Episode


def needs(out: Path) -> None:
    """Raise CairnError where matplotlib is missing."""
    if importlib.util.find_spec("matplotlib") is None:
        raise CairnError(f"drawing the plan {out} needs an extra: pip install 'cairn-rl[plot]'.")


def draw(player: Player, task: Task, out: Path, *, episodes: int = 1, seed: int = 1000) -> list[Episode]:
    """Play `episodes` with new seeds and draw them into one picture; returns the episodes."""
    needs(out)
    traces, floor = play_all(player, task, episodes=episodes, seed=seed)
    _picture(traces, floor, task.id, out)
    return [t.episode for t in traces]


def play_all(player: Player, task: Task, *, episodes: int, seed: int = 1000) -> tuple[list[Trace], Region | None]:
    """Traces of episodes with new seeds in one environment, and the task's reachable region if it has one."""
    env = task()
    try:
        return [trace(player, env, task.id, seed + k, task.longest) for k in range(episodes)], spec_of_env(env)[
            0
        ].reachable
    finally:
        close_env(env)


def trace(player: Player, env: gym.Env[Any, Any], name: str, seed: int, longest: int = LONGEST) -> Trace:
    """Play one episode of the task called `name` and record its path."""
    spec, _ = spec_of_env(env)
    where = axes(player, spec)
    if where is None:
        raise CairnError(f"a plan needs goals or subgoals with two axes, and {name} has none; write a video instead.")
    rows: list[Array] = []
    subgoals: list[Array] = []

    def watch(row: Array, point: Array | None) -> None:
        rows.append(row)
        if point is not None and (not subgoals or not np.array_equal(subgoals[-1], point[:2])):
            subgoals.append(point[:2])

    episode = play(player, env, seed=seed, watch=watch, longest=longest)
    path = np.array([row[where] for row in rows])
    goal = None if spec.goal is None else rows[-1][spec.goal.desired][:2]
    return Trace(path, np.array(subgoals).reshape(-1, 2), goal, episode)


def axes(player: Player, spec: Spec) -> slice | None:
    """The two entries of the flat observation that are x and y; None if there are none."""
    positions = player.agent.positions
    if positions is None and spec.goal is not None:
        positions = spec.goal.achieved
    if positions is None or positions.stop - positions.start < 2:
        return None
    return slice(positions.start, positions.start + 2)


def _picture(traces: list[Trace], floor: Region | None, title: str, out: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.patches import Rectangle

    figure, axes = plt.subplots(figsize=(6, 6), layout="constrained")
    for low, high in () if floor is None else floor.boxes:
        corner, width, height = (low[0], low[1]), high[0] - low[0], high[1] - low[1]
        axes.add_patch(Rectangle(corner, width, height, color="0.92", lw=0, zorder=0))
    for k, one in enumerate(traces):
        colour = f"C{k % 10}"
        axes.plot(*one.path.T, color=colour, lw=1.2, alpha=0.8)
        axes.plot(*one.path[0], "o", color=colour, ms=5)
        axes.plot(*one.subgoals.T, "+", color=colour, ms=7)
        if one.goal is not None:
            axes.plot(*one.goal, "*", color=colour, ms=14, mec="black")
    axes.set_aspect("equal")
    axes.set(xlabel="x", ylabel="y", title=f"{title}: path, subgoals (+), goal (*)")
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        figure.savefig(out, dpi=120)
    except (OSError, ValueError) as error:
        raise CairnError(f"{out} could not be written as a picture ({error}).") from error
    finally:
        plt.close(figure)
