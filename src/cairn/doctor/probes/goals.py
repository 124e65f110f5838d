"""Whether rewards for goals are as the task says, and whether goals can be reached."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from gymnasium import spaces

from cairn.core.calls import option
from cairn.core.goals import GoalRule
from cairn.core.types import Array
from cairn.doctor.copies import Copy, Raised
from cairn.doctor.finding import Finding, plural
from cairn.doctor.play import draw, limits, middle
from cairn.doctor.probes.fences import Explored, explored
from cairn.doctor.probes.time import distances
from cairn.doctor.task_probe import TaskProbe
from cairn.vector.protocol import success_of

EXPLAINED = 0.5  # share of a step's variance that actions must explain for control
SURELY = 0.95  # share explained by actions above which the best speed seen is the best possible
DIRECTIONS, SHARES = 6, (0.3, 0.8, 0.95, 1.1, 1.5, 3.0)  # goals set near by: of the distance that counts as reached
GAIN = 0.5  # share of the remaining way per step; all of it could overshoot for ever
ATTEMPTS, SHARE = 12, 0.15  # goals to steer to, and their share of the time
NEAR = 0.1  # share of the way within which a goal counts as approached


def rule(p: TaskProbe) -> Iterator[Finding]:
    """`compute_reward` must give the rewards of steps, for many pairs at once."""
    if not isinstance(p.rule, Raised):
        return
    yield Finding(
        "goal-reward",
        "error" if p.case.hindsight else "warning",
        "The reward of a goal task cannot be computed from its goals, so hindsight would teach another task.",
        str(p.rule.error),
        "compute_reward(achieved, desired, info) must take [pairs, goal], answer with [pairs] and be what step() uses.",
    )


def success(p: TaskProbe) -> Iterator[Finding]:
    """Success must be reported exactly where the reward says that the goal is reached."""
    if p.rule is None or isinstance(p.rule, Raised):
        return
    pairs = _steps_with_success(p)
    if not pairs:
        yield Finding(
            "success-untold",
            "hint",
            "The task does not say whether an episode succeeded.",
            "no is_success or success in the info of a step",
            f"Put is_success into info; {option('metric', 'success')} then scores by it.",
        )
        return
    if len(np.unique(np.round(_judge(p.rule, pairs)[:2], 6))) > 2:
        return  # a dense reward has no threshold of success
    pairs += _near_goals(p, p.rule)
    best, reward, success, apart = _judge(p.rule, pairs)
    wide, narrow = (success == 1) & (reward < best), (success == 0) & (reward >= best)
    if wide.any():
        yield Finding(
            "success-disagrees",
            "warning",
            "The task reports success where its own reward says that the goal was not reached.",
            f"in {int(wide.sum())} of {plural(len(pairs), 'step')}, up to {apart[wide].max():.3g} from the goal;"
            f" the reward counts a goal as reached up to {_furthest(apart, reward >= best)}",
            "Compute both from one distance and one threshold; success rates are too high as they are.",
        )
    elif narrow.any() and 2 * narrow.sum() > (reward >= best).sum() and (success == 1).any():
        yield Finding(
            "success-disagrees",
            "warning",
            "The task reports no success where its own reward says that the goal was reached.",
            f"in {int(narrow.sum())} of {plural(int((reward >= best).sum()), 'step')} that were paid as reached, up to"
            f" {apart[narrow].max():.3g} from the goal; success was told up to {_furthest(apart, success == 1)}",
            "Compute both from one distance and one threshold, unless success is meant to ask for more.",
        )


Pair = tuple[Array, Array, bool]  # achieved, desired, whether success was reported


def _judge(rule: GoalRule, pairs: list[Pair]) -> Array:
    """[4, P] rewards of reached goals, rewards, reported success, and distances of the pairs."""
    achieved, desired = (np.array([pair[i] for pair in pairs], float) for i in (0, 1))
    success, apart = [float(pair[2]) for pair in pairs], np.linalg.norm(achieved - desired, axis=1)
    return np.array([rule.reward(achieved, achieved), rule.reward(achieved, desired), success, apart], float)


def _furthest(apart: Array, which: Array) -> str:
    return f"{apart[which].max():.3g}" if which.any() else "0"


def _near_goals(p: TaskProbe, rule: GoalRule) -> list[Pair]:
    """Steps with goals close to the threshold of success, which random play seldom meets.

    The goal is written into the attribute of the task that holds it; without such an attribute there are no such steps.
    """
    copy, goal = p.another(), p.goal
    assert goal is not None
    pairs: list[Pair] = []
    with contextlib.suppress(Exception):  # a task may raise anything with foreign goals
        for seed in range(DIRECTIONS):
            obs = copy.reset(seed=seed)
            names = _holders(copy.env.unwrapped, obs[goal.desired])
            way = p.rng.normal(size=obs[goal.achieved].shape)
            way /= max(float(np.linalg.norm(way)), 1e-9)
            edge = _edge(rule, obs[goal.achieved], way)
            if edge is None or not names:
                break
            for share in SHARES:
                obs = copy.reset(seed=seed)
                near = obs[goal.achieved] + share * edge * way
                for name in names:
                    held = getattr(copy.env.unwrapped, name)
                    setattr(copy.env.unwrapped, name, near.reshape(held.shape).astype(held.dtype))
                after, _, _, _, info = copy.step(middle(copy.action_space))
                success, shown = success_of(info), after[goal.desired]
                if success >= 0 and np.linalg.norm(shown - near) <= 0.05 * edge:
                    pairs.append((after[goal.achieved], near, bool(success)))
    return pairs


def _holders(bare: object, desired: Array) -> list[str]:
    """Attributes of a task that hold the goal as an array of floats."""
    return [
        name
        for name, value in vars(bare).items()
        if isinstance(value, np.ndarray)
        and np.issubdtype(value.dtype, np.floating)
        and value.size == desired.size
        and np.allclose(value.ravel(), desired)
    ]


def _edge(rule: GoalRule, achieved: Array, way: Array) -> float | None:
    """The distance up to which a goal counts as reached; None without such a threshold."""
    best = float(rule.reward(achieved[None], achieved[None])[0])

    def reached(far: float) -> bool:
        return float(rule.reward(achieved[None], (achieved + far * way)[None])[0]) >= best

    low, high = 0.0, 1e-4
    while reached(high):
        low, high = high, 2 * high
        if high > 1e4:
            return None
    for _ in range(20):
        half = (low + high) / 2
        low, high = (half, high) if reached(half) else (low, half)
    return high if low > 1e-9 else None


def reachable(p: TaskProbe) -> Iterator[Finding]:
    """Goals must lie in the task's reachable region, within reach at its speed, and where control can lead."""
    if p.goal is None or not p.plays:
        return
    goals = np.array([t.desired[0] for t in p.plays] + [start[p.goal.desired] for start in p.starts])
    apart, moved, speed = distances(p)
    if p.spec.reachable is not None:
        outside = int((~p.spec.reachable.holds(goals)).sum())
        if outside:
            evidence = f"{outside} of {plural(len(goals), 'goal')} lie outside the region it declares as reachable"
            yield _unreachable("error" if 2 * outside > len(goals) else "warning", evidence)
        return
    far = float(np.median(apart))
    if moved < NEAR * far:
        fenced = list(_fenced(explored(p)))
        yield from fenced or [_unmoved(far, moved)]
        return
    if p.limit and speed * p.limit < far:
        yield _unreachable(
            "error" if _linear(p, SURELY) is not None else "warning",
            f"goals are {far:.3g} away; the best speed seen, {speed:.3g} a step, covers {speed * p.limit:.3g} within"
            f" the limit of {p.limit} steps",
        )
        return
    led = _led(p)
    if led is not None and not led.missed.any():
        return
    results = explored(p)
    fenced = list(_fenced(results))
    if fenced or led is None or 4 * sum(one.reached for one in results) >= 3 * max(1, len(results)):
        yield from fenced
        return
    yield from led.findings()


def _fenced(results: list[Explored]) -> Iterator[Finding]:
    """Report goals outside of everything that exhaustive exploration reached."""
    out = [one for one in results if one.fenced]
    if len(out) < 2 or 4 * len(out) < len(results):
        return
    moves = sum(one.moves for one in out)
    yield Finding(
        "goals-unreachable",
        "warning",
        "Goals lie outside of what exploration reaches: something may stand between.",
        f"from {len(out)} of {len(results)} starts the goal was not reached and nothing new was found any more, after"
        f" {moves:,} moves between {sum(len(one.places) for one in out):,} places; the goals stayed"
        f" {np.mean([one.nearest for one in out]):.3g} away in the mean",
        "Check that a way leads from each start to its goal in time, or draw goals from what was reached.",
    )


def _unmoved(far: float, moved: float) -> Finding:
    return Finding(
        "goal-unmoved",
        "hint",
        "Random play hardly moves what the goal is about.",
        f"goals are {far:.3g} away and the furthest it was moved is {moved:.3g}",
        "Expect a long beginning in which nothing succeeds; begin some episodes with the object at hand.",
    )


@dataclass(frozen=True)
class Led:
    """How close control came to each goal [attempts]: distance at the start, the smallest, and whether it got stuck."""

    start: Array
    best: Array
    missed: Array

    def findings(self) -> Iterator[Finding]:
        """A finding if control got stuck for many goals."""
        if len(self.start) < ATTEMPTS // 2 or self.missed.mean() < 0.25:
            return
        yield _unreachable(
            "warning",
            f"led straight to {len(self.start)} goals, it came to a halt short of {int(self.missed.sum())}: begun"
            f" {np.mean(self.start):.3g} away, those got no nearer than {np.mean(self.best[self.missed]):.3g} in the"
            " mean",
        )


def _led(p: TaskProbe) -> Led | None:
    """Steer to goals with a linear model of random steps. Where the model is good, getting stuck means a limit."""
    space = p.first.action_space
    model = _linear(p, EXPLAINED) if isinstance(space, spaces.Box) else None
    if model is None:
        return None
    copy, until = p.first, time.perf_counter() + SHARE * p.case.seconds
    attempts: list[tuple[float, float, bool]] = []
    copy.reset(seed=1)
    while not attempts or (len(attempts) < ATTEMPTS and time.perf_counter() < until):
        attempts.append(_attempt(copy, model, until))
    start, best, stuck = (np.array(column) for column in zip(*attempts, strict=True))
    return Led(start, best, stuck & (best > NEAR * start))


def _unreachable(severity: str, evidence: str) -> Finding:
    return Finding(
        "goals-unreachable",
        "error" if severity == "error" else "warning",
        "Goals lie where they cannot be reached." if severity == "error" else "Goals may lie where nothing can reach.",
        evidence,
        "Draw goals from what has been reached, check the start of an episode, or raise the time limit.",
    )


def _linear(p: TaskProbe, explained: float) -> Array | None:
    """B of Δachieved ≈ action·B over uniform steps; None where it explains too little variance."""
    rows = [t for t in p.plays if t.length and t.behaviour == "uniform"]
    if not rows:
        return None
    action = np.concatenate([t.action for t in rows])
    delta = np.concatenate([np.diff(t.achieved, axis=0) for t in rows])
    model, *_ = np.linalg.lstsq(action, delta, rcond=None)
    rest, total = ((delta - action @ model) ** 2).sum(), ((delta - delta.mean(0)) ** 2).sum()
    return model if total > 0 and 1 - rest / total > explained else None


def _attempt(copy: Copy, model: Array, until: float) -> tuple[float, float, bool]:
    """The distance at the start, the smallest, and whether it no longer fell in the last third of the episode."""
    obs = copy.reset()
    goal, (low, high) = copy.view.goal, limits(copy.action_space)
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


def _steps_with_success(p: TaskProbe) -> list[Pair]:
    """Random steps whose info reports success or failure, with achieved and desired goals."""
    copy, goal, pairs = p.first, p.goal, []
    assert goal is not None
    obs = copy.reset(seed=2)
    for _ in range(200):
        desired = obs[goal.desired]
        obs, _, terminated, truncated, info = copy.step(draw(copy.action_space, p.rng))
        success = success_of(info)
        if success >= 0:
            pairs.append((obs[goal.achieved], desired, bool(success)))
        if terminated or truncated:
            obs = copy.reset()
    return pairs
