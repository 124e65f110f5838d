"""Whether goals are paid as the task says, and whether they can be reached."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from gymnasium import spaces

from cairn.core.types import Array
from cairn.doctor.finding import Finding, plural
from cairn.doctor.patient import Copy, Patient, Raised
from cairn.doctor.play import limits
from cairn.doctor.probes.time import distances
from cairn.vector.base import success_of

EXPLAINED = 0.5  # of the variance of a step: where actions explain less, nobody can be led by the hand
GAIN = 0.5  # of the way that is left, a step: who goes the whole of it may overshoot for ever
ATTEMPTS, SHARE = 12, 0.15  # goals that are made for, and the share of the time it may take
NEAR = 0.1  # of the way: a goal within it counts as approached


def rule(p: Patient) -> Iterator[Finding]:
    """`compute_reward` says what the step pays, for many pairs at once."""
    if not isinstance(p.rule, Raised):
        return
    yield Finding(
        "goal-reward",
        "error",
        "The reward of a goal task cannot be computed from its goals, so hindsight would teach another task.",
        str(p.rule.error),
        "compute_reward(achieved, desired, info) must take [pairs, goal], answer with [pairs] and be what step() uses.",
    )


def success(p: Patient) -> Iterator[Finding]:
    """A success that is told is a goal that was reached."""
    if p.rule is None or isinstance(p.rule, Raised):
        return
    pairs = _told(p)
    if not pairs:
        yield Finding(
            "success-untold",
            "hint",
            "The task does not say whether an episode succeeded.",
            "no is_success or success in the info of a step",
            "Put is_success into info; --metric success judges by it.",
        )
        return
    achieved, desired = (np.array([pair[i] for pair in pairs]) for i in (0, 1))
    told = np.array([pair[2] for pair in pairs])
    best, paid = p.rule.reward(achieved, achieved), p.rule.reward(achieved, desired)
    if len(np.unique(np.round([*best, *paid], 6))) > 2:
        return  # a reward that grows with nearness does not say where success begins
    wrong = int((told & (paid < best)).sum())
    if wrong:
        yield Finding(
            "success-disagrees",
            "error",
            "The task reports success where its own reward says that the goal was not reached.",
            f"in {wrong} of {plural(len(pairs), 'step')}",
            "Compute both from one distance and one threshold.",
        )


def reachable(p: Patient) -> Iterator[Finding]:
    """Goals lie where they can be reached: in the region the task declares, within its speed, where one can be led."""
    if p.spec.goal is None or not p.plays:
        return
    goals = np.array([t.desired[0] for t in p.plays] + [start[p.spec.goal.desired] for start in p.starts])
    apart, moved, speed = distances(p)
    if p.spec.reachable is not None:
        outside = int((~p.spec.reachable.holds(goals)).sum())
        if outside:
            evidence = f"{outside} of {plural(len(goals), 'goal')} lie outside the region it declares as reachable"
            yield _unreachable("error" if 2 * outside > len(goals) else "warning", evidence)
        return
    far = float(np.median(apart))
    if moved < NEAR * far:
        yield Finding(
            "goal-unmoved",
            "hint",
            "Random play hardly moves what the goal is about.",
            f"goals are {far:.3g} away and the furthest it was moved is {moved:.3g}",
            "Expect a long beginning in which nothing succeeds; begin some episodes with the object at hand.",
        )
        return
    if p.limit and speed * p.limit < far:
        yield _unreachable(
            "error",
            f"goals are {far:.3g} away; the best speed seen, {speed:.3g} a step, covers {speed * p.limit:.3g} within"
            f" the limit of {p.limit} steps",
        )
        return
    yield from _led(p)


def _led(p: Patient) -> Iterator[Finding]:
    """Make for goals by the linear model that random steps suggest; where that drives well, a halt means a limit."""
    space = p.first.action_space
    model = _linear(p) if isinstance(space, spaces.Box) else None
    if model is None:
        return
    copy, until = p.first, time.perf_counter() + SHARE * p.case.seconds
    found: list[tuple[float, float, bool]] = []
    copy.reset(seed=1)
    while len(found) < ATTEMPTS and time.perf_counter() < until:
        found.append(_attempt(copy, model, until))
    begun, best, stuck = (np.array(column) for column in zip(*found, strict=True))
    missed = stuck & (best > NEAR * begun)
    share = float(missed.mean())
    if len(found) < ATTEMPTS // 2 or share < 0.25:
        return
    yield _unreachable(
        "warning",
        f"led straight to {len(found)} goals, it came to a halt short of {int(missed.sum())}: begun"
        f" {np.mean(begun):.3g} away, those got no nearer than {np.mean(best[missed]):.3g} in the mean",
    )


def _unreachable(severity: str, evidence: str) -> Finding:
    return Finding(
        "goals-unreachable",
        "error" if severity == "error" else "warning",
        "Goals lie where they cannot be reached.",
        evidence,
        "Draw goals from what has been reached, check the start of an episode, or raise the time limit.",
    )


def _linear(p: Patient) -> Array | None:
    """B of Δachieved ≈ action·B over uniform steps; None where that explains too little."""
    rows = [t for t in p.plays if t.length and t.behaviour == "uniform"]
    action = np.concatenate([t.action for t in rows])
    delta = np.concatenate([np.diff(t.achieved, axis=0) for t in rows])
    model, *_ = np.linalg.lstsq(action, delta, rcond=None)
    rest, total = ((delta - action @ model) ** 2).sum(), ((delta - delta.mean(0)) ** 2).sum()
    return model if total > 0 and 1 - rest / total > EXPLAINED else None


def _attempt(copy: Copy, model: Array, until: float) -> tuple[float, float, bool]:
    """The distance at the start, the least, and whether it no longer fell in the last third of the episode."""
    obs = copy.reset()
    goal, (low, high) = copy.spec.goal, limits(copy.action_space)
    assert goal is not None
    apart = [float(np.linalg.norm(obs[goal.desired] - obs[goal.achieved]))]
    inverse, ended = np.linalg.pinv(model), False
    while not ended and time.perf_counter() < until and len(apart) < 500:
        way = GAIN * (obs[goal.desired] - obs[goal.achieved]) @ inverse
        action = np.clip(way.reshape(low.shape), low, high).astype(copy.action_space.dtype)
        obs, _, terminated, truncated, _ = copy.step(action)
        apart.append(float(np.linalg.norm(obs[goal.desired] - obs[goal.achieved])))
        ended = terminated or truncated
    third = max(1, len(apart) // 3)
    stuck = min(apart[-third:]) > 0.98 * min(apart[:-third] or apart)
    return apart[0], min(apart), stuck


def _told(p: Patient) -> list[tuple[Array, Array, bool]]:
    """Steps at random whose info tells of success, with what was achieved and desired."""
    copy, goal, pairs = p.first, p.spec.goal, []
    assert goal is not None
    obs = copy.reset(seed=2)
    for _ in range(200):
        desired = obs[goal.desired]
        obs, _, terminated, truncated, info = copy.step(copy.action_space.sample())
        told = success_of(info)
        if told >= 0:
            pairs.append((obs[goal.achieved], desired, bool(told)))
        if terminated or truncated:
            obs = copy.reset()
    return pairs
