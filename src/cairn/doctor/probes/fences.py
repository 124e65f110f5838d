"""Whether goals can be reached: explores the task, and reports goals that stay outside of what was reached.

As in Go-Explore (Ecoffet et al. 2019), reached places are stored with the actions that led there. A place is returned
to by its actions, and exploration continues from there. This finds ways around walls.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cairn.core.types import Array
from cairn.doctor.copies import Copy, Raised
from cairn.doctor.play import draw
from cairn.doctor.task_probe import TaskProbe

SEEDS = 6  # starts to explore
SHARE = 0.2  # of the time, for all starts
CELLS = {1: 24, 2: 12, 3: 6}  # cells per goal dimension; more dimensions would take too long
REST, COARSE = 16, 3  # further entries of the observation, and parts of their range
HOLDS = (1, 4, 16)
AGAIN = 10  # moves per place after which all places count as found
LEAST = 4  # places needed for a finding


@dataclass
class Explored:
    """The result of exploring from one start."""

    goal: Array
    near: float  # distance within which the goal may still be reachable
    nearest: float = np.inf  # to the goal
    reached: bool = False
    moves: int = 0  # changes of place
    last_new: int = 0  # the move that found the newest place
    places: set[bytes] = field(default_factory=set)

    @property
    def fenced(self) -> bool:
        """Whether exploration found nothing new any more without coming near the goal."""
        return self.closed and not self.reached and self.nearest > self.near

    @property
    def closed(self) -> bool:
        """Whether nothing new was found for so long that nothing more is to be expected."""
        return LEAST <= len(self.places) <= self.moves / AGAIN and self.last_new < self.moves / 2


def explored(p: TaskProbe) -> list[Explored]:
    """The results of all starts there was time for; [] if it would take too long, or the task is not repeatable."""
    goal = p.goal
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
    """Maps observations to places (cells of the achieved goal), and to states, which add a coarse rest of it."""

    def __init__(self, p: TaskProbe, cells: int) -> None:
        goal = p.goal
        assert goal is not None
        self.goal = goal
        goals = np.concatenate([x for t in p.plays for x in (t.achieved, t.desired)])
        columns = np.flatnonzero(p.view.numbers)[:REST]
        rest = np.concatenate([t.obs for t in p.plays])[:, columns]
        low, high = goals.min(0), goals.max(0)
        floor, ceiling = np.percentile(rest, (5, 95), axis=0)
        unit = np.where(high > low, (high - low) / cells, 1.0)
        part = np.maximum(ceiling - floor, 1e-9) / COARSE
        self.width, self.near = len(low), float(np.linalg.norm(unit))
        self.low, self.unit = np.concatenate([low, floor]), np.concatenate([unit, part])
        self.index = np.concatenate([np.arange(p.view.size)[goal.achieved], p.view.index[columns]])
        self.ends = np.concatenate([np.full(self.width, 1000), np.full(len(part), COARSE)])

    def place(self, achieved: Array) -> bytes:
        cell = np.floor((achieved - self.low[: self.width]) / self.unit[: self.width])
        return bytes(np.minimum(np.maximum(cell, -1000), 1000).astype("int16").tobytes())

    def state(self, obs: Array) -> bytes:
        """The state of an observation; it begins with the bytes of its place."""
        cell = np.floor((obs[self.index] - self.low) / self.unit)
        return bytes(np.minimum(np.maximum(cell, -self.ends), self.ends).astype("int16").tobytes())


def _explore(p: TaskProbe, grid: _Grid, seed: int, until: float) -> Explored | None:
    """Explore from the start of a seed until the goal is reached, nothing new is found or time is up."""
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
            lost += 1  # the same actions led elsewhere
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
    """Continue from a place with held actions, until the episode ends or for 100 steps."""
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
    """Record whether the goal's cell was entered, or the current goal was reached by the reward rule."""
    apart = np.linalg.norm(achieved - result.goal, axis=1)
    result.nearest = min(result.nearest, float(apart.min()))
    result.reached = result.reached or grid.place(result.goal) in result.places
    if not result.reached and p.rule is not None and not isinstance(p.rule, Raised):
        reward, best = p.rule.reward(achieved, desired), p.rule.reward(desired, desired)
        result.reached = bool((reward >= best - 1e-9).any())
