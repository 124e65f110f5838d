"""The episode of each stored step, so that later states of the same episode are found without a search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from cairn.core.types import Array, Step
from cairn.replay.checksums import Sums
from cairn.replay.ring import Ring
from cairn.replay.storage import Storage


class Episodes:
    """For each cell of a ring, the first row of its episode and the row after its last.

    The end is written into all cells of an episode when it ends; until then it is the newest row, so open episodes are
    sampled like others. Rows are numbered from the beginning of the run, so they stay valid when the ring wraps around.
    """

    def __init__(self, ring: Ring, folder: Path | None = None) -> None:
        self.ring = ring
        lead = (ring.size, ring.num_envs)
        self.storage = Storage({"episode_start": (lead, "int32"), "episode_end": (lead, "int32")}, folder)
        self.start, self.end = self.storage.arrays["episode_start"], self.storage.arrays["episode_end"]
        self.start_of, self.end_of = self.start.reshape(-1), self.end.reshape(-1)  # views, indexed by cell
        self.sums = [Sums(name, array) for name, array in self.storage.arrays.items()]
        self.open = np.zeros(ring.num_envs, np.int32)  # the first row of each environment's open episode

    def add(self, obs: Array, action: Array, step: Step, recorded: Array | None = None) -> None:
        """Store a step in the ring and record which episodes end with it."""
        row = self.ring.rows
        self.start[row % self.ring.size] = self.open
        self.ring.add(obs, action, step)
        ended = (step.terminated | step.truncated) & step.valid
        for env in np.flatnonzero(ended).tolist():
            self._close(env, row + 1)
        if not step.valid.all():
            for env in np.flatnonzero(~step.valid).tolist():  # a lost step: the open episode ended before it
                self._close(env, row)
                self.open[env] = row + 1

    def _close(self, env: int, end: int) -> None:
        """Record that the episode of `env` ends before row `end`."""
        rows = np.arange(max(self.open[env], end - self.ring.size), end) % self.ring.size
        self.end[rows, env] = end
        self.open[env] = end

    def cut(self) -> None:
        """End all open episodes with the newest row."""
        self.ring.cut()
        for env in range(self.ring.num_envs):
            self._close(env, self.ring.rows)

    def span(self, cell: Array) -> tuple[Array, Array]:
        """The first row of each cell's episode, and the row after its last."""
        at = cell % self.ring.total
        start = self.start_of.take(at, mode="wrap")
        still_open = start == self.open.take(cell % self.ring.num_envs, mode="wrap")
        return start, np.where(still_open, self.ring.rows, self.end_of.take(at, mode="wrap"))

    def between(self, low: Array, high: Array, env: Array) -> Array:
        """A random cell of each environment, with a row from `low` to `high` - 1."""
        coin = torch.rand(len(low), generator=self.ring.generator, dtype=torch.float64).numpy()
        out: Array = (low + (coin * (high - low)).astype(np.int64)) * self.ring.num_envs + env
        return out

    def save(self) -> dict[str, Any]:
        """The ring's state and checksums. `cut` must be called first: open episodes are not saved."""
        self.storage.sync()
        kept = self.ring.save()
        if self.storage.folder is not None:
            kept["sums"] |= {sums.name: sums.take(self.ring.first, self.ring.rows) for sums in self.sums}
        return kept

    def load(self, saved: dict[str, Any]) -> None:
        """Continue from a checkpoint. Raises CairnError where the files do not match it."""
        self.ring.load(saved)
        self.storage.must_be_found()
        for sums in self.sums:
            sums.check(self.ring.first, self.ring.rows, saved.get("sums", {}).get(sums.name))
        self.open[:] = self.ring.rows
