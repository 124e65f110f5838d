"""Shortest ways in a region: waypoints for an oracle that knows the map, where a high level has to learn it."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence

import numpy as np

from cairn.core.goals import Region
from cairn.core.types import Array

MOST_AXES = 3  # axes of a region that a grid of points can fill
MOST_POINTS = {1: 200, 2: 80, 3: 24}  # points along each axis, by the number of axes
SAMPLES = 24  # points of a line that must lie inside
TOUCH = 0.1  # of a cell: what a region covers of it at least
CLOSE = 1e-6  # of the region's width: how far outside rounding may put a point


class Map:
    """A grid of points of a region, and the shortest ways between them.

    Two neighbours are joined where the line between them stays inside. `reach` [p] is the longest step to a waypoint,
    `near` the distance within which one counts as passed.
    """

    def __init__(self, region: Region, reach: Array, axes: int, near: float = 0.0) -> None:
        """Plan in the first `axes` axes of the region."""
        self.near = near
        self.axes = p = axes
        self.region = Region(tuple((low[:p], high[:p]) for low, high in region.boxes))
        self.reach = np.asarray(reach, float)[:p]
        low, high = (np.array([box[k] for box in self.region.boxes], float) for k in (0, 1))
        self.low, self.span = low.min(0), np.maximum(high.max(0) - low.min(0), CLOSE)
        sides = np.where(high > low, high - low, np.inf).min(0)
        self.step = np.maximum(np.minimum(self.reach, sides) / 2, self.span / (MOST_POINTS[p] - 1))
        counts = np.floor(self.span / self.step + CLOSE).astype(int) + 1
        index = np.stack(np.meshgrid(*(np.arange(n) for n in counts), indexing="ij"), -1).reshape(-1, p)
        points = self.low + index * self.step
        inside = self.region.nearest(points)
        kept = (np.abs(inside - points) <= self.step / 2).all(1)
        self.points: Array = inside[kept]
        self.number = np.full(counts, -1)  # of the point at each place of the grid
        self.number[tuple(index[kept].T)] = np.arange(len(self.points))
        self.ways = self._joined(index[kept], counts)
        self.costs: dict[int, tuple[Array, Array]] = {}  # by the number of the goal's point

    def _joined(self, index: Array, counts: Array) -> list[list[tuple[int, float]]]:
        """The neighbours of each point, with their distances."""
        ways: list[list[tuple[int, float]]] = [[] for _ in self.points]
        for off in itertools.product((-1, 0, 1), repeat=self.axes):
            other = index + off
            valid = ((other >= 0) & (other < counts)).all(1) & any(off)
            first = np.flatnonzero(valid)
            second = self.number[tuple(other[first].T)]
            first, second = first[second >= 0], second[second >= 0]
            first, second = (k[self.sees(self.points[first], self.points[second])] for k in (first, second))
            for a, b in zip(first.tolist(), second.tolist(), strict=True):
                ways[a].append((b, math.dist(self.points[a], self.points[b])))
        return ways

    def sees(self, start: Array, end: Array) -> Array:
        """[...] bool: whether the straight line from start to end [..., p] stays inside the region."""
        share = np.linspace(0, 1, SAMPLES)[:, None]
        line = start[..., None, :] + share * (end - start)[..., None, :]
        out: Array = (np.abs(self.region.nearest(line) - line) <= CLOSE * self.span).all((-1, -2))
        return out

    def inside(self, point: Array) -> Array:
        """The nearest point of the region to `point` [p]."""
        out: Array = self.region.nearest(np.asarray(point, float)[: self.axes])
        return out

    def _seen(self, point: Array) -> Array:
        """The numbers of the points in sight of `point` [p] of the region, the nearest first."""
        away = np.abs(self.points - point)
        around = np.flatnonzero((away <= np.maximum(self.reach, self.step)).all(1))
        order = around[np.argsort(np.square(away[around]).sum(1), kind="stable")]
        out: Array = order[self.sees(np.broadcast_to(point, (len(order), self.axes)), self.points[order])]
        return out

    def _costs(self, goal: int) -> tuple[Array, Array]:
        """The length of the shortest way from each point to that numbered `goal`, and the next point of it."""
        if goal not in self.costs:
            cost, following = np.full(len(self.points), np.inf), np.full(len(self.points), -1)
            cost[goal] = 0.0
            queue = [(0.0, goal)]
            while queue:
                far, here = heapq.heappop(queue)
                if far > cost[here]:
                    continue
                for other, length in self.ways[here]:
                    if far + length < cost[other]:
                        cost[other], following[other] = far + length, here
                        heapq.heappush(queue, (far + length, other))
            self.costs[goal] = cost, following
        return self.costs[goal]

    def way(self, here: Array, goal: Array) -> list[Array] | None:
        """The points of the shortest way from `here` to `goal` [p], the goal last; None where there is none.

        Points within `near` are passed, because a low level may stop there, where it does not see the one that follows.
        """
        here, goal = self.inside(here), self.inside(goal)
        if self.sees(here, goal):
            return [goal]
        starts, ends = self._seen(here), self._seen(goal)
        if not len(starts) or not len(ends):
            return None
        cost, following = self._costs(int(ends[0]))
        away = np.linalg.norm(self.points[starts] - here, axis=1)
        total = cost[starts] + away
        if np.isfinite(total[away > self.near]).any():
            total[away <= self.near] = np.inf
        if not np.isfinite(total.min()):
            return None
        number, points = int(starts[total.argmin()]), []
        while number >= 0:
            points.append(self.points[number])
            number = int(following[number])
        return [*points, goal]

    def waypoint(self, here: Array, goal: Array) -> Array | None:
        """The farthest point of the way [p] in a straight line from `here`, within reach; None without a way."""
        points = self.way(here, goal)
        if points is None:
            return None
        start, ahead = self.inside(here), np.stack(points)
        seen = np.flatnonzero(self.sees(np.broadcast_to(start, ahead.shape), ahead))
        return within(start, ahead[seen[-1] if len(seen) else 0], self.reach)


def widened(region: Region, by: Array) -> Region:
    """The region with each box wider by `by` [d] on both sides of each axis."""
    return Region(
        tuple(
            (tuple((np.array(low) - by[: len(low)]).tolist()), tuple((np.array(high) + by[: len(high)]).tolist()))
            for low, high in region.boxes
        )
    )


def within(here: Array, there: Array, reach: Array) -> Array:
    """The point on the line from `here` towards `there` that is at most `reach` away along each axis."""
    away = there - here
    return here + away / max(float((np.abs(away) / reach).max()), 1.0)


def cells_in(region: Region, size: Array) -> set[tuple[int, ...]]:
    """The cells of `size` [p] that the region covers in its first p axes, without those that it only touches."""
    found: set[tuple[int, ...]] = set()
    for ends in region.boxes:
        low, high = (np.array(end[: len(size)], float) for end in ends)
        slack = np.minimum(TOUCH * size, (high - low) / 2)
        first, last = (np.floor(end / size + 0.5).astype(int) for end in (low + slack, high - slack))
        found |= set(itertools.product(*(range(a, b + 1) for a, b in zip(first.tolist(), last.tolist(), strict=True))))
    return found


def cells_of(points: Array, size: Array | Sequence[float]) -> set[tuple[int, ...]]:
    """The cells of `size` [p] that points [n, p] lie in, as an archive numbers them."""
    return set(map(tuple, np.unique(np.floor(points / size + 0.5).astype(int), axis=0).tolist()))
