"""Hindsight experience replay (Andrychowicz et al. 2017): what was reached is read as what was meant.

A share k/(k+1) of every batch gets a new goal, drawn at sampling time from what was achieved:

    future   at this step or later in the same episode        final    at the last step of the same episode
    episode  anywhere in the same episode                     random   anywhere in the buffer

and its rewards and terminations are computed anew by the task's rule. Nothing is copied when a step is stored, no
buffer is scanned and no environment is asked: a batch costs what its size costs, however large the ring.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Generator, Tensor

from cairn.core.errors import CairnError
from cairn.core.goals import GoalRule
from cairn.core.types import Array, GoalSpec, Step, Transition
from cairn.replay.ring import Ring
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
        self.start, self.end = (self.storage.tensors[name].numpy() for name in ("episode_start", "episode_end"))
        self.start_of, self.end_of = (self.storage.tensors[name].view(-1) for name in ("episode_start", "episode_end"))
        self.open = np.zeros(ring.num_envs, np.int32)  # the row each environment's episode began at
        self.open_of = torch.from_numpy(self.open)

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

    def draw_goals(self, cell: Tensor) -> Tensor:
        """For the transition of each cell, the cell whose outcome becomes its goal."""
        if self.strategy == "random":
            return self.ring.draw(len(cell)) if len(cell) else cell
        row, env = cell // self.ring.num_envs, cell % self.ring.num_envs
        at = cell % len(self.start_of)
        start = self.start_of[at]
        end = torch.where(start == self.open_of[env], self.ring.rows, self.end_of[at])
        if self.strategy == "final":
            chosen = end - 1
        else:
            low = row if self.strategy == "future" else start.clamp(min=self.ring.first)
            coin = torch.rand(len(cell), generator=self.generator, dtype=torch.float64)
            chosen = low + (coin * (end - low)).long()
        return chosen * self.ring.num_envs + env

    def gather(self, cell: Tensor, goal_cell: Tensor) -> Transition:
        """The transitions that start at `cell`, the first of them with what was achieved at `goal_cell` as goal."""
        walk = self.ring.walk(cell)
        count = len(goal_cell)
        if count == 0:
            return self.ring.assemble(walk)
        cells, achieved, desired = self.ring.cells, self.goal.achieved, self.goal.desired
        goal = cells["next_obs"].index_select(0, goal_cell % len(self.start_of))[:, achieved]
        reward, terminated = self._relabelled(walk.cells[:, :count], goal)
        batch = self.ring.assemble(
            walk,
            torch.cat([reward, cells["reward"][walk.cells[:, count:]]], 1),
            torch.cat([terminated, cells["terminated"][walk.cells[:, count:]]], 1),
        )
        batch.obs[:count, desired] = goal
        batch.next_obs[:count, desired] = goal
        return batch

    def _relabelled(self, walk: Tensor, goal: Tensor) -> tuple[Tensor, Tensor]:
        """Reward and termination [n, B] of the cells [n, B], had the goal [B, g] been meant from the first."""
        cells, rule = self.ring.cells, self.rule
        achieved = cells["next_obs"][walk][..., self.goal.achieved].numpy()
        meant = np.broadcast_to(goal.numpy(), achieved.shape)
        reward = np.asarray(rule.reward(achieved, meant), np.float32)
        terminated = np.asarray(rule.terminated(achieved, meant), bool)
        ended = cells["terminated"][walk].numpy()
        if rule.cost or ended.any():
            before = cells["obs"][walk][..., self.goal.desired].numpy()
            terminated = terminated | (ended & ~rule.terminated(achieved, before))
            if rule.cost:
                paid = cells["reward"][walk].numpy()
                reward = reward + (paid - np.asarray(rule.reward(achieved, before), np.float32))
        return torch.from_numpy(reward), torch.from_numpy(terminated)

    def save(self) -> dict[str, int]:
        """Every episode was cut before, so the open ones need no memory."""
        self.storage.sync()
        return self.ring.save()

    def load(self, saved: dict[str, int]) -> None:
        self.ring.load(saved)
        if not self.storage.found:
            raise CairnError("the replay's episode files are missing or cut short.")
        self.open[:] = self.ring.rows
