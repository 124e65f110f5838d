"""Whether actions have an effect."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from cairn.doctor.copies import Moment
from cairn.doctor.finding import Finding, plural
from cairn.doctor.play import Lever, draw, leaves, levers
from cairn.doctor.task_probe import TaskProbe

LEADS = (64, 0, 16, 4)  # random steps before an action is tried: a game may not have begun at its start
HOLD, LONG = 8, 64  # steps that it is held; LONG if no action made a difference
SHARE = 0.1  # of the time; if that is too little, the last two states are skipped
MOST = 10  # actions or dimensions to try
STARTS, PLANS, EPISODE, ENOUGH = 40, 4, 1000, 8  # whole episodes, plans for each, steps at most, ends needed
TOLERANCE = 0.01  # of an entry's range; if repetitions differ by more, there is no finding


def effect(p: TaskProbe) -> Iterator[Finding]:
    """Every number and every choice of an action must change observations, rewards or ends."""
    space = p.first.action_space
    discrete = isinstance(space, spaces.Discrete)
    tried = levers(space)[:MOST]
    several = min(int(space.n), MOST) if discrete else len(tried)
    trials = several if discrete else sum(len(_tries(lever)) for lever in tried)
    idle: list[str] = []
    for hold in (HOLD, LONG):  # without any effect, try for longer
        compare = _Compare(p, trials, hold, with_reward=True)
        if not compare.possible or several == 0 or (discrete and several == 1):
            return
        idle = _alike(compare, int(space.start), several) if discrete else _dead(compare, tried)
        nothing = len(idle) == (several * (several - 1) // 2 if discrete else several)
        if not nothing:
            break
    looked = f"{hold} steps in each of {len(compare.leads)} states"
    if nothing:
        word = "action" if discrete else "dimension" if all(lever.real for lever in tried) else "part"
        yield from _no_effect(p, f"{plural(several, word)} tried; {looked}")
    elif idle:
        yield Finding(
            "action-no-effect",
            "hint",
            "Some actions did the same." if discrete else "A part of the action changed nothing.",
            f"{', '.join(idle[:5])}; {looked}",
            "Leave it out of the action space if it never does; exploration is spent on it.",
        )


def _no_effect(p: TaskProbe, looked: str) -> Iterator[Finding]:
    """Compare whole episodes with very different actions: only if all are equal, this is an error."""
    whole = _whole_episodes(p)
    if whole is None:
        return
    episodes, ended = whole
    sure = ended >= ENOUGH and _pays_variously(p)
    yield Finding(
        "action-no-effect",
        "error" if sure else "warning",
        "No action has any effect on what is seen, paid or ended."
        if sure
        else "In all that was tried, no action had an effect on observations or rewards.",
        f"{looked}; {plural(episodes, 'start')} played on with {PLANS} plans each, {ended} of them to the end: all with"
        " the same outcome",
        "Check that step() uses its argument, and that observation or reward show what it changes.",
    )


def _pays_variously(p: TaskProbe) -> bool:
    """Whether more than a tenth of the episodes have an unusual return, or rewards that vary."""
    totals = Counter(float(t.reward.sum()) for t in p.plays if t.length)
    other = totals.total() - max(totals.values(), default=0)
    vary = sum(bool(np.ptp(t.reward) > 0) for t in p.plays if t.length)
    return max(other, vary) > 0.1 * totals.total()


def _whole_episodes(p: TaskProbe) -> tuple[int, int] | None:
    """Starts with the same episode under all plans, and how many reached its end; None if any differed."""
    copy, start, share = p.first, time.perf_counter(), SHARE * p.case.seconds
    episodes = ended = 0
    while episodes < STARTS and time.perf_counter() - start < (share if ended >= ENOUGH else 5 * share):
        seed = 100 + episodes
        first, again, *others = ([copy.play(seed, _plan(copy.action_space, k, seed))] for k in (0, *range(PLANS)))
        if _gap(p, first, again, with_reward=True) > 0 or any(
            _gap(p, first, other, with_reward=True) > 0 for other in others
        ):
            return None  # the task is not repeatable, or an action had an effect
        episodes += 1
        ended += first[0][-1].terminated or first[0][-1].truncated
    return episodes, ended


def _plan(space: Any, k: int, seed: int) -> Iterator[Any]:
    """Random actions for two of the plans, one constant action for the others."""
    rng = np.random.default_rng((seed, k))
    action = draw(space, rng, extreme=True)
    for _ in range(EPISODE):
        yield draw(space, rng) if k < 2 else action


def bounds(p: TaskProbe) -> Iterator[Finding]:
    """Actions must be bounded, and their whole range must have an effect."""
    space = p.first.action_space
    boxes = [leaf for _, leaf in leaves(space) if isinstance(leaf, spaces.Box)]
    unbounded = [leaf for leaf in boxes if not (np.isfinite(leaf.low).all() and np.isfinite(leaf.high).all())]
    if unbounded:
        yield Finding(
            "action-unbounded",
            "warning",
            "The action space has no bounds.",
            f"from {unbounded[0].low.min():g} to {unbounded[0].high.max():g}",
            "Declare bounds that make sense: without them actions are not scaled, and a new policy tries about ±1.",
        )
        return
    real = [lever for lever in levers(space) if lever.real]
    if not real:
        return
    compare = _Compare(p, 3 * len(real))
    if not compare.possible:
        return
    half = [lever for lever in real[:MOST] if _saturates(compare, lever, 0.5)]
    tenth = [lever for lever in half if _saturates(compare, lever, 0.1)]
    if half:
        words = f"{', '.join(lever.name for lever in tenth or half)}: {'a tenth' if tenth else 'half'}"
        yield Finding(
            "action-saturates",
            "warning" if tenth else "hint",
            "The task uses only a part of the range its actions are said to have.",
            f"{words} of the highest value does what the highest does",
            "Declare the range that is used; else most actions a policy tries are the same extreme.",
        )


def _saturates(compare: _Compare, lever: Lever, share: float) -> bool:
    """Whether a share of the highest value, from the middle, has the effect of the highest, but the lowest not."""
    low, high = lever.values
    middle = (low + high) / 2
    highest = compare.of(_set(lever, high))
    if not compare.same(highest, compare.of(_set(lever, middle + share * (high - middle)))):
        return False
    return not compare.same(highest, compare.of(_set(lever, low)))


def _dead(compare: _Compare, tried: list[Lever]) -> list[str]:
    """Numbers and choices all of whose values that were tried have the same effect."""
    dead = []
    for lever in tried:
        first, *others = (compare.of(_set(lever, value)) for value in _tries(lever))
        if all(compare.same(first, other) for other in others):
            dead.append(lever.name)
    return dead


def _tries(lever: Lever) -> tuple[float, ...]:
    """The values to try: of a real number also one between, since a task may treat both ends alike."""
    low, *_, high = lever.values
    return (low, low + 0.6 * (high - low), high) if lever.real else lever.values


def _set(lever: Lever, value: float) -> Any:
    """A function that sets one number or choice of an action."""
    return lambda action: lever.set(action, value)


def _alike(compare: _Compare, start: int, tried: int) -> list[str]:
    """Pairs of discrete actions with the same effect."""
    outcomes = [compare.of(lambda a, k=k: start + k) for k in range(tried)]
    return [f"{j} and {k}" for k in range(tried) for j in range(k) if compare.same(outcomes[j], outcomes[k])]


Outcomes = list[list[Moment]]


def _outcomes(p: TaskProbe, change: Any, leads: tuple[int, ...], hold: int) -> Outcomes:
    """The results in some states when every action there is changed; states and actions are always the same.

    Empty where the episode was over before.
    """
    copy, outcomes = p.first, []
    for seed, lead in enumerate(leads):
        rng = np.random.default_rng(seed)
        actions = [draw(copy.action_space, rng) for _ in range(lead + hold)]
        outcomes.append(copy.play(seed, [*actions[:lead], *map(change, actions[lead:])])[lead + 1 :])
    return outcomes


def _gap(p: TaskProbe, some: Outcomes, others: Outcomes, *, with_reward: bool = False) -> float:
    """The distance of two outcomes, in units of each entry's range in play; with `with_reward` also of the rewards.

    Infinite where one ended before the other.
    """
    if any(len(a) != len(b) for a, b in zip(some, others, strict=True)):
        return np.inf
    pairs = [(x, y) for a, b in zip(some, others, strict=True) for x, y in zip(a, b, strict=True)]
    unit = p.view.unit(p.spread)
    gaps = [float((np.abs(x.obs.astype(float) - y.obs) / unit).max()) for x, y in pairs]
    if with_reward:
        gaps += [abs(x.reward - y.reward) / p.pay for x, y in pairs]
    return max(gaps, default=0.0)


class _Compare:
    """Compares outcomes with the noise between repetitions of the same actions."""

    def __init__(self, p: TaskProbe, trials: int, hold: int = HOLD, *, with_reward: bool = False) -> None:
        self.hold, self.with_reward = hold, with_reward
        price = (sum(LEADS) + len(LEADS) * hold) * p.price("step") + len(LEADS) * p.price("reset")
        self.p, self.leads = p, LEADS if (trials + 2) * price < SHARE * p.case.seconds else LEADS[:2]
        self.noise = _gap(p, self.of(lambda a: a), self.of(lambda a: a), with_reward=with_reward)
        self.possible = self.noise < TOLERANCE

    def of(self, change: Any) -> Outcomes:
        return _outcomes(self.p, change, self.leads, self.hold)

    def same(self, some: Outcomes, others: Outcomes) -> bool:
        if any(moment.replaced for state in (*some, *others) for moment in state):
            return False  # a mask forbade what was to be tried
        return _gap(self.p, some, others, with_reward=self.with_reward) <= 10 * self.noise
