"""How far rewards are away, compared with the discount, and how much one step changes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cairn.core.types import Array
from cairn.doctor.copies import Raised
from cairn.doctor.finding import Finding
from cairn.doctor.task_probe import TaskProbe

FAINT, GONE = 0.05, 0.01  # remaining share of a discounted reward
STRIDE = 10  # steps over which a speed is measured, so that jumps do not count
FINE = 0.01  # share of an entry's range that a step should move it at the best speed


def horizon(p: TaskProbe) -> Iterator[Finding]:
    """A reward n steps ahead counts γⁿ: this must not be negligible."""
    distance = _to_goal(p) if p.goal is not None else _to_reward(p)
    gamma = p.case.gamma
    if distance is None or gamma == 1 or distance[0] <= 1:  # the reward of the next step is not discounted
        return
    needed, how = distance
    left = gamma**needed
    if left > FAINT:
        return
    yield Finding(
        "horizon",
        "error" if left < GONE and not p.case.assumed else "warning",
        f"The reward is {needed:,.0f} decisions away and γ = {gamma:g} looks {1 / (1 - gamma):.0f} ahead.",
        f"{how}; {'γ was assumed; ' if p.case.assumed else ''}{gamma:g}^{needed:.0f} = {left:.1g}"
        + (f"; the time limit is {p.limit:,}" if p.limit else ""),
        f"Take fewer decisions (repeat each action {_repeat(needed, gamma)} times), raise γ to {1 - 2 / needed:.4f} or"
        " more, reward progress, or set subgoals.",
    )


def control_rate(p: TaskProbe) -> Iterator[Finding]:
    """One step must have a visible effect: noise that changes too often averages out."""
    if p.images:
        return
    moved = pace(p)
    if moved is None or moved >= FINE:
        return
    yield Finding(
        "control-rate",
        "warning",
        "Decisions are taken far faster than the task moves.",
        f"at the best speed seen the median entry moves by {100 * moved:.2g} % of its range in a step and takes"
        f" {1 / moved:,.0f} to cross it",
        f"Repeat each action about {round(2 * FINE / moved)} times (a frame skip); exploration then gets somewhere.",
    )


def pace(p: TaskProbe) -> float | None:
    """The share of its range that the median entry moves per step, at the best speed seen over several steps.

    Entries that are constant within an episode (a context, a goal), and images, do not count.
    """
    rows = [t.obs for t in p.plays if t.length > STRIDE]
    moving = (p.spread > 1e-9) & p.view.numbers
    if not rows or not moving.any():
        return None
    best = np.max([np.abs(obs[STRIDE:] - obs[:-STRIDE]).max(0) / STRIDE for obs in rows], axis=0)
    moving = moving & (best > 0)
    if not moving.any():
        return None
    return float(np.median(best[moving] / p.spread[moving]))


def distances(p: TaskProbe) -> tuple[Array, float, float]:
    """Distances from starts to goals, the furthest way from a start, and the best speed per step."""
    goal = p.goal
    assert goal is not None
    apart = np.array(
        [np.linalg.norm(t.desired[0] - t.achieved[0]) for t in p.plays]
        + [np.linalg.norm(start[goal.desired] - start[goal.achieved]) for start in p.starts]
    )
    moved = max(float(np.linalg.norm(t.achieved - t.achieved[0], axis=1).max()) for t in p.plays)
    speeds = [
        float(np.linalg.norm(t.achieved[k:] - t.achieved[:-k], axis=1).max()) / k
        for t in p.plays
        if (k := min(STRIDE, t.length))
    ]
    return apart, moved, max(speeds, default=0.0)


def _to_goal(p: TaskProbe) -> tuple[float, str] | None:
    """Steps to the goal in a straight line at the best speed seen: a lower bound for every policy."""
    if p.rule is None or isinstance(p.rule, Raised) or not p.plays:
        return None
    paid = np.concatenate([p.rule.reward(t.achieved, t.desired) for t in p.plays])
    if len(np.unique(np.round(paid, 6))) > 2:
        return None  # a dense reward shows the way
    apart, moved, speed = distances(p)
    far = float(np.percentile(apart, 75))  # a policy must reach far goals too
    if speed == 0 or moved < 0.1 * far:
        return None  # its speed is unknown
    return far / speed, f"the goal is {far:.3g} away, the best speed {speed:.3g} a step, so {far / speed:.0f} at least"


def _to_reward(p: TaskProbe) -> tuple[float, str] | None:
    """Steps to the first unusual reward, or to the first end."""
    rewards = [t.reward for t in p.plays if t.length]
    if not rewards:
        return None
    values, counts = np.unique(np.concatenate(rewards), return_counts=True)
    usual = values[counts.argmax()]
    first = [int(np.flatnonzero(r != usual)[0]) + 1 for r in rewards if (r != usual).any()]
    first += [t.length for t in p.plays if t.terminated and (t.reward == usual).all()]
    if 2 * len(first) < len(rewards):
        return None  # rewards by chance could have come earlier
    how = f"{len(first)} of {len(rewards)} episodes were paid, none before step {min(first)}"
    return float(min(first)), how


def _repeat(needed: float, gamma: float) -> int:
    return max(2, round(needed * (1 - gamma)))
