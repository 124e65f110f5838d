"""Checksums of arrays that are written in order and, once full, again from the beginning.

A checkpoint stores the sums, by blocks, of what it needs of each array. What lies before the newest checkpoint stays
until it is overwritten, so a full block is summed only once. Of the first and the last block, only the items that the
checkpoint needs are summed: later items may be written before a crash.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

from cairn.core.errors import CairnError
from cairn.core.types import Array

BLOCK = 2**20  # bytes


class Sums:
    """Checksums of one array [size, ...]; items are numbered from the beginning of the run."""

    def __init__(self, name: str, array: Array) -> None:
        self.name, self.array, self.size = name, array, len(array)
        self.block = max(BLOCK // max(array[:1].nbytes, 1), 1)  # items
        self.full: dict[int, int] = {}  # checksums of full blocks, by number

    def take(self, first: int, end: int) -> dict[str, Any]:
        """The checksums of items `first` to `end` - 1, for a checkpoint."""
        found = []
        self.full = {k: crc for k, crc in self.full.items() if k >= first // self.block}
        for k, low, high in self._blocks(self.block, first, end):
            whole = high - low == self.block
            crc = self.full[k] if whole and k in self.full else self._sum(low, high)
            if whole:
                self.full[k] = crc
            found.append(f"{crc:08x}")
        return {"block": self.block, "first": first, "end": end, "crc": "".join(found)}

    def check(self, first: int, end: int, saved: dict[str, Any] | None) -> None:
        """Raise CairnError where items `first` to `end` - 1 changed since they were saved. None skips the check."""
        self.full = {}
        if saved is None:
            return
        told, block = saved["crc"], saved["block"]
        damaged = CairnError(f"the replay files of this run are damaged ({self.name}.bin: its checksum differs).")
        blocks = list(self._blocks(block, first, end))
        if (saved["first"], saved["end"]) != (first, end) or len(told) != 8 * len(blocks):
            raise damaged
        for i, (k, low, high) in enumerate(blocks):
            crc = self._sum(low, high)
            if f"{crc:08x}" != told[8 * i : 8 * i + 8]:
                raise damaged
            if block == self.block == high - low:
                self.full[k] = crc

    @staticmethod
    def _blocks(block: int, first: int, end: int) -> Iterator[tuple[int, int, int]]:
        for k in range(first // block, -(-end // block) if end > first else 0):
            yield k, max(first, k * block), min(end, (k + 1) * block)

    def _sum(self, low: int, high: int) -> int:
        crc = 0
        while low < high:
            at = low % self.size
            count = min(high - low, self.size - at)
            crc, low = zlib.crc32(self.array[at : at + count].data, crc), low + count
        return crc
