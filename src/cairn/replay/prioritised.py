"""Prioritised replay (Schaul et al. 2016), over a ring or over frames: large errors are sampled more often."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from cairn.core.agent import Metrics
from cairn.core.errors import CairnError
from cairn.core.types import Array, Step, WeightedTransition
from cairn.replay.frames import Frames
from cairn.replay.ring import Ring
from cairn.replay.storage import Storage
from cairn.replay.sum_tree import SumTree

LEAST = 1e-6  # ε: every transition can be drawn again
COPIES = 3  # copies of the priorities on disk: two checkpoints exist while a third is written


class Prioritised:
    """P(i) = pᵢ / Σp with pᵢ = (|δᵢ| + ε)^α; a new transition has the highest priority so far.

    A batch is stratified: one transition from each of B equal parts of the total priority, as in the paper. Its errors
    arrive by `update_priorities` and are read when the next batch is drawn, so that no GPU is waited for in between.

    Priorities of stored transitions change, unlike all else in a replay, so every checkpoint has its own copy.

    Args:
        replay: Where steps are stored.
        alpha: The exponent α; 0 is uniform.
        folder: Where to keep memory-mapped files; None keeps everything in memory.
    """

    def __init__(self, replay: Ring | Frames, *, alpha: float, folder: Path | None = None) -> None:
        self.replay, self.alpha = replay, alpha
        self.ring = replay.ring
        self.tree = SumTree(self.ring.total)
        self.peak = 1.0
        self.first = 0  # the oldest row with a priority
        self.drawn: Array = np.zeros(0, np.int64)  # cells of the last batch
        self.errors: Tensor | None = None  # its errors, until they are read
        self.saves = 0
        self.storage = Storage({"priorities": ((COPIES, 1 + self.ring.total), "float64")}, folder)

    @property
    def generator(self) -> Generator:
        """The random generator of all samples."""
        return self.ring.generator

    def __len__(self) -> int:
        return len(self.replay)

    def add(self, obs: Array, action: Array, step: Step, recorded: Array | None = None) -> None:
        self.replay.add(obs, action, step)
        self._set_row(self.ring.rows - 1, self.peak * step.valid)
        while self.first < self.replay.first:  # rows that are no longer stored
            self._set_row(self.first, 0.0)
            self.first += 1

    def _set_row(self, row: int, priority: Array | float) -> None:
        count = self.ring.num_envs
        self.tree.set((row * count + np.arange(count)) % self.ring.total, priority)

    def sample(self, batch: int) -> WeightedTransition:
        """Transitions drawn by priority, with their importance weights 1/(N P(i))."""
        self._read_errors()
        total = self.tree.total
        if total == 0.0:
            raise CairnError("the replay buffer holds no valid transition: its environments keep failing.")
        part = torch.rand(batch, generator=self.generator, dtype=torch.float64).numpy() + np.arange(batch)
        at = self.tree.find(part / batch * total)
        newest = self.ring.rows * self.ring.num_envs - 1
        self.drawn = newest - (newest - at) % self.ring.total  # numbered from the beginning of the run
        weight = total / (len(self) * self.tree.leaves[at])
        return WeightedTransition(
            **self.replay.gather(self.drawn).__dict__, weight=torch.from_numpy(weight.astype(np.float32))
        )

    @property
    def batches_at_once(self) -> int:
        return 1

    def after_update(self, metrics: Metrics) -> None:
        errors = metrics["train/td_error"]
        assert isinstance(errors, Tensor)
        self.update_priorities(errors)

    def update_priorities(self, errors: Tensor) -> None:
        """Set the priorities of the last batch from its errors |δ| [B]."""
        self.errors = errors

    def _read_errors(self) -> None:
        if self.errors is None:
            return
        priority = (self.errors.cpu().numpy().astype(np.float64) + LEAST) ** self.alpha
        self.errors = None
        there = self.drawn >= self.first * self.ring.num_envs  # some may be overwritten by now
        self.tree.set(self.drawn[there] % self.ring.total, priority[there])
        self.peak = max(self.peak, float(priority.max()))

    def cut(self) -> None:
        self.replay.cut()

    def save(self) -> dict[str, Any]:
        self._read_errors()
        copy = self.storage.arrays["priorities"][self.saves % COPIES]
        copy[0], copy[1:] = self.peak, self.tree.leaves
        self.storage.sync()
        self.saves += 1
        return {**self.replay.save(), "saves": self.saves, "priorities": zlib.crc32(copy.tobytes())}

    def load(self, saved: dict[str, Any]) -> None:
        self.replay.load(saved)
        self.storage.must_be_found()
        self.saves = saved["saves"]
        copy = self.storage.arrays["priorities"][(self.saves - 1) % COPIES]
        if zlib.crc32(copy.tobytes()) != saved["priorities"]:
            raise CairnError("the priorities of this checkpoint are no longer on disk.")
        self.peak, self.errors = float(copy[0]), None
        self.tree.set(np.arange(self.ring.total), copy[1:])
        self.first = self.replay.first
