"""Preallocated arrays, in memory or mapped onto files so that a checkpoint need not copy them."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
from pathlib import Path

import numpy as np

from cairn.core.calls import option
from cairn.core.errors import CairnError
from cairn.core.types import Array

# the files of all replays; after a failed start only these are removed
NAMES = ["obs", "final", "final_at", "action", "reward", "terminated", "truncated", "valid"]  # of a ring
NAMES += ["episode_start", "episode_end", "target", "window_cell", "window_length"]  # of episodes and windows
NAMES += ["frames", "packed", "place", "length", "priorities", "advantage", "state"]


class Storage:
    """Named arrays of fixed shape. With a folder each is a file, and `sync` writes it to disk."""

    def __init__(
        self, fields: dict[str, tuple[tuple[int, ...], str]], folder: Path | None = None, *, grow: bool = False
    ) -> None:
        """With `grow`, a shorter file is lengthened and keeps its contents."""
        self.folder = folder
        self.maps: list[mmap.mmap] = []
        self.missing: list[Path] = []  # files that did not exist and were made,
        self.misfits: list[Path] = []  # or have another size and were left alone
        self.arrays: dict[str, Array] = {}
        for name, (shape, dtype) in fields.items():
            assert name in NAMES
            if folder is None:
                self.arrays[name] = np.zeros(shape, dtype)
            else:
                folder.mkdir(parents=True, exist_ok=True)
                self.arrays[name] = self._map(folder / f"{name}.bin", shape, dtype, grow)

    def _map(self, path: Path, shape: tuple[int, ...], dtype: str, grow: bool) -> Array:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
            self.misfits.append(path)
            return np.zeros(shape, dtype)
        if path.exists() and path.stat().st_size != size and not grow:
            self.misfits.append(path)
            return np.zeros(shape, dtype)
        if not path.exists():
            self.missing.append(path)
        with open(path, "r+b" if path.exists() else "w+b") as file:
            try:
                # Reserve every block now: writing to a hole in a mapped file on a full disk kills the process.
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    free = shutil.disk_usage(path.parent).free + os.fstat(file.fileno()).st_blocks * 512
                    raise CairnError(
                        f"the disk has no room for the replay buffer ({size / 1e9:.1f} GB at {path.parent}, where"
                        f" {free / 1e9:.1f} are free); free some, or lower {option('agent.capacity')} to"
                        f" {free / size:.0%} of it."
                    ) from error
                raise
            mapped = mmap.mmap(file.fileno(), size)
        self.maps.append(mapped)
        return np.frombuffer(mapped, dtype).reshape(shape)

    def must_be_found(self) -> None:
        """Raise CairnError where files were missing. New ones are removed, or a second try would use them."""
        if self.missing or self.misfits:
            for path in self.missing:
                path.unlink(missing_ok=True)
            names = ", ".join(path.name for path in self.missing + self.misfits)
            raise CairnError(f"the replay files of this run are missing or cut short ({names}).")

    def sync(self) -> None:
        """Write all mapped files to disk, so that they survive a power cut."""
        for mapped in self.maps:
            mapped.flush()
