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
import torch
from torch import Generator

from cairn.core.goals import GoalRule
from cairn.core.types import Array, GoalSpec, Step, Transition
from cairn.replay.ring import Ring, Walk
from cairn.replay.storage import Storage

Strategy = Literal["future", "final", "episode", "random"]


class Hindsight:
    """A ring that knows its episodes: the row each cell's episode began at, and the row after its last.

    An episode's end is written into its cells when it ends; until then it is the newest row, so that episodes still
    open are sampled like any other. Rows count from the beginning of the run and so survive the ring's turning.
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
        lead = (ring.size, ring.num_envs)
        self.storage = Storage({"episode_start": (lead, "int32"), "episode_end": (lead, "int32")}, folder)
        self.start, self.end = self.storage.arrays["episode_start"], self.storage.arrays["episode_end"]
        self.start_of, self.end_of = self.start.reshape(-1), self.end.reshape(-1)  # the same memory, by cell
        self.open = np.zeros(ring.num_envs, np.int32)  # the row each environment's episode began at

    @property
    def generator(self) -> Generator:
        return self.ring.generator

    def __len__(self) -> int:
        return len(self.ring)

    def add(self, obs: Array, action: Array, step: Step) -> None:
        row = self.ring.rows
        self.start[row % self.ring.size] = self.open
        self.ring.add(obs, action, step)
        ended = (step.terminated | step.truncated) & step.valid
        for env in np.flatnonzero(ended).tolist():
            self._close(env, row + 1)
        if not step.valid.all():
            for env in np.flatnonzero(~step.valid).tolist():  # a row that holds nothing: what was open ended before it
                self._close(env, row)
                self.open[env] = row + 1

    def _close(self, env: int, end: int) -> None:
        """The episode of `env` ends before row `end`."""
        rows = np.arange(max(self.open[env], end - self.ring.size), end) % self.ring.size
        self.end[rows, env] = end
        self.open[env] = end

    def cut(self) -> None:
        self.ring.cut()
        for env in range(self.ring.num_envs):
            self._close(env, self.ring.rows)

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
        at = cell % self.ring.total
        start = self.start_of.take(at, mode="wrap")
        end = np.where(start == self.open.take(env, mode="wrap"), self.ring.rows, self.end_of.take(at, mode="wrap"))
        if self.strategy == "final":
            chosen = end.astype(np.int64) - 1
        else:
            low = row if self.strategy == "future" else np.maximum(start, self.ring.first)
            coin = torch.rand(len(cell), generator=self.generator, dtype=torch.float64).numpy()
            chosen = low + (coin * (end - low)).astype(np.int64)
        return chosen * self.ring.num_envs + env

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

    def save(self) -> dict[str, int]:
        """Every episode was cut before, so the open ones need no memory."""
        self.storage.sync()
        return self.ring.save()

    def load(self, saved: dict[str, int]) -> None:
        self.ring.load(saved)
        self.storage.must_be_found()
        self.open[:] = self.ring.rows
