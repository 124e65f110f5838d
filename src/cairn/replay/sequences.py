"""Replay of sequences for agents with memory (Kapturowski et al. 2019): stored states, warmed up by burn-in.

A sequence is drawn by the index of its first step, and every stored step is equally likely to be learned from. It goes
on in its environment over the ends of episodes, where the state is reset, so that short episodes need no padding. In
the paper, sequences end with their episodes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator

from cairn.core.agent import Metrics
from cairn.core.returns import n_step
from cairn.core.types import Array, Sequences, Step
from cairn.replay.checksums import Sums
from cairn.replay.frames import Frames
from cairn.replay.ring import Ring
from cairn.replay.storage import Storage


class SequenceReplay:
    """Stores steps with the agent's state before each, and samples sequences.

    A sequence has `burn_in` steps, which bring the stored state, made by older weights, up to date; `length` steps to
    learn from; and the n - 1 steps that their n-step returns look at.

    Args:
        steps: Where steps are stored.
        length: Steps L of a sequence to learn from.
        burn_in: Steps before them.
        width: Numbers of a state.
        folder: Where to keep memory-mapped files; None keeps everything in memory.
    """

    batches_at_once = 1

    def __init__(
        self, steps: Ring | Frames, *, length: int, burn_in: int, width: int, folder: Path | None = None
    ) -> None:
        self.steps, self.ring = steps, steps.ring
        self.length, self.burn_in = length, burn_in
        shape = (self.ring.size, self.ring.num_envs, width)
        self.storage = Storage({"state": (shape, "float32")}, folder)
        self.state = self.storage.arrays["state"]
        self.sums = Sums("state", self.state)

    @property
    def generator(self) -> Generator:
        """The random generator of all samples."""
        return self.ring.generator

    def __len__(self) -> int:
        return len(self.steps)

    def add(self, obs: Array, action: Array, step: Step, recorded: Array) -> None:
        """Store one step of every environment, and the states `recorded` [N, width] before it."""
        self.state[self.ring.rows % self.ring.size] = recorded
        self.steps.add(obs, action, step)

    def sample(self, batch: int) -> Sequences:
        """As many sequences as hold `batch` steps to learn from, at least one."""
        return self.gather(self.draw(max(batch // self.length, 1)))

    def draw(self, count: int) -> Array:
        """The cells [B] of the first steps to learn from: row · N + env, rows numbered from the beginning of the run.

        A sequence may begin before the first step of the run and end after the newest: steps that are not there have no
        weight. Otherwise those at both ends would be drawn less often than the others.
        """
        first, rows, envs = self.steps.first, self.ring.rows, self.ring.num_envs
        low = min(first + self.burn_in, rows - 1) if first else 1 - self.length
        cell: Array = torch.randint(low * envs, rows * envs, (count,), generator=self.generator).numpy()
        return cell

    def gather(self, cell: Array) -> Sequences:
        """The sequences that learn from these cells [B] on."""
        ring, steps = self.ring, self.length + self.ring.n - 1
        row, env = np.divmod(cell, ring.num_envs)
        rows = row + np.arange(-self.burn_in, steps)[:, None]
        there = (rows >= self.steps.first) & (rows < ring.rows)
        at = rows.clip(self.steps.first, ring.rows - 1) * ring.num_envs + env
        valid, reward, terminated, truncated = (
            ring.cells[name].take(at, mode="wrap") for name in ("valid", "reward", "terminated", "truncated")
        )
        begins = rows == 0
        begins[1:] |= (terminated | truncated | ~valid)[:-1] & there[:-1]
        learned = slice(self.burn_in, self.burn_in + self.length)
        stops = terminated | truncated | (rows >= ring.rows - 1)
        tensor = torch.from_numpy
        ahead = (self._ahead(x) for x in (reward, stops, terminated))
        total, discount, last = n_step(*map(tensor, ahead), gamma=ring.gamma)
        after = last.numpy() * len(cell) + np.arange(self.length * len(cell))
        weight = (valid & there)[learned].astype(np.float32)
        weight *= weight.size / max(float(weight.sum()), 1.0)
        return Sequences(
            obs=torch.as_tensor(self.steps.observations(at.ravel())).unflatten(0, at.shape),
            action=tensor(ring.cells["action"].take(at[learned].ravel(), 0, mode="wrap")),
            reward=total,
            next_obs=torch.as_tensor(self.steps.successors(at[self.burn_in :].ravel()[after])),
            discount=discount,
            begins=tensor(begins),
            state=tensor(self.state[at[0] // ring.num_envs % ring.size, env]),
            after=tensor(after),
            weight=tensor(weight.ravel()),
        )

    def _ahead(self, x: Array) -> Array:
        """[n, L · B] of x [T, B]: for each step to learn from, x there and at the n - 1 steps behind it."""
        seen = [x[self.burn_in + i :][: self.length].ravel() for i in range(self.ring.n)]
        return np.stack(seen)

    def after_update(self, metrics: Metrics) -> None:
        """Do nothing: sampling does not depend on what was learned."""

    def cut(self) -> None:
        """End all open episodes with the newest row."""
        self.steps.cut()

    def save(self) -> dict[str, Any]:
        """The state for a checkpoint, once mapped files are on disk."""
        self.storage.sync()
        kept = self.steps.save()
        if self.storage.folder is not None:
            kept["sums"]["state"] = self.sums.take(self.ring.first, self.ring.rows)
        return kept

    def load(self, saved: dict[str, Any]) -> None:
        """Continue from a checkpoint. Raises CairnError where the files do not match it."""
        self.steps.load(saved)
        self.storage.must_be_found()
        self.sums.check(self.ring.first, self.ring.rows, saved.get("sums", {}).get("state"))
