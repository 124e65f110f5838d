"""A growing data set: all training data of imitation learning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from cairn.core.errors import CairnError
from cairn.core.types import Array
from cairn.replay.checksums import Sums
from cairn.replay.storage import Storage

FIRST = 4096  # initial room in rows; it doubles


class Dataset:
    """Rows of named fields, sampled uniformly.

    Args:
        fields: Shape and dtype of one row, for each field.
        generator: Draws the samples.
        folder: Where to keep memory-mapped files; None keeps everything in memory. Files hold the rows in order, so a
            checkpoint stores only their number; a resumed run overwrites later rows.
    """

    def __init__(
        self,
        fields: dict[str, tuple[tuple[int, ...], str]],
        *,
        generator: Generator,
        folder: Path | None = None,
    ) -> None:
        self.fields, self.generator, self.folder = fields, generator, folder
        self.count = self.room = 0
        self.storage = Storage({})
        self.sums: dict[str, Sums] = {}

    def __len__(self) -> int:
        return self.count

    def _make_room(self, rows: int) -> None:
        """Make room for `rows` rows; a file is lengthened and keeps its contents."""
        if rows <= self.room:
            return
        self.room = max(FIRST, self.room)
        while self.room < rows:
            self.room *= 2
        before = self.storage
        before.sync()
        lead = {name: ((self.room, *shape), dtype) for name, (shape, dtype) in self.fields.items()}
        self.storage = Storage(lead, self.folder, grow=True)
        if self.folder is None:
            for name, old in before.arrays.items():
                self.storage.arrays[name][: self.count] = old[: self.count]

    def add(self, **rows: Array) -> None:
        """Add n rows of every field, [n, ...]."""
        size = len(next(iter(rows.values())))
        self._make_room(self.count + size)
        for name in self.fields:
            self.storage.arrays[name][self.count : self.count + size] = rows[name]
        self.count += size

    def sample(self, batch: int, device: str = "cpu") -> list[Tensor]:
        """`batch` uniform rows [B, ...] of every field, in the order of the fields."""
        if self.count == 0:
            raise CairnError("there is nothing to learn from: no demonstration was recorded.")
        some = torch.randint(self.count, (batch,), generator=self.generator).numpy()
        return [torch.from_numpy(self.storage.arrays[name].take(some, 0)).to(device) for name in self.fields]

    def cut(self) -> None:
        """Nothing: rows do not belong to episodes."""

    def save(self) -> dict[str, Any]:
        """The number of rows and checksums, for a checkpoint."""
        self.storage.sync()
        return {"count": self.count, "sums": {name: sums.take(0, self.count) for name, sums in self._sums().items()}}

    def _sums(self) -> dict[str, Sums]:
        """The checksums of the current arrays. A lengthened file keeps those of its full blocks."""
        for name, array in self.storage.arrays.items():
            old = self.sums.get(name)
            self.sums[name] = Sums(name, array)
            if old is not None:
                self.sums[name].full = old.full
        return self.sums

    def load(self, saved: dict[str, Any]) -> None:
        """Continue from a checkpoint. Raises CairnError where files are missing, short or damaged."""
        assert self.folder is not None
        for name, (shape, dtype) in self.fields.items():
            path = self.folder / f"{name}.bin"
            needed = saved["count"] * int(np.prod(shape)) * np.dtype(dtype).itemsize
            if saved["count"] and (not path.exists() or path.stat().st_size < needed):
                raise CairnError(f"the replay files of this run are missing or cut short ({path.name}).")
        self._make_room(saved["count"])
        self.count = saved["count"]
        for name, sums in self._sums().items():
            sums.check(0, self.count, saved.get("sums", {}).get(name))
