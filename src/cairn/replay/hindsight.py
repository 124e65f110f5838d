"""Hindsight experience replay (Andrychowicz et al. 2017): goals are replaced by goals that were achieved.

A share k/(k+1) of every batch gets a new goal, drawn at sampling time from the achieved ones:

    future   at this step or later in the same episode        final    at the last step of the same episode
    episode  anywhere in the same episode                     random   anywhere in the buffer

Rewards and terminations are then recomputed by the task's rule. Nothing is copied when a step is stored, nothing is
searched and no environment is stepped: the cost of a batch does not depend on the size of the buffer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Generator, Tensor

from cairn.core.goals import Distance, GoalRule, Within
from cairn.core.types import Array, GoalSpec, Transition
from cairn.replay.episodes import Episodes
from cairn.replay.mirror import Mirror
from cairn.replay.protocol import EvenDraw
from cairn.replay.ring import Ring, Walk

Strategy = Literal["future", "final", "episode", "random"]


class Hindsight(EvenDraw):
    """A replay that relabels goals.

    Args:
        ring: Where steps are stored.
        goal: Layout of the observations.
        rule: Reward and termination for any achieved and desired goals.
        strategy: Where new goals come from: `future`, `final`, `episode` or `random`.
        k: New goals per original one in a batch.
        folder: Where to keep memory-mapped files; None keeps everything in memory.
    """

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
        """The random generator of all samples."""
        return self.ring.generator

    def __len__(self) -> int:
        return len(self.ring)

    def sample(self, batch: int) -> Transition:
        """A batch of n-step transitions, the first k/(k+1) of them with new goals."""
        cell = self.ring.draw(batch)
        relabelled = round(batch * self.k / (self.k + 1))
        return self.gather(cell, self.draw_goals(cell[:relabelled]))

    def draw_goals(self, cell: Array) -> Array:
        """For each cell [B], a cell whose achieved goal becomes the new desired goal."""
        if self.strategy == "random":
            return self.ring.draw(len(cell)) if len(cell) else cell
        row, env = np.divmod(cell, self.ring.num_envs)
        start, end = self.episodes.span(cell)
        if self.strategy == "final":
            return (end.astype(np.int64) - 1) * self.ring.num_envs + env
        low = row if self.strategy == "future" else np.maximum(start, self.ring.first)
        return self.episodes.between(low, end, env)

    def gather(self, cell: Array, goal_cell: Array) -> Transition:
        """The transitions that start at `cell` [B], the first of them with the goals achieved at `goal_cell`."""
        ring, count = self.ring, len(goal_cell)
        walk = ring.walk(cell)
        if count and ring.mirror is None:
            self._relabel(walk, count, self._goals(goal_cell))
        elif count and ring.mirror is not None:
            self._relabel_there(ring.mirror, walk, cell[:count], goal_cell)
        return ring.transition(walk)

    def _goals(self, goal_cell: Array) -> Array:
        """The goals achieved at cells [B]."""
        return self.goal.read(self.ring.successors(goal_cell % self.ring.total), self.goal.achieved)

    def _relabel_there(self, mirror: Mirror, walk: Walk, cell: Array, goal_cell: Array) -> None:
        """`_relabel` of the ring's copy. A rule that takes arrays only is asked here, and its answers are sent."""
        count = len(cell)
        if isinstance(self.rule, Within | Distance) and self.goal.itemsize == 1:
            rows = mirror.successors(mirror.sent(goal_cell) % self.ring.total)
            self._relabel(walk, count, rows[..., self.goal.achieved])
            return
        here, goal = self.ring.walk_here(cell), self._goals(goal_cell)
        self._relabel(here, count, goal)
        walk.reward[:, :count] = mirror.sent(here.reward)
        walk.terminated[:, :count] = mirror.sent(here.terminated)
        new = mirror.sent(here.obs[:, self.goal.desired])
        walk.obs[:count, self.goal.desired] = new
        walk.next_obs[:, :count, self.goal.desired] = new

    def _relabel(self, walk: Walk, count: int, goal: Any) -> None:
        """Rewrite the first `count` walks in place, as if `goal` [count, g] had been desired throughout."""
        rule, there = self.rule, isinstance(goal, Tensor)
        reward, terminated = walk.reward[:, :count], walk.terminated[:, :count]  # views: writing changes the walk
        achieved = self.goal.read(walk.next_obs[:, :count], self.goal.achieved)
        join: Any = torch.cat if there else np.concatenate
        seen = join([walk.obs[None, :count], walk.next_obs[:-1, :count]])  # per step
        before = self.goal.read(seen, self.goal.desired)
        cost = reward - rule.reward(achieved, before) if rule.cost else np.float32(0)
        died: Any = False
        if there or terminated.any():  # to ask a GPU would be to wait for it
            died = terminated & ~rule.terminated(achieved, before)
        reward[:] = rule.reward(achieved, goal) + cost
        terminated[:] = rule.terminated(achieved, goal) | died
        self.goal.write(walk.obs[:count], goal)
        self.goal.write(walk.next_obs[:, :count], goal)
