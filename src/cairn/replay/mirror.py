"""A copy of a ring on the device that learns, from which batches are read without crossing from the CPU.

The arrays of the ring stay what checkpoints hold and what decides which cells are drawn, so a run draws the same
batches with a copy as without one. Only the numbers of the cells cross for each batch, and each new row once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from cairn.core.types import Array

if TYPE_CHECKING:
    from cairn.replay.ring import Ring

KINDS = ("float32", "float64", "uint8", "int8", "int16", "int32", "int64", "bool")  # what torch can gather
FINALS = 1_024  # last observations of episodes for which there is room at first


def can_mirror(ring: Ring) -> bool:
    """Whether torch has the types of a ring's arrays."""
    return all(str(array.dtype) in KINDS for array in ring.arrays.values())


class Mirror:
    """The copy.

    Args:
        ring: The ring.
        device: The device of the copy.
        beside: Further arrays [size, N, ...] with rows as the ring has them.
    """

    def __init__(self, ring: Ring, device: str, beside: Mapping[str, Array] | None = None) -> None:
        self.ring, self.device = ring, torch.device(device)
        self.here = {**ring.arrays, **(beside or {})}
        self.there = {name: self._room(array, len(array)) for name, array in self.here.items() if name != "final"}
        self.final = self._room(ring.final, min(FINALS, ring.total))  # grows: its unused part would take memory here
        self.cells = {name: there.flatten(0, 1) for name, there in self.there.items()}
        self.rows = self.finals = 0  # sent so far

    def _room(self, like: Array, rows: int) -> Tensor:
        return torch.zeros((rows, *like.shape[1:]), dtype=getattr(torch, str(like.dtype)), device=self.device)

    def forget(self) -> None:
        """Send all rows again: the ring was loaded."""
        self.rows = self.finals = 0

    def send(self) -> None:
        """Send what was stored since the last time. The newest row of that time may have been ended since."""
        ring, first = self.ring, max(self.rows - 1, 0)
        for name, there in self.there.items():
            _copy(self.here[name], there, first, ring.rows + 1)  # the row after the newest holds its successor
        needed = min(ring.finals, ring.total)
        if needed > len(self.final):
            grown = self._room(ring.final, min(2 * needed, ring.total))
            grown[: len(self.final)] = self.final
            self.final = grown
        _copy(ring.final, self.final, self.finals, ring.finals, size=ring.total)
        self.rows, self.finals = ring.rows, ring.finals

    def sent(self, array: Array) -> Tensor:
        """An array on the device, through pinned memory where that is a GPU."""
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        if self.device.type != "cuda":
            return tensor
        return tensor.pin_memory().to(self.device, non_blocking=True)

    def successors(self, at: Tensor) -> Tensor:
        """next_obs for stored cells (modulo the ring)."""
        out = self.cells["obs"][(at + self.ring.num_envs) % self.ring.total]
        place = self.cells["final_at"][at].long()
        ended = (place > 0).view(*place.shape, *[1] * (out.dim() - place.dim()))
        return torch.where(ended, self.final[(place - 1).clamp(min=0)], out)


def _copy(here: Array, there: Tensor, start: int, stop: int, *, size: int = 0) -> None:
    """Copy the rows `start` to `stop` - 1, counted from the beginning of the run, of a ring of `size` rows."""
    size = size or len(here)
    if stop - start >= size:
        start, stop = 0, size
    while start < stop:
        low = start % size
        high = min(low + stop - start, size)
        there[low:high].copy_(torch.from_numpy(here[low:high]), non_blocking=True)
        start += high - low
