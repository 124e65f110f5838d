"""Whether an episode begins as it should: as its seed says, without a memory, and not always alike."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import numpy as np

from cairn.core.types import Array
from cairn.doctor.finding import Finding
from cairn.doctor.patient import SEED, STARTS, Copy, Patient
from cairn.doctor.play import draw

STEPS = 20
LATER = 60
TOLERANCE = 0.01  # of an entry's range in play: a simulator's warm start leaves less than that behind


def repeats(p: Patient) -> Iterator[Finding]:
    """The same seed and the same actions must give the same observations in any copy."""
    one, other = (twin.seen for twin in p.twins)
    if _differ(p, one[0], other[0]):
        yield Finding(
            "seed-ignored",
            "error",
            "Two copies that are reset with the same seed begin differently.",
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


def forgets(p: Patient) -> Iterator[Finding]:
    """A reset must not depend on the episodes before it."""
    used, fresh = p.twins[0].copy, p.twins[0].seen[0]
    if _differ(p, fresh, p.twins[1].seen[0]):
        return  # `repeats` says so
    for behaviour in ("uniform", "held", "steady"):
        trace = used.episode(behaviour, until=_soon(p), first=True)
        after = used.reset(seed=SEED)
        if _differ(p, fresh, after):
            yield Finding(
                "reset-remembers",
                "error",
                "A reset depends on what came before it: an episode begins where the last one left something.",
                _difference(p, fresh, after, f"seed {SEED}, fresh and after an episode of {trace.length} steps"),
                "Restore the whole state in reset(): positions, velocities, actuators, controllers, counters.",
            )
            return


def variety(p: Patient) -> Iterator[Finding]:
    """Episodes and parallel copies must differ from one another where anything is drawn at all."""
    one, seeded = p.first, p.starts
    one.reset(seed=1)
    following = [one.reset() for _ in range(STARTS)]
    copies = [np.concatenate(twin.begun) for twin in p.twins]
    by_seed, by_turn, by_copy = _distinct(seeded), _distinct(following), _distinct(copies)
    counts = f"{by_seed} different starts under {STARTS} seeds, {by_turn} in {STARTS} resets without one"
    if by_seed > 1 and by_turn == 1:
        yield Finding(
            "resets-alike",
            "error",
            f"Every reset without a seed begins the same episode{_goal_words(p, following)}.",
            counts,
            "Do not seed in reset() unless a seed was given: seed=None must go on drawing from the same generator.",
        )
    elif by_seed == 1 and by_turn > 1 and _distinct(_later(p)) == 1:
        yield Finding(
            "seeds-alike",
            "error",
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
    elif by_seed > 1 and by_copy == 1:
        yield Finding(
            "copies-alike",
            "warning",
            "Copies that are made alike begin alike unless each is given a seed.",
            f"2 fresh copies reset without a seed began alike 3 times; {counts}",
            "Do not seed in __init__; Cairn seeds its copies, other libraries may not.",
        )
    elif p.spec.goal is not None and _distinct([s[p.spec.goal.desired] for s in seeded + following]) == 1:
        whole = by_seed == 1
        yield Finding(
            "one-goal",
            "warning" if whole else "hint",
            "There is one goal, whatever the seed" + (", and every episode begins the same way." if whole else "."),
            f"1 goal in {2 * STARTS} resets; {counts}",
            "If goals are meant to vary, draw them in reset(); a policy trained on one knows no other.",
        )


def shared(p: Patient) -> Iterator[Finding]:
    """What one copy does must not reach another in the same process."""
    actions = _actions(p, STEPS)
    one, other = (twin.copy for twin in p.twins)
    alone = one.run(3, actions)
    if _unlike(p, alone, one.run(3, actions)):
        return  # it is not repeatable by itself, which others say
    one.reset(seed=3)
    other.reset(seed=4)
    beside = [alone[0]]
    open_ = True
    for action in actions[: len(alone) - 1]:
        if open_:
            _, _, terminated, truncated, _ = other.step(draw(other.action_space, p.rng, extreme=True))
            open_ = not (terminated or truncated)
        beside.append(one.step(action)[0])
    if _unlike(p, alone, beside):
        at = next(i for i, (a, b) in enumerate(zip(alone, beside, strict=True)) if _differ(p, a, b))
        yield Finding(
            "copies-share",
            "error",
            "Two copies in one process disturb each other.",
            f"seed 3, the same actions: another outcome at step {at} when a second copy is stepped in between",
            "Keep state in self, not in the class or module, and give each copy a simulator of its own.",
        )


def _actions(p: Patient, count: int) -> list[object]:
    return [draw(p.first.action_space, p.rng) for _ in range(count)]


def _soon(p: Patient) -> float:
    return time.perf_counter() + 0.03 * p.case.seconds


def _apart(p: Patient, a: Array, b: Array) -> Array:
    """How far two observations are apart, each entry by its range in play; what never moves, in its own unit."""
    a, b = p.first.thin(a).astype(float), p.first.thin(b).astype(float)
    out: Array = np.abs(a - b) / np.where(p.spread > 1e-9, p.spread, 1.0)
    return out


def _differ(p: Patient, a: Array, b: Array) -> bool:
    return bool((_apart(p, a, b) > TOLERANCE).any())


def _unlike(p: Patient, some: list[Array], others: list[Array]) -> bool:
    return len(some) != len(others) or any(map(partial(_differ, p), some, others))


def _difference(p: Patient, a: Array, b: Array, when: str) -> str:
    apart = _apart(p, a, b)
    worst = int(apart.argmax())
    x, y = float(p.first.thin(a)[worst]), float(p.first.thin(b)[worst])
    count = int((apart > TOLERANCE).sum())
    return f"{when}: {count} of {len(apart)} entries differ; entry {worst} is {x:.4g} and {y:.4g}"


def _distinct(starts: list[Array]) -> int:
    return len({start.tobytes() for start in starts})


def _goal_words(p: Patient, starts: list[Array]) -> str:
    if p.spec.goal is None:
        return ""
    goal = np.round(starts[0][p.spec.goal.desired], 3).tolist()
    return f", with the goal {goal}"


def _later(p: Patient) -> list[Array]:
    """What is seen some steps after the start under each of two seeds: a game may look alike before it is on."""
    actions = _actions(p, LATER)
    return [p.first.run(seed, actions)[-1] for seed in (1, 2)]


def _reseeds(p: Patient, copy: Copy) -> bool:
    """Whether a reset winds the generator back, where one number was taken from it in between."""
    copy.reset()
    generator = copy.env.unwrapped.np_random
    before = str(generator.bit_generator.state)
    generator.random()
    copy.reset()
    return str(copy.env.unwrapped.np_random.bit_generator.state) == before
