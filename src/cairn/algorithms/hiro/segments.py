"""The replay of a hierarchy (Nachum et al. 2018): steps, and windows of at most c steps under one subgoal.

The ring stores every step once; a second array stores the subgoal of each step. A window is the index of its first step
and its length. The low level samples steps and the high level windows, from the same memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator

from cairn.core.errors import CairnError
from cairn.core.goals import GoalRule
from cairn.core.types import Array, GoalSpec, Step, SubgoalBatch, Window
from cairn.replay.checksums import Sums
from cairn.replay.episodes import Episodes
from cairn.replay.mirror import Mirror, can_mirror
from cairn.replay.ring import Ring
from cairn.replay.storage import Storage


class Segments:
    """Stores steps with their subgoals: `asked` samples steps for the low level, `windows` for the high level.

    A window closes after c steps or when its episode ends, separately for each environment.

    Args:
        ring: The replay of steps.
        positions: The slice of the flat observation in which subgoals are points.
        c: Steps per window at most.
        steps: Newest transitions that the low level samples from.
        windows: Newest windows that the high level samples from.
        slack: Further windows to keep, so that a checkpoint still finds those of its time.
        goal: Layout of the observation, for a task with goals.
        rule: Reward rule, to relabel the goals of windows.
        paid: Whether the rule pays every window, in place of the task's own rewards.
        folder: Where to keep memory-mapped files; None keeps everything in memory.
        device: Where batches are wanted. On a GPU the low level's are read from a copy there.
    """

    def __init__(
        self,
        ring: Ring,
        positions: slice,
        *,
        c: int,
        steps: int,
        windows: int,
        slack: int = 0,
        goal: GoalSpec | None = None,
        rule: GoalRule | None = None,
        paid: bool = False,
        folder: Path | None = None,
        device: str = "cpu",
    ) -> None:
        self.ring, self.positions, self.c = ring, positions, c
        self.newest = max(steps // ring.num_envs, 1)  # rows that the low level samples from
        self.most, self.size = windows, windows + slack  # windows sampled from, and stored
        self.goal, self.rule, self.paid = goal, rule, paid
        self.episodes = Episodes(ring, folder)
        width = positions.stop - positions.start
        self.storage = Storage(
            {
                "target": ((ring.size, ring.num_envs, width), "float32"),
                "window_cell": ((self.size,), "int64"),  # row · N + env of its first step
                "window_length": ((self.size,), "int32"),
            },
            folder,
        )
        self.sums = [Sums(name, array) for name, array in self.storage.arrays.items()]
        self.target = self.storage.arrays["target"]
        self.cell, self.length = self.storage.arrays["window_cell"], self.storage.arrays["window_length"]
        self.target_of = self.target.reshape(ring.total, width)  # a view, indexed by cell
        beside = {"target": self.target}
        self.mirror = Mirror(ring, device, beside) if device != "cpu" and can_mirror(ring) else None
        self.count = self.oldest = 0  # windows closed so far; the oldest that is kept
        self.open = np.zeros(ring.num_envs, np.int64)  # steps of each environment's open window

    @property
    def generator(self) -> Generator:
        """The random generator of all samples."""
        return self.ring.generator

    def __len__(self) -> int:
        return len(self.ring)

    def add(self, obs: Array, action: Array, step: Step, target: Array) -> Array:
        """Store one step of every environment and its subgoals [N, d]; returns where a window closed, [N] bool."""
        self.target[self.ring.rows % self.ring.size] = target
        self.episodes.add(obs, action, step)
        self.open = np.where(step.valid, self.open + 1, 0)  # a lost step discards the open window
        closed: Array = step.valid & ((self.open == self.c) | step.terminated | step.truncated)
        self._close(np.flatnonzero(closed))
        return closed

    def _close(self, envs: Array) -> None:
        """Close the open windows of these environments with the newest row."""
        at = (self.count + np.arange(len(envs))) % self.size
        self.cell[at] = (self.ring.rows - self.open[envs]) * self.ring.num_envs + envs
        self.length[at] = self.open[envs]
        self.open[envs] = 0
        self.count += len(envs)
        self.oldest = max(self.oldest, self.count - self.most)
        # Windows are stored in the order they closed. All windows after one that begins at least c rows after the first
        # row of the ring begin inside the ring too.
        while self.oldest < self.count and self.cell[self.oldest % self.size] < self._first_cell():
            self.oldest += 1

    def _first_cell(self) -> int:
        return (self.ring.first + self.c) * self.ring.num_envs if self.ring.first > 0 else 0

    def cut(self) -> None:
        """End all open episodes and windows with the newest row."""
        self.episodes.cut()
        self._close(np.flatnonzero(self.open))

    # -- for the low level

    def asked(self, batch: int, hindsight: float = 0.0, ahead: int | None = None) -> SubgoalBatch:
        """Sample steps for the low level.

        Args:
            batch: Number of steps.
            hindsight: Share of them whose target becomes a point that was reached later in the episode.
            ahead: How many steps later at most; None: c.

        Returns:
            A batch [B, ...].
        """
        cell = self.ring.draw(batch, self.newest)
        at = cell % self.ring.total
        count = round(batch * hindsight)
        later = cell[:0]
        if count:
            row, env = np.divmod(cell[:count], self.ring.num_envs)
            end = np.minimum(self.episodes.span(cell[:count])[1], row + (ahead or self.c))
            later = self.episodes.between(row, end, env) % self.ring.total
        if self.mirror is not None:
            return self._asked_there(self.mirror, at, later)
        target = self.target_of.take(at, 0)
        if count:
            target[:count] = self.ring.successors(later)[:, self.positions]
        cells = self.ring.cells
        columns = (
            cells["obs"].take(at, 0),
            cells["action"].take(at, 0),
            self.ring.successors(at),
            target,
            cells["terminated"].take(at),
        )
        return SubgoalBatch(*(torch.from_numpy(column) for column in columns))

    def _asked_there(self, mirror: Mirror, at: Array, later: Array) -> SubgoalBatch:
        """The steps in these cells, the first of them with the points reached in `later` as targets, of the copy."""
        mirror.send()
        cells, here = mirror.cells, mirror.sent(at)
        target = cells["target"][here]
        if len(later):
            target[: len(later)] = mirror.successors(mirror.sent(later))[:, self.positions]
        columns = cells["obs"][here], cells["action"][here], mirror.successors(here), target, cells["terminated"][here]
        return SubgoalBatch(*columns)

    # -- for the high level

    @property
    def stored(self) -> int:
        """Windows that can be sampled."""
        return self.count - self.oldest

    def draw(self, batch: int) -> Array:
        """Random windows [B], numbered from the beginning of the run."""
        window: Array = torch.randint(self.oldest, self.count, (batch,), generator=self.generator).numpy()
        return window

    def windows(self, batch: int, hindsight: float = 0.0) -> Window:
        """Sample windows [B, ...]; a share `hindsight` gets a goal that was achieved later in the episode."""
        return self.gather(self.draw(batch), round(batch * hindsight))

    def gather(self, window: Array, relabelled: int = 0) -> Window:
        """The windows with these numbers [B], the first `relabelled` with hindsight goals."""
        first, length = self.cell[window % self.size], self.length[window % self.size].astype(np.int64)
        n, cells = self.ring.num_envs, self.ring.cells
        step = np.minimum(np.arange(self.c), length[:, None] - 1)  # repeat the last step past the end
        cell = first[:, None] + step * n
        at = cell % self.ring.total
        inside = np.arange(self.c) < length[:, None]
        obs, reward = cells["obs"].take(at, 0), cells["reward"].take(at)
        next_obs = self.ring.successors(at[:, -1])
        terminated = cells["terminated"].take(at[:, -1])
        target = self.target_of.take(at[:, 0], 0)
        if relabelled and self.goal is not None and self.rule is not None:
            k = relabelled
            env = first[:k] % n
            later = self.episodes.between(first[:k] // n, self.episodes.span(first[:k])[1], env)
            goal = self.ring.successors(later % self.ring.total)[:, self.goal.achieved]
            self._relabel(self.rule, self.goal, goal, at[:k], obs, reward, inside, terminated)
            next_obs[:k, self.goal.desired] = goal
        if self.paid and self.goal is not None and self.rule is not None:
            reached = self.ring.successors(at)[..., self.goal.achieved]
            reward = self.rule.reward(reached, obs[..., self.goal.desired])
        total = np.where(inside, reward, 0).sum(1, dtype=np.float32)
        columns = obs, cells["action"].take(at, 0), inside, next_obs, target, total, terminated
        return Window(*(torch.from_numpy(column) for column in columns))

    def _relabel(
        self,
        rule: GoalRule,
        layout: GoalSpec,
        goal: Array,
        at: Array,
        obs: Array,
        reward: Array,
        inside: Array,
        terminated: Array,
    ) -> None:
        """Rewrite the first windows in place, as if `goal` [k, g] had been desired; reaching it may end one."""
        k = len(goal)
        achieved = self.ring.successors(at)[..., layout.achieved]
        before, wanted = obs[:k, :, layout.desired], np.broadcast_to(goal[:, None], achieved.shape)
        cost = reward[:k] - rule.reward(achieved, before) if rule.cost else np.float32(0)
        died = terminated[:k] & ~rule.terminated(achieved[:, -1], before[:, -1])
        ends = rule.terminated(achieved, wanted)
        reward[:k] = rule.reward(achieved, wanted) + cost
        inside[:k, 1:] &= ~np.logical_or.accumulate(ends, 1)[:, :-1]  # steps after an end do not count
        terminated[:k] = ends.any(1) | died
        obs[:k, :, layout.desired] = wanted

    # -- for a checkpoint

    def save(self) -> dict[str, Any]:
        """Counters and checksums for a checkpoint. `cut` must be called first: open windows are not saved."""
        self.storage.sync()
        kept = self.episodes.save()
        if self.storage.folder is not None:
            kept["sums"] |= {sums.name: sums.take(*self._span(sums)) for sums in self.sums}
        return {**kept, "windows": self.count, "oldest": self.oldest, "window_size": self.size}

    def _span(self, sums: Sums) -> tuple[int, int]:
        """The rows or windows of an array that a checkpoint needs."""
        return (self.ring.first, self.ring.rows) if sums.name == "target" else (self.oldest, self.count)

    def load(self, saved: dict[str, Any]) -> None:
        """Continue from a checkpoint. Raises CairnError where the files do not match it."""
        if saved["window_size"] != self.size:
            raise CairnError(f"the replay files hold {saved['window_size']} windows where this run needs {self.size}.")
        self.episodes.load(saved)
        self.storage.must_be_found()
        self.count, self.oldest = saved["windows"], saved["oldest"]
        for sums in self.sums:
            sums.check(*self._span(sums), saved.get("sums", {}).get(sums.name))
        self.open[:] = 0
        if self.mirror is not None:
            self.mirror.forget()
