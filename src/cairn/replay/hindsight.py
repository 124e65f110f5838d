"""Hindsight experience replay (Andrychowicz et al. 2017): what was reached is read as what was meant.

A share k/(k+1) of every batch gets a new goal, drawn at sampling time from what was achieved:

    future   at this step or later in the same episode        final    at the last step of the same episode
    episode  anywhere in the same episode                     random   anywhere in the buffer

and its rewards and terminations are computed anew by the task's rule. Nothing is copied when a step is stored, no
buffer is scanned and no environment is stepped: a batch costs what its size costs, however large the ring.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
from torch import Generator

from cairn.core.goals import GoalRule
from cairn.core.types import Array, GoalSpec, Transition
from cairn.replay.episodes import Episodes
from cairn.replay.protocol import EvenDraw
from cairn.replay.ring import Ring, Walk

Strategy = Literal["future", "final", "episode", "random"]


class Hindsight(EvenDraw):
    """A ring that knows its episodes, and what its task pays for any goal."""

    def __init__(
        self,
        ring: Ring,
        goal: GoalSpec,
        rule: GoalRule,
        *,
        strategy: Strategy = "future",
        k: int = 4,
        folder: Path | None = None,
    ) -> None:
        self.ring, self.goal, self.rule, self.strategy, self.k = ring, goal, rule, strategy, k
        self.episodes = Episodes(ring, folder)
        self.add, self.cut = self.episodes.add, self.episodes.cut
        self.save, self.load = self.episodes.save, self.episodes.load

    @property
    def generator(self) -> Generator:
        return self.ring.generator

    def __len__(self) -> int:
        return len(self.ring)

    def sample(self, batch: int) -> Transition:
        """The first k/(k+1) of the batch with goals of hindsight, the others as they were."""
        cell = self.ring.draw(batch)
        relabelled = round(batch * self.k / (self.k + 1))
        return self.gather(cell, self.draw_goals(cell[:relabelled]))

    def draw_goals(self, cell: Array) -> Array:
        """For the transition of each cell, the cell whose outcome becomes its goal."""
        if self.strategy == "random":
            return self.ring.draw(len(cell)) if len(cell) else cell
        row, env = np.divmod(cell, self.ring.num_envs)
        start, end = self.episodes.span(cell)
        if self.strategy == "final":
            return (end.astype(np.int64) - 1) * self.ring.num_envs + env
        low = row if self.strategy == "future" else np.maximum(start, self.ring.first)
        return self.episodes.between(low, end, env)

    def gather(self, cell: Array, goal_cell: Array) -> Transition:
        """The transitions that start at `cell`, the first of them with what was achieved at `goal_cell` as goal."""
        walk = self.ring.walk(cell)
        count = len(goal_cell)
        if count:
            goal = self.ring.successors(goal_cell % self.ring.total)[:, self.goal.achieved]
            self._relabel(walk, count, goal)
        return self.ring.transition(walk)

    def _relabel(self, walk: Walk, count: int, goal: Array) -> None:
        """The first `count` walks as they would have been, had `goal` [count, g] been meant from the first step."""
        rule = self.rule
        reward, terminated = walk.reward[:, :count], walk.terminated[:, :count]  # of the walk itself
        achieved = walk.next_obs[:, :count, self.goal.achieved]
        desired = self.goal.desired
        before = np.concatenate([walk.obs[None, :count, desired], walk.next_obs[:-1, :count, desired]])  # of each step
        cost = reward - rule.reward(achieved, before) if rule.cost else np.float32(0)
        died = terminated & ~rule.terminated(achieved, before) if terminated.any() else False
        reward[:] = rule.reward(achieved, goal) + cost
        terminated[:] = rule.terminated(achieved, goal) | died
        walk.obs[:count, self.goal.desired] = goal
        walk.next_obs[:, :count, self.goal.desired] = goal
