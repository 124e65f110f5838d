"""Whether a way leads to the goals: what can be reached is explored, and goals that stay outside of it are reported.

As Go-Explore does (Ecoffet et al. 2019): places that were reached are kept with the actions that led there, a place is
returned to by those actions, and the play goes on from there. A wall with a gap is got round that way.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cairn.core.types import Array
from cairn.doctor.play import draw
from cairn.doctor.task_probe import Copy, Raised, TaskProbe

SEEDS = 6  # starts that are explored
SHARE = 0.2  # of the time given, for all of them
CELLS = {1: 24, 2: 12, 3: 6}  # along a dimension of the goal; with more dimensions nobody comes to an end
REST, COARSE = 16, 3  # entries of the rest of the observation that count, and the parts of their range
HOLDS = (1, 4, 16)
AGAIN = 10  # moves between places for each place there is: then all that can be entered has been
LEAST = 4  # places: fewer tell nothing


@dataclass
class Explored:
    """What was found from one start."""

    goal: Array
    near: float  # nearer than this, the goal may be just round the corner
    nearest: float = np.inf  # to the goal
    reached: bool = False
    moves: int = 0  # from one place to another
    last_new: int = 0  # the move that found the newest place
    places: set[bytes] = field(default_factory=set)

    @property
    def fenced(self) -> bool:
        return self.closed and not self.reached and self.nearest > self.near

    @property
    def closed(self) -> bool:
        """Whether nothing new was found for so long that there is nothing more."""
        return LEAST <= len(self.places) <= self.moves / AGAIN and self.last_new < self.moves / 2


def explored(p: TaskProbe) -> list[Explored]:
    """One for each start there was time for; none where it would take too long, or the task does not repeat itself."""
    goal = p.spec.goal
    assert goal is not None
    size = p.plays[0].achieved.shape[1]
    budget = SHARE * p.case.seconds
    until = time.perf_counter() + budget
    if size not in CELLS or p.images or 2000 * p.price("step") > budget:
        return []
    grid = _Grid(p, CELLS[size])
    results = []
    for seed in range(1, SEEDS + 1):
        now = time.perf_counter()
        one = _explore(p, grid, seed, now + (until - now) / (SEEDS + 1 - seed))
        if one is None:
            return []
        results.append(one)
    return results


class _Grid:
    """Observations as places, the achieved goal in cells, and as states, with the rest of what is seen, coarsely."""

    def __init__(self, p: TaskProbe, cells: int) -> None:
        goal = p.spec.goal
        assert goal is not None
        self.goal = goal
        goals = np.concatenate([x for t in p.plays for x in (t.achieved, t.desired)])
        rest = np.concatenate([t.obs for t in p.plays])[:, : goal.observation][:, :REST]
        low, high = goals.min(0), goals.max(0)
        floor, ceiling = np.percentile(rest, (5, 95), axis=0)
        unit = np.where(high > low, (high - low) / cells, 1.0)
        part = np.maximum(ceiling - floor, 1e-9) / COARSE
        self.width, self.near = len(low), float(np.linalg.norm(unit))
        self.low, self.unit = np.concatenate([low, floor]), np.concatenate([unit, part])
        self.index = np.concatenate([np.arange(p.first.spec.obs_shape[0])[goal.achieved], np.arange(rest.shape[1])])
        self.ends = np.concatenate([np.full(self.width, 1000), np.full(len(part), COARSE)])

    def place(self, achieved: Array) -> bytes:
        cell = np.floor((achieved - self.low[: self.width]) / self.unit[: self.width])
        return bytes(np.minimum(np.maximum(cell, -1000), 1000).astype("int16").tobytes())

    def state(self, obs: Array) -> bytes:
        """Its first bytes are its place."""
        cell = np.floor((obs[self.index] - self.low) / self.unit)
        return bytes(np.minimum(np.maximum(cell, -self.ends), self.ends).astype("int16").tobytes())


def _explore(p: TaskProbe, grid: _Grid, seed: int, until: float) -> Explored | None:
    """From the start of a seed until the goal is reached, nothing new is found or time is up."""
    copy, rng = p.first, np.random.default_rng(seed)
    obs = copy.reset(seed=seed)
    result = Explored(obs[grid.goal.desired].copy(), grid.near)
    paths: dict[bytes, list[Any]] = {grid.state(obs): []}
    visits: dict[bytes, int] = dict.fromkeys(paths, 0)
    lost = 0
    while time.perf_counter() < until and not result.reached and not result.closed:
        names = list(paths)
        weight = np.array([1 / (1 + visits[name]) for name in names])
        origin = names[int(rng.choice(len(names), p=weight / weight.sum()))]
        visits[origin] += 1
        path = list(paths[origin])
        rows = copy.run(seed, path)
        if len(rows) <= len(path) or grid.state(rows[-1]) != origin:
            lost += 1  # another way than before
            if lost > 3:
                return None
            continue
        _wander(p, copy, grid, result, paths, visits, path, rows[-1], rng)
    return result


def _wander(
    p: TaskProbe,
    copy: Copy,
    grid: _Grid,
    result: Explored,
    paths: dict[bytes, list[Any]],
    visits: dict[bytes, int],
    path: list[Any],
    obs: Array,
    rng: np.random.Generator,
) -> None:
    """On from a place with actions held for a while, to the end of the episode or for a while."""
    hold, action = int(rng.choice(HOLDS)), None
    width, seen = 2 * grid.width, []
    here = grid.state(obs)[:width]
    for i in range(100):
        if i % hold == 0:
            action = draw(copy.action_space, rng, extreme=bool(rng.integers(2)))
        desired = obs[grid.goal.desired]
        obs, _, terminated, truncated, _ = copy.step(action)
        path.append(action)
        seen.append((obs[grid.goal.achieved], desired))
        state = grid.state(obs)
        if state[:width] != here:
            here, result.moves = state[:width], result.moves + 1
            if here not in result.places:
                result.places.add(here)
                result.last_new = result.moves
        if terminated or truncated:
            break
        if state not in paths or len(path) < len(paths[state]):
            paths[state] = list(path)
            visits.setdefault(state, 0)
    _arrive(p, grid, result, np.array([a for a, _ in seen]), np.array([d for _, d in seen]))


def _arrive(p: TaskProbe, grid: _Grid, result: Explored, achieved: Array, desired: Array) -> None:
    """Whether the place of the goal was entered, or the goal that was shown on the way was reached by its rule."""
    apart = np.linalg.norm(achieved - result.goal, axis=1)
    result.nearest = min(result.nearest, float(apart.min()))
    result.reached = result.reached or grid.place(result.goal) in result.places
    if not result.reached and p.rule is not None and not isinstance(p.rule, Raised):
        reward, best = p.rule.reward(achieved, desired), p.rule.reward(desired, desired)
        result.reached = bool((reward >= best - 1e-9).any())
