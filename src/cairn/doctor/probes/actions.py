"""Whether what a policy does makes a difference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from cairn.core.types import Array
from cairn.doctor.finding import Finding, plural
from cairn.doctor.patient import Patient
from cairn.doctor.play import draw, limits

PLACES = 4  # states an action is tried in, fewer where that takes more than the share of the time
SHARE = 0.1
LEAD, HOLD = 12, 8  # random steps to such a state, and steps the action is held there
MOST = 20  # actions or dimensions that are tried
TOLERANCE = 0.01  # of an entry's range: where repeating the same actions differs by more, nothing can be told


def effect(p: Patient) -> Iterator[Finding]:
    """Every dimension, or every discrete action, must lead somewhere else than the others."""
    space = p.first.action_space
    compare = _Compare(p, space.n if isinstance(space, spaces.Discrete) else 2 * len(limits(space)[0].ravel()))
    if not compare.possible:
        return
    if isinstance(space, spaces.Discrete):
        yield from _discrete(compare, int(space.n), int(space.start))
    else:
        yield from _continuous(compare, space)


def bounds(p: Patient) -> Iterator[Finding]:
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


def _continuous(compare: _Compare, space: spaces.Box) -> Iterator[Finding]:
    low, high = limits(space)
    dead = []
    for i in range(min(low.size, MOST)):
        if compare.same(*(compare.of(_at(space, i, float(end.flat[i]))) for end in (low, high))):
            dead.append(i)
    if len(dead) == min(low.size, MOST):
        yield _nothing(compare, f"each of {plural(low.size, 'dimension')}, lowest against highest")
    elif dead:
        yield Finding(
            "action-no-effect",
            "hint",
            f"Of the {low.size} dimensions of an action, {len(dead)} changed nothing that is seen.",
            f"dimension {', '.join(map(str, dead))}: lowest against highest, {HOLD} steps, in {compare.places} states",
            "Leave it out of the action space if it never can; exploration and entropy are spent on it.",
        )


def _discrete(compare: _Compare, count: int, start: int) -> Iterator[Finding]:
    tried = min(count, MOST)
    outcomes = [compare.of(lambda a, k=k: start + k) for k in range(tried)]
    alike = [(j, k) for k in range(tried) for j in range(k) if compare.same(outcomes[j], outcomes[k])]
    if tried > 1 and len(alike) == tried * (tried - 1) // 2:
        yield _nothing(compare, f"{plural(tried, 'action')}, all with the same outcome")
    elif alike:
        yield Finding(
            "action-no-effect",
            "hint",
            "Some actions did the same.",
            f"{', '.join(f'{j} and {k}' for j, k in alike[:5])}: {HOLD} steps each, in {compare.places} states",
            "Leave one of each out if they never differ; there is less to explore then.",
        )


def _nothing(compare: _Compare, evidence: str) -> Finding:
    return Finding(
        "action-no-effect",
        "error",
        "No action has any effect on what is seen.",
        f"{evidence}; {HOLD} steps in each of {compare.places} states",
        "Look whether step() uses its argument, and whether the observation shows what it moves.",
    )


def _at(space: spaces.Box, i: int, value: float) -> Any:
    """A function that sets one dimension of an action."""

    def change(action: Array) -> Array:
        out = action.copy()
        out.flat[i] = value
        return out

    return change


Outcomes = list[list[Array]]


def _places(p: Patient, trials: int) -> int:
    """How many states there is time for."""
    for places in range(PLACES, 1, -1):
        steps = sum(LEAD * place + HOLD for place in range(places))
        if trials * (steps * p.price("step") + places * p.price("reset")) < SHARE * p.case.seconds:
            return places
    return 1


def _outcomes(p: Patient, change: Any, places: int) -> Outcomes:
    """What is seen in each of some states when every action there is changed; the same states and actions each time."""
    copy, found = p.first, []
    for place in range(places):
        rng = np.random.default_rng(place)
        actions = [draw(copy.action_space, rng) for _ in range(LEAD * place + HOLD)]
        found.append(copy.run(place, [*actions[:-HOLD], *map(change, actions[-HOLD:])]))
    return found


def _gap(p: Patient, some: Outcomes, others: Outcomes) -> float:
    """How far two outcomes are apart, by an entry's range in play; infinite where one ended before the other."""
    if any(len(a) != len(b) for a, b in zip(some, others, strict=True)):
        return np.inf
    wide = some[0][0].size != p.spread.size
    unit = 1.0 if wide else np.where(p.spread > 1e-9, p.spread, 1.0)
    pairs = [(x, y) for a, b in zip(some, others, strict=True) for x, y in zip(a, b, strict=True)]
    return max(float((np.abs(x.astype(float) - y) / unit).max()) for x, y in pairs)


class _Compare:
    """Whether outcomes differ by more than the same actions do when they are repeated."""

    def __init__(self, p: Patient, trials: int) -> None:
        self.p, self.places = p, _places(p, trials + 2)
        self.noise = _gap(p, self.of(lambda a: a), self.of(lambda a: a))
        self.possible = self.noise < TOLERANCE

    def of(self, change: Any) -> Outcomes:
        return _outcomes(self.p, change, self.places)

    def same(self, some: Outcomes, others: Outcomes) -> bool:
        return _gap(self.p, some, others) <= 10 * self.noise
