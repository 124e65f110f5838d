"""Whether episodes start as they should: determined by the seed, independent of the past, and varied."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from gymnasium.utils.seeding import np_random

from cairn.core.types import Array
from cairn.doctor.copies import SEED, Copy
from cairn.doctor.finding import Finding
from cairn.doctor.play import at_end, draw
from cairn.doctor.task_probe import STARTS, TaskProbe

STEPS = 20
LATER = 60
MANY, CHANCE = 60, 1e-3  # resets at most if starts are mostly equal; probability below which it is not chance
TOLERANCE = 0.01  # of an entry's range in play; warm starts of simulators differ by less


def repeats(p: TaskProbe) -> Iterator[Finding]:
    """The same seed and actions must give the same observations in any copy."""
    one, other = (twin.seen for twin in p.twins)
    if _differ(p, one[0], other[0]):
        yield Finding(
            "seed-ignored",
            "warning",
            "Two copies that are reset with the same seed begin differently, so no result can be repeated.",
            _difference(p, one[0], other[0], f"seed {SEED}, two copies"),
            "Call super().reset(seed=seed) and draw everything from self.np_random, nothing from random or np.random.",
        )
    elif len(one) != len(other) or any(_differ(p, a, b) for a, b in zip(one, other, strict=True)):
        at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if _differ(p, a, b)), len(one))
        yield Finding(
            "unseeded-noise",
            "warning",
            "The same seed and the same actions lead to different observations.",
            f"two copies, seed {SEED}: alike at reset, different at step {at}",
            "Draw the noise of a step from self.np_random, or a result can never be repeated.",
        )


def forgets(p: TaskProbe) -> Iterator[Finding]:
    """A reset must not depend on earlier episodes."""
    used, fresh = p.twins[0].copy, p.twins[0].seen[0]
    if _differ(p, fresh, p.twins[1].seen[0]):
        return  # `repeats` reports this
    for behaviour in ("uniform", "held", "steady"):
        trace = used.episode(behaviour, until=_soon(p), first=True)
        after = used.reset(seed=SEED)
        if _differ(p, fresh, after):
            yield Finding(
                "reset-remembers",
                "error" if _strange(p, after) else "warning",
                "A reset depends on what came before it: an episode begins where the last one left something.",
                _difference(p, fresh, after, f"seed {SEED}, fresh and after an episode of {trace.length} steps"),
                "Restore the whole state in reset(): positions, velocities, actuators, controllers, counters.",
            )
            return


def _strange(p: TaskProbe, after: Array) -> bool:
    """Whether a start lies outside the range of fresh copies' starts: then it is a leftover of an episode."""
    fresh = p.another()
    rows = np.array([p.first.thin(fresh.reset(seed=seed)) for seed in range(2 * STARTS)], float)
    unit = TOLERANCE * np.where(p.spread > 1e-9, p.spread, 1.0)
    row = p.first.thin(after)
    margin = 0.5 * np.ptp(rows, axis=0) + unit
    return bool(((row < rows.min(0) - margin) | (row > rows.max(0) + margin)).any())


def variety(p: TaskProbe) -> Iterator[Finding]:
    """Episodes and parallel copies must differ if anything is random."""
    one, seeded = p.first, p.starts
    one.reset(seed=1)
    following = [one.reset() for _ in range(STARTS)]
    if (_distinct(seeded) == 1) != (_distinct(following) == 1):  # possibly by chance, if few starts differ
        until = _soon(p)
        more = [one.reset(seed=seed) for seed in range(STARTS + 1, MANY) if time.perf_counter() < until]
        seeded = [*seeded, *more]
        one.reset(seed=1)
        following += [one.reset() for _ in more]
    by_seed, by_turn = _distinct(seeded), _distinct(following)
    counts = f"{by_seed} different starts under {len(seeded)} seeds, {by_turn} in {len(following)} resets without one"
    if by_seed > 1 and by_turn == 1 and _luck(seeded) ** len(following) < CHANCE:
        yield Finding(
            "resets-alike",
            "error",
            f"Every reset without a seed begins the same episode{_goal_words(p, following)}.",
            counts,
            "Do not seed in reset() unless a seed was given: seed=None must go on drawing from the same generator.",
        )
    elif by_seed == 1 and by_turn > 1 and _luck(following) ** len(seeded) < CHANCE and _distinct(_later(p)) == 1:
        yield Finding(
            "seeds-alike",
            "warning",
            "Every seed begins the same episode, so parallel copies all see the same.",
            counts,
            "Pass the seed on: super().reset(seed=seed), and draw from self.np_random.",
        )
    elif by_seed == 1 and _reseeds(p, one):
        yield Finding(
            "resets-alike",
            "error",
            f"reset() seeds its generator with a constant: every episode is the same{_goal_words(p, following)}.",
            f"{counts}; after each, the generator is in the same state",
            "Seed only when reset() is given a seed.",
        )
    elif by_seed > 1 and (resets := _copies_alike(p, seeded)):
        yield Finding(
            "copies-alike",
            "warning",
            "Copies that are made alike begin alike unless each is given a seed.",
            f"2 fresh copies reset without a seed began alike {resets} times; {counts}",
            "Do not seed in __init__; Cairn seeds its copies, other libraries may not.",
        )
    elif p.goal is not None and _distinct([s[p.goal.desired] for s in seeded + following]) == 1:
        whole = by_seed == 1
        yield Finding(
            "one-goal",
            "warning" if whole else "hint",
            "There is one goal, whatever the seed" + (", and every episode begins the same way." if whole else "."),
            f"1 goal in {len(seeded) + len(following)} resets; {counts}",
            "If goals are meant to vary, draw them in reset(); a policy trained on one knows no other.",
        )


def _luck(starts: list[Array]) -> float:
    """An upper estimate of the probability that the next start is the most common of these."""
    counts = Counter(start.tobytes() for start in starts)
    return (max(counts.values()) + 1) / (len(starts) + 1)


def _copies_alike(p: TaskProbe, seeded: list[Array]) -> int:
    """How often two copies started equally without a seed, if that is not by chance; else 0."""
    if _distinct([np.concatenate(twin.starts) for twin in p.twins]) > 1:
        return 0
    resets = 3
    luck = sum((n / len(seeded)) ** 2 for n in Counter(start.tobytes() for start in seeded).values())
    if luck**resets > CHANCE:
        one, other = p.another(), p.another()
        for resets in range(1, MANY):
            if _distinct([one.reset(), other.reset()]) > 1:
                return 0
            if luck**resets < CHANCE:
                return resets
        return 0
    return resets


def shared(p: TaskProbe) -> Iterator[Finding]:
    """One copy must not influence another in the same process."""
    actions = _actions(p, STEPS)
    one, other = (twin.copy for twin in p.twins)
    alone = one.run(3, actions)
    if _unlike(p, alone, one.run(3, actions)):
        return  # not repeatable, which other probes report
    lows, highs = (_beside(one, other, actions[: len(alone) - 1], end) for end in (0.0, 1.0))
    if not _unlike(p, alone, lows) and not _unlike(p, alone, highs):
        return
    at = next(i for i, rows in enumerate(zip(alone, lows, highs, strict=True)) if _any_differ(p, *rows))
    moved = f"seed 3, the same actions: another outcome at step {at} when a second copy is stepped in between"
    if _unlike(p, lows, highs):
        yield Finding(
            "copies-share",
            "error",
            "Two copies in one process disturb each other.",
            f"{moved}, and another with other actions of that copy",
            "Keep state in self, not in the class or module, and give each copy a simulator of its own.",
        )
    else:
        yield Finding(
            "copies-share",
            "warning",
            "Two copies in one process draw from one random generator, so no result can be repeated.",
            f"{moved}, whatever that copy does",
            "Draw from self.np_random, nothing from random or np.random.",
        )


def _beside(one: Copy, other: Copy, actions: list[object], end: float) -> list[Array]:
    """One copy's observations when the other is stepped before each step, with its lowest or highest action."""
    rows = [one.reset(seed=3)]
    other.reset(seed=4)
    open_ = True
    for action in actions:
        if open_:
            _, _, terminated, truncated, _ = other.step(at_end(other.action_space, end))
            open_ = not (terminated or truncated)
        rows.append(one.step(action)[0])
    return rows


def _any_differ(p: TaskProbe, a: Array, b: Array, c: Array) -> bool:
    return _differ(p, a, b) or _differ(p, a, c)


def _actions(p: TaskProbe, count: int) -> list[object]:
    return [draw(p.first.action_space, p.rng) for _ in range(count)]


def _soon(p: TaskProbe) -> float:
    return time.perf_counter() + 0.03 * p.case.seconds


def _apart(p: TaskProbe, a: Array, b: Array) -> Array:
    """The distance of two observations per entry, in units of its range in play."""
    a, b = p.first.thin(a).astype(float), p.first.thin(b).astype(float)
    out: Array = np.abs(a - b) / np.where(p.spread > 1e-9, p.spread, 1.0)
    return out


def _differ(p: TaskProbe, a: Array, b: Array) -> bool:
    return bool((_apart(p, a, b) > TOLERANCE).any())


def _unlike(p: TaskProbe, some: list[Array], others: list[Array]) -> bool:
    return len(some) != len(others) or any(map(partial(_differ, p), some, others))


def _difference(p: TaskProbe, a: Array, b: Array, when: str) -> str:
    apart = _apart(p, a, b)
    worst = int(apart.argmax())
    x, y = float(p.first.thin(a)[worst]), float(p.first.thin(b)[worst])
    count = int((apart > TOLERANCE).sum())
    return f"{when}: {count} of {len(apart)} entries differ; entry {worst} is {x:.4g} and {y:.4g}"


def _distinct(starts: list[Array]) -> int:
    return len({start.tobytes() for start in starts})


def _goal_words(p: TaskProbe, starts: list[Array]) -> str:
    if p.goal is None:
        return ""
    goal = np.round(starts[0][p.goal.desired], 3).tolist()
    return f", with the goal {goal}"


def _later(p: TaskProbe) -> list[Array]:
    """Observations some steps after the start for two seeds: a game may look equal before it begins."""
    actions = _actions(p, LATER)
    return [p.first.run(seed, actions)[-1] for seed in (1, 2)]


def _reseeds(p: TaskProbe, copy: Copy) -> bool:
    """Whether a reset rewinds a generator that is in use."""
    bare: Any = copy.env.unwrapped
    copy.reset()
    generator = getattr(bare, "np_random", None)
    if not isinstance(generator, np.random.Generator):
        return False
    before = str(generator.bit_generator.state)
    generator.random()
    copy.reset()
    return str(bare.np_random.bit_generator.state) == before and _draws(p, copy)


def _draws(p: TaskProbe, copy: Copy) -> bool:
    """Whether a reset or a step uses the generator."""
    copy.run(None, _actions(p, STEPS))
    bare: Any = copy.env.unwrapped
    try:
        fresh, _ = np_random(int(bare.np_random_seed))
    except Exception:  # its seed is unknown
        return True
    return bool(str(bare.np_random.bit_generator.state) != str(fresh.bit_generator.state))
