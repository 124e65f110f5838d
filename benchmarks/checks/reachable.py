"""`python -m benchmarks.checks.reachable`

The proof that the arm of cairn/FetchReachFar-v0 reaches the whole of its region.

The scripted controller `towards` leads the gripper to within 2 cm of each point, or fails to in a hundred steps:
    from home     every point of a lattice of 2.5 cm, the faces of the boxes included
    in between    errands from point to point, seven each after the first; half the points drawn are on faces, edges and
                  corners where they can be
    nearby        from such points to others within 0.2 m, what a hierarchy asks of its low level, in twenty steps
It exits with 1 where a point is missed. tests/envs/test_reachfar.py repeats a part of it.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cairn.envs.reachfar import ARRIVED, BALL, HIGH, LOW, REACHABLE, Arm, apart

SPACING = 0.025
ERRANDS, POINTS = 1500, 8
TRIPS, STOPS, STEPS = 400, 4, 20


@dataclass(frozen=True)
class Led:
    """Where the gripper was led, how near it came, in metres, and in how many steps."""

    goal: np.ndarray
    off: float
    steps: int


def lead(arm: Arm, goal: np.ndarray, limit: int = 100) -> Led:
    steps = sum(1 for _ in arm.lead(goal, limit))
    return Led(goal, apart(arm.place, goal), steps)


def lattice() -> list[tuple[float, ...]]:
    """Every box's points, those on shared faces once."""
    points: set[tuple[float, ...]] = set()
    for low, high in REACHABLE.boxes:
        axes = [np.linspace(a, b, round((b - a) / SPACING) + 1) for a, b in zip(low, high, strict=True)]
        points |= {tuple(np.round(point, 4)) for point in itertools.product(*axes)}
    return sorted(points)


def draw(rng: np.random.Generator) -> np.ndarray:
    """A point of the region; every other time each of its coordinates is moved to a face as often as not."""
    room = (HIGH - LOW).prod(1)
    box = rng.choice(len(room), p=room / room.sum())
    share = rng.uniform(size=3)
    if rng.random() < 0.5:
        share = np.where(rng.random(3) < 0.5, np.round(share), share)
    return LOW[box] + share * (HIGH - LOW)[box]


def draw_nearby(rng: np.random.Generator, place: np.ndarray) -> np.ndarray:
    while True:
        way = rng.normal(size=3)
        goal = place + way / np.linalg.norm(way) * BALL * rng.random() ** (1 / 3)
        if REACHABLE.holds(goal):
            return goal


def from_home(arm: Arm) -> Iterator[Led]:
    for point in lattice():
        arm.restore(arm.home)
        yield lead(arm, np.array(point))


def in_between(arm: Arm, rng: np.random.Generator) -> Iterator[Led]:
    for _ in range(ERRANDS):
        arm.restore(arm.home)
        lead(arm, draw(rng))
        yield from (lead(arm, draw(rng)) for _ in range(POINTS - 1))


def nearby(arm: Arm, rng: np.random.Generator) -> Iterator[Led]:
    for _ in range(TRIPS):
        arm.restore(arm.home)
        for _ in range(STOPS):
            lead(arm, draw(rng))
            yield lead(arm, draw_nearby(rng, arm.place), STEPS)


def main() -> None:
    arm, rng, missed = Arm(), np.random.default_rng(7), 0
    parts = {"from home": from_home(arm), "in between": in_between(arm, rng), "nearby": nearby(arm, rng)}
    for name, part in parts.items():
        begun, led = time.perf_counter(), list(part)
        late, steps = [one for one in led if one.off >= ARRIVED], [one.steps for one in led]
        taken = f"at most {max(steps)} steps, {np.mean(steps):.1f} in the mean"
        seconds = time.perf_counter() - begun
        print(f"{name:<10} {len(led):>7,} points, {len(late)} missed; {taken} ({seconds:.0f} s)", flush=True)
        for one in late:
            print(f"    {np.round(one.goal, 3)}: {100 * one.off:.1f} cm off")
        missed += len(late)
    raise SystemExit(missed > 0)


if __name__ == "__main__":
    main()
