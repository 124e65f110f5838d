"""Decisions: how many it takes to be paid, against how far the discount looks, and how much one of them does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cairn.core.types import Array
from cairn.doctor.finding import Finding
from cairn.doctor.task_probe import Raised, TaskProbe

FAINT, GONE = 0.05, 0.01  # what is left of a reward when it arrives where it is needed
STRIDE = 10  # steps over which a speed is measured, so that a jump is none
FINE = 0.01  # of an entry's range: what a decision should move at least, at the best speed


def horizon(p: TaskProbe) -> Iterator[Finding]:
    """A reward n decisions ahead counts γⁿ: it must not have faded before it gets there."""
    distance = _to_goal(p) if p.spec.goal is not None else _to_reward(p)
    gamma = p.case.gamma
    if distance is None or gamma == 1 or distance[0] <= 1:  # what this very step pays is not discounted
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
        f"Decide less often (repeat each action {_repeat(needed, gamma)} times), raise γ to {1 - 2 / needed:.4f} or"
        " more, reward progress, or set subgoals.",
    )


def control_rate(p: TaskProbe) -> Iterator[Finding]:
    """One decision must move the task a little: noise that is drawn anew too often undoes itself."""
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
    """How much of its range the median entry moves in a step, at the best speed it was seen to keep for a while.

    Entries that stand still within an episode (a context, a goal) do not count."""
    rows = [t.obs for t in p.plays if t.length > STRIDE]
    moving = p.spread > 1e-9
    if p.spec.goal is not None:
        moving = moving[: p.spec.goal.observation]
    if not rows or not moving.any():
        return None
    best = np.max([np.abs(obs[STRIDE:] - obs[:-STRIDE]).max(0) / STRIDE for obs in rows], axis=0)
    moving = moving & (best[: len(moving)] > 0)
    if not moving.any():
        return None
    return float(np.median(best[: len(moving)][moving] / p.spread[: len(moving)][moving]))


def distances(p: TaskProbe) -> tuple[Array, float, float]:
    """From the start to the goal, by seed and by episode; the furthest anyone got; the best speed, per step."""
    goal = p.spec.goal
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
    """Decisions to the goal on a straight line at the best speed seen: no policy can need fewer."""
    if p.rule is None or isinstance(p.rule, Raised) or not p.plays:
        return None
    paid = np.concatenate([p.rule.reward(t.achieved, t.desired) for t in p.plays])
    if len(np.unique(np.round(paid, 6))) > 2:
        return None  # the reward leads the way
    apart, moved, speed = distances(p)
    far = float(np.percentile(apart, 75))  # a policy is to reach the far ones too
    if speed == 0 or moved < 0.1 * far:
        return None  # nothing is known of how fast it can go
    return far / speed, f"the goal is {far:.3g} away, the best speed {speed:.3g} a step, so {far / speed:.0f} at least"


def _to_reward(p: TaskProbe) -> tuple[float, str] | None:
    """Decisions to the first reward that is not the usual one, or to the first end."""
    rewards = [t.reward for t in p.plays if t.length]
    if not rewards:
        return None
    values, counts = np.unique(np.concatenate(rewards), return_counts=True)
    usual = values[counts.argmax()]
    first = [int(np.flatnonzero(r != usual)[0]) + 1 for r in rewards if (r != usual).any()]
    first += [t.length for t in p.plays if t.terminated and (t.reward == usual).all()]
    if 2 * len(first) < len(rewards):
        return None  # who is paid by chance, once in a while, could have been paid earlier
    how = f"{len(first)} of {len(rewards)} episodes were paid, none before step {min(first)}"
    return float(min(first)), how


def _repeat(needed: float, gamma: float) -> int:
    return max(2, round(needed * (1 - gamma)))
