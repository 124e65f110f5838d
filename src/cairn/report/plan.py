"""A top view of episodes: where the agent went, which subgoals it was given, what it was to reach."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cairn.agents.player import Player
from cairn.core.errors import CairnError
from cairn.core.goals import Region
from cairn.core.types import Array, Episode, Spec
from cairn.envs.make import Task
from cairn.vector.base import spec_of_env, success_of

KINDS = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class Trace:
    """One episode seen from above: path [T + 1, 2]; subgoals [n, 2] in the order they were asked for; goal [2]."""

    path: Array
    subgoals: Array
    goal: Array | None
    episode: Episode


def draw(player: Player, task: Task, out: Path, *, episodes: int = 1, seed: int = 1000) -> list[Episode]:
    """Play `episodes` from fresh seeds and draw them into one picture."""
    if importlib.util.find_spec("matplotlib") is None:
        raise CairnError("drawing a plan needs an extra: pip install 'cairn-rl[plot]'.")
    env = task()
    spec, _ = spec_of_env(env)
    env.close()
    traces = [trace(player, task, seed + k) for k in range(episodes)]
    _picture(traces, spec.reachable, task.id, out)
    return [t.episode for t in traces]


def trace(player: Player, task: Task, seed: int) -> Trace:
    """Play one episode and note where it went."""
    env = task()
    spec, layout = spec_of_env(env)
    where = _axes(player, spec, task.id)
    try:
        obs, _ = env.reset(seed=seed)
        player.forget(np.ones(1, bool))
        row = np.asarray(layout(obs), spec.obs_dtype)[None]
        path, total, ended = [row[0, where]], 0.0, False
        subgoals: list[Array] = []
        while not ended:
            action = spec.action.to_env(player(row))[0]
            point = player.subgoal()
            if point is not None and (not subgoals or not np.array_equal(subgoals[-1], point[0, :2])):
                subgoals.append(point[0, :2])
            obs, reward, terminated, truncated, info = env.step(action.item() if action.ndim == 0 else action)
            row = np.asarray(layout(obs), spec.obs_dtype)[None]
            path.append(row[0, where])
            total, ended = total + float(reward), bool(terminated or truncated)
    finally:
        env.close()
    goal = None if spec.goal is None else row[0, spec.goal.desired][:2]
    told = success_of(info)
    episode = Episode(0, total, len(path) - 1, None if told < 0 else bool(told))
    return Trace(np.array(path), np.array(subgoals).reshape(-1, 2), goal, episode)


def _axes(player: Player, spec: Spec, name: str) -> slice:
    """The two entries of the flat observation that are x and y."""
    positions: slice | None = getattr(player.agent, "positions", None)
    if positions is None and spec.goal is not None:
        positions = spec.goal.achieved
    if positions is None or positions.stop - positions.start < 2:
        raise CairnError(f"a plan needs goals or subgoals of two axes at least, and {name} has none; film it instead.")
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
