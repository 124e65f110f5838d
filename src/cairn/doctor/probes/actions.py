"""Whether what a policy does makes a difference."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from cairn.core.types import Array
from cairn.doctor.finding import Finding, plural
from cairn.doctor.play import draw, limits
from cairn.doctor.task_probe import Moment, TaskProbe

LEADS = (64, 0, 16, 4)  # random steps to the states an action is tried in: a game may not be on at its start
HOLD, LONG = 8, 64  # steps it is held there; so long where no action made a difference
SHARE = 0.1  # of the time given; where that is not enough, the last two states are left out
MOST = 10  # actions or dimensions that are tried
STARTS, PLANS, EPISODE, ENOUGH = 40, 4, 1000, 8  # of whole episodes: so many, so many plans for each, so long at most
TOLERANCE = 0.01  # of an entry's range: where repeating the same actions differs by more, nothing can be told


def effect(p: TaskProbe) -> Iterator[Finding]:
    """Every dimension, or every discrete action, must make a difference to what is seen, paid or ended."""
    space = p.first.action_space
    discrete = isinstance(space, spaces.Discrete)
    tried = min(int(space.n) if discrete else space.low.size, MOST)
    idle: list[str] = []
    for hold in (HOLD, LONG):  # where nothing answers, perhaps nothing could just then
        compare = _Compare(p, tried if discrete else 2 * tried, hold, with_reward=True)
        if not compare.possible or tried == 0 or (discrete and tried == 1):
            return
        idle = _alike(compare, int(space.start), tried) if discrete else _dead(compare, space, tried)
        nothing = len(idle) == (tried * (tried - 1) // 2 if discrete else tried)
        if not nothing:
            break
    looked = f"{hold} steps in each of {len(compare.leads)} states"
    if nothing:
        yield from _no_effect(p, f"{plural(tried, 'action' if discrete else 'dimension')} tried; {looked}")
    elif idle:
        yield Finding(
            "action-no-effect",
            "hint",
            "Some actions did the same." if discrete else "A part of the action changed nothing.",
            f"{', '.join(idle[:5])}; {looked}",
            "Leave it out of the action space if it never does; exploration is spent on it.",
        )


def _no_effect(p: TaskProbe, looked: str) -> Iterator[Finding]:
    """Whole episodes, seed by seed, under plans as different as can be: an error only if these are all alike."""
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
        else "No action had an effect on what was seen or paid, as far as was looked.",
        f"{looked}; {plural(episodes, 'start')} played on with {PLANS} plans each, {ended} of them to the end: all with"
        " the same outcome",
        "Look whether step() uses its argument, and whether observation or reward show what it changes.",
    )


def _pays_variously(p: TaskProbe) -> bool:
    """Whether a tenth of all episodes is paid otherwise than the usual one, or varies."""
    totals = Counter(float(t.reward.sum()) for t in p.plays if t.length)
    other = totals.total() - max(totals.values(), default=0)
    vary = sum(bool(np.ptp(t.reward) > 0) for t in p.plays if t.length)
    return max(other, vary) > 0.1 * totals.total()


def _whole_episodes(p: TaskProbe) -> tuple[int, int] | None:
    """Starts that went the same way under all plans, and how many of them to their end; None where one did not."""
    copy, start, share = p.first, time.perf_counter(), SHARE * p.case.seconds
    episodes = ended = 0
    while episodes < STARTS and time.perf_counter() - start < (share if ended >= ENOUGH else 5 * share):
        seed = 100 + episodes
        first, again, *others = ([copy.play(seed, _plan(copy.action_space, k, seed))] for k in (0, *range(PLANS)))
        if _gap(p, first, again, with_reward=True) > 0 or any(
            _gap(p, first, other, with_reward=True) > 0 for other in others
        ):
            return None  # it does not repeat itself, and nothing can be told; or an action did make a difference
        episodes += 1
        ended += first[0][-1].terminated or first[0][-1].truncated
    return episodes, ended


def _plan(space: Any, k: int, seed: int) -> Iterator[Any]:
    """Two plans at random, then others of one action throughout."""
    rng = np.random.default_rng((seed, k))
    action = draw(space, rng, extreme=True)
    for _ in range(EPISODE):
        yield draw(space, rng) if k < 2 else action


def bounds(p: TaskProbe) -> Iterator[Finding]:
    """Actions have bounds, and the whole range between them does something."""
    space = p.first.action_space
    if not isinstance(space, spaces.Box):
        return
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        yield Finding(
            "action-unbounded",
            "warning",
            "The action space has no bounds.",
            f"from {space.low.min():g} to {space.high.max():g}",
            "Declare the range that makes sense; a policy begins by trying about ±1 and nothing scales it.",
        )
        return
    size = space.low.size
    compare = _Compare(p, 3 * size)
    if not compare.possible:
        return
    half = [i for i in range(min(size, MOST)) if _saturates(compare, space, i, 0.5)]
    tenth = [i for i in half if _saturates(compare, space, i, 0.1)]
    if half:
        words = f"dimension {', '.join(map(str, tenth or half))}: {'a tenth' if tenth else 'half'}"
        yield Finding(
            "action-saturates",
            "warning" if tenth else "hint",
            "The task uses only a part of the range its actions are said to have.",
            f"{words} of the highest value does what the highest does",
            "Declare the range that is used; else most actions a policy tries are the same extreme.",
        )


def _saturates(compare: _Compare, space: spaces.Box, i: int, share: float) -> bool:
    """Whether a share of the highest value, from the middle, does what the highest does, and the lowest does not."""
    low, high = (float(end.flat[i]) for end in limits(space))
    middle = (low + high) / 2
    highest = compare.of(_at(space, i, high))
    if not compare.same(highest, compare.of(_at(space, i, middle + share * (high - middle)))):
        return False
    return not compare.same(highest, compare.of(_at(space, i, low)))


def _dead(compare: _Compare, space: spaces.Box, tried: int) -> list[str]:
    """Dimensions whose lowest value does what their highest does."""
    low, high = limits(space)
    ends = [[compare.of(_at(space, i, float(end.flat[i]))) for end in (low, high)] for i in range(tried)]
    return [f"dimension {i}" for i in range(tried) if compare.same(*ends[i])]


def _alike(compare: _Compare, start: int, tried: int) -> list[str]:
    """Pairs of discrete actions that do the same."""
    outcomes = [compare.of(lambda a, k=k: start + k) for k in range(tried)]
    return [f"{j} and {k}" for k in range(tried) for j in range(k) if compare.same(outcomes[j], outcomes[k])]


def _at(space: spaces.Box, i: int, value: float) -> Any:
    """A function that sets one dimension of an action."""

    def change(action: Array) -> Array:
        out = action.copy()
        out.flat[i] = value
        return out

    return change


Outcomes = list[list[Moment]]


def _outcomes(p: TaskProbe, change: Any, leads: tuple[int, ...], hold: int) -> Outcomes:
    """What happens in each of some states when every action there is changed; the same states and actions each time.

    Empty where the episode was over before.
    """
    copy, outcomes = p.first, []
    for seed, lead in enumerate(leads):
        rng = np.random.default_rng(seed)
        actions = [draw(copy.action_space, rng) for _ in range(lead + hold)]
        outcomes.append(copy.play(seed, [*actions[:lead], *map(change, actions[lead:])])[lead + 1 :])
    return outcomes


def _gap(p: TaskProbe, some: Outcomes, others: Outcomes, *, with_reward: bool = False) -> float:
    """How far two outcomes are apart, by an entry's range in play, with `with_reward` by the rewards' range too.

    Infinite where one ended before the other."""
    if any(len(a) != len(b) for a, b in zip(some, others, strict=True)):
        return np.inf
    pairs = [(x, y) for a, b in zip(some, others, strict=True) for x, y in zip(a, b, strict=True)]
    wide = bool(pairs) and pairs[0][0].obs.size != p.spread.size
    unit = 1.0 if wide else np.where(p.spread > 1e-9, p.spread, 1.0)
    gaps = [float((np.abs(x.obs.astype(float) - y.obs) / unit).max()) for x, y in pairs]
    if with_reward:
        gaps += [abs(x.reward - y.reward) / p.pay for x, y in pairs]
    return max(gaps, default=0.0)


class _Compare:
    """Whether outcomes differ by more than the same actions do when they are repeated."""

    def __init__(self, p: TaskProbe, trials: int, hold: int = HOLD, *, with_reward: bool = False) -> None:
        self.hold, self.with_reward = hold, with_reward
        price = (sum(LEADS) + len(LEADS) * hold) * p.price("step") + len(LEADS) * p.price("reset")
        self.p, self.leads = p, LEADS if (trials + 2) * price < SHARE * p.case.seconds else LEADS[:2]
        self.noise = _gap(p, self.of(lambda a: a), self.of(lambda a: a), with_reward=with_reward)
        self.possible = self.noise < TOLERANCE

    def of(self, change: Any) -> Outcomes:
        return _outcomes(self.p, change, self.leads, self.hold)

    def same(self, some: Outcomes, others: Outcomes) -> bool:
        return _gap(self.p, some, others, with_reward=self.with_reward) <= 10 * self.noise
