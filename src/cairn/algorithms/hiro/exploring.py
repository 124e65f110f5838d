"""Exploring episodes of a hierarchy: go back to a cell that was visited seldom, then walk on to random points.

Of the training episodes a share `explore` explores. Such an episode draws a cell from the archive and repeats the
subgoals that once led there, each until it is near or `PATIENCE` decisions have passed. From there it walks to random
points, up to `walk` away, by subgoals on the straight line to them. Nothing about walls is known: a point behind one is
given up after `PATIENCE` decisions. All episodes of training fill the archive, and all are replayed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Generator

from cairn.core.types import Array
from cairn.explore.archive import Archive

PATIENCE = 6  # decisions for one point
LONGEST = 256  # decisions of an episode that the archive remembers
NEAR = 0.4  # of the largest displacement: how near a point is before the next one follows


@dataclass
class Trail:
    """What the explorer knows of one open episode."""

    explores: bool = False
    way: list[Array] = field(default_factory=list)  # subgoals so far
    plan: list[Array] = field(default_factory=list)  # points still to go to
    waited: int = 0  # decisions for the first of them

    @property
    def whole(self) -> bool:
        """Whether `way` has all subgoals so far."""
        return len(self.way) < LONGEST

    def follow(self, subgoal: Array) -> None:
        """Add the subgoal that was chosen."""
        if self.whole:
            self.way.append(subgoal)


def empty(cell: Sequence[float], width: int) -> Archive:
    """An archive without cells, for subgoals of `width` coordinates."""
    return Archive(cell, width, LONGEST)


class Explorer:
    """Chooses the subgoals of exploring episodes, and fills the archive."""

    def __init__(self, archive: Archive, reach: Array, walk: float, generator: Generator) -> None:
        """`reach` [d] is the largest displacement of a subgoal, `walk` that of a random point."""
        self.archive, self.reach, self.walk, self.generator = archive, reach, walk, generator

    def begin(self, share: float) -> Trail:
        """The trail of a new episode, which explores with probability `share`."""
        explores = bool(torch.rand((), generator=self.generator) < share)
        return Trail(explores, plan=self.archive.draw(self.generator) if explores else [])

    def displacement(self, trail: Trail, here: Array) -> Array:
        """The next subgoal of an exploring episode, as a displacement [d] from `here`."""
        while trail.plan and (self._near(trail.plan[0], here) or trail.waited >= PATIENCE):
            trail.plan.pop(0)
            trail.waited = 0
        if not trail.plan:
            trail.plan.append(self._anywhere(here))
        trail.waited += 1
        away = trail.plan[0] - here
        longest: float = np.abs(away / self.reach).max()
        out: Array = away / max(longest, 1.0)
        return out

    def _near(self, point: Array, here: Array) -> bool:
        return bool((np.abs(point - here) < NEAR * self.reach).all())

    def _anywhere(self, here: Array) -> Array:
        """A random point: its direction and its distance, in units of the largest displacement, are uniform."""
        direction = torch.randn(len(here), generator=self.generator).numpy()
        distance = float(torch.rand((), generator=self.generator)) * self.walk
        out: Array = here + distance * direction / max(float(np.linalg.norm(direction)), math.ulp(1.0))
        return out
