"""Storage of frames: plain, mirrored on a GPU, or compressed by zlib. All are lossless."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from cairn.core.errors import CairnError
from cairn.core.types import Array
from cairn.replay.checksums import Sums
from cairn.replay.storage import Storage

LEVEL = 1  # zlib's fastest level


class Store(Protocol):
    """Numbered slots of one frame each."""

    def write(self, slot: Array, frame: Array) -> None:
        """Store frames [n, ...] in slots [n]."""

    def read(self, slot: Array) -> Tensor:
        """The frames [..., *frame] of slots [...]."""

    def holds(self, slot: Array) -> Array:
        """[...] bool: whether the last frame written to each slot is still stored."""

    def save(self) -> dict[str, Any]:
        """The state for a checkpoint, once the files are on disk."""

    def load(self, saved: dict[str, Any]) -> None:
        """Continue from a checkpoint. Raises CairnError where the files do not match it."""

    def slotted(self) -> dict[str, Array]:
        """The arrays that have an item for each slot."""


class Plain:
    """Frames in one array."""

    def __init__(self, slots: int, shape: tuple[int, ...], dtype: str, folder: Path | None) -> None:
        self.storage = Storage({"frames": ((slots, *shape), dtype)}, folder)
        self.frames = self.storage.arrays["frames"]

    def write(self, slot: Array, frame: Array) -> None:
        self.frames[slot] = frame

    def read(self, slot: Array) -> Tensor:
        return torch.from_numpy(self.frames.take(slot, 0, mode="wrap"))

    def holds(self, slot: Array) -> Array:
        return np.ones(slot.shape, bool)

    def save(self) -> dict[str, Any]:
        self.storage.sync()
        return {}

    def load(self, saved: dict[str, Any]) -> None:
        self.storage.must_be_found()

    def slotted(self) -> dict[str, Array]:
        return {"frames": self.frames}


class Mirrored(Plain):
    """Frames in one array, with a copy on a device from which batches are read."""

    def __init__(self, slots: int, shape: tuple[int, ...], dtype: str, folder: Path | None, device: str) -> None:
        super().__init__(slots, shape, dtype, folder)
        self.there = torch.zeros((slots, *shape), dtype=getattr(torch, dtype), device=device)

    def write(self, slot: Array, frame: Array) -> None:
        super().write(slot, frame)
        self.there[self._sent(slot)] = self._sent(frame)

    def read(self, slot: Array) -> Tensor:
        return self.there[self._sent(slot)]

    def _sent(self, array: Array) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.there.device)

    def load(self, saved: dict[str, Any]) -> None:
        super().load(saved)
        self.there.copy_(torch.from_numpy(self.frames))


class Packed:
    """Compressed frames in a ring of bytes; each slot has the place and the length of its frame.

    There is room for `live` frames of `each` bytes, or more smaller ones, or fewer larger ones. `slack` frames more are
    kept
    for what is written after a checkpoint. What the last two checkpoints need is never overwritten: if frames take too
    many
    bytes for that, CairnError ends the run.
    """

    def __init__(
        self, slots: int, shape: tuple[int, ...], dtype: str, folder: Path | None, *, each: int, live: int, slack: int
    ) -> None:
        self.shape, self.dtype, self.each = shape, dtype, each
        whole = int(np.prod(shape)) * np.dtype(dtype).itemsize + 64  # zlib can enlarge noise
        self.live, self.size = max(each * live, 8 * whole), max(each * live, 8 * whole) + each * slack + whole
        fields: dict[str, tuple[tuple[int, ...], str]] = {
            "packed": ((self.size,), "uint8"),
            "place": ((slots,), "int64"),
            "length": ((slots,), "int32"),
        }
        self.storage = Storage(fields, folder)
        self.bytes, self.place, self.length = (self.storage.arrays[name] for name in fields)
        self.sums = Sums("packed", self.bytes)
        self.written = 0  # bytes so far
        self.marks: list[int] | None = None  # `written` at the last two checkpoints

    def write(self, slot: Array, frame: Array) -> None:
        for at, one in zip(slot.tolist(), frame, strict=True):
            packed = np.frombuffer(zlib.compress(one.tobytes(), LEVEL), np.uint8)
            start = self.written % self.size
            if start + len(packed) > self.size:  # a frame must be contiguous
                self.written += self.size - start
                start = 0
            end = self.written + len(packed)
            if self.marks is not None and end - self.marks[0] > self.size - self.live:
                raise CairnError(
                    f"agent.frame_bytes is {self.each}, and the compressed frames are larger: they would overwrite data"
                    " of a checkpoint. Start a new run with a larger value, or with 0 for no compression."
                )
            self.bytes[start : start + len(packed)] = packed
            self.place[at], self.length[at], self.written = self.written, len(packed), end

    def read(self, slot: Array) -> Tensor:
        """The frames [..., *frame] of slots [...]; a frame that occurs twice is decompressed once."""
        which, again = np.unique(slot, return_inverse=True)
        start = self.place[which] % self.size
        spans = np.stack([start, start + self.length[which]], 1).tolist()
        found = [zlib.decompress(self.bytes[first:last].data) for first, last in spans]
        frames = np.frombuffer(b"".join(found), self.dtype).reshape(-1, *self.shape)
        return torch.from_numpy(frames[again.reshape(slot.shape)])

    def holds(self, slot: Array) -> Array:
        return np.asarray(self.place[slot] >= self.written - self.live)

    def save(self) -> dict[str, Any]:
        self.storage.sync()
        self.marks = [self.written if self.marks is None else self.marks[-1], self.written]
        kept: dict[str, Any] = {"bytes": self.written, "bytes_before": self.marks[0]}
        if self.storage.folder is not None:
            kept["packed"] = self.sums.take(max(self.written - self.live, 0), self.written)
        return kept

    def load(self, saved: dict[str, Any]) -> None:
        self.storage.must_be_found()
        self.written = saved["bytes"]
        self.marks = [saved["bytes_before"], saved["bytes"]]
        self.sums.check(max(self.written - self.live, 0), self.written, saved.get("packed"))

    def slotted(self) -> dict[str, Array]:
        return {"place": self.place, "length": self.length}
