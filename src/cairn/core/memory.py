"""How the process asks for memory, and whether there is enough."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from cairn.core.calls import option
from cairn.core.errors import CairnError

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEEP = 256 * 2**20
NO_MEMORY = "can't allocate memory"  # as torch says it, by RuntimeError


def keep_freed_memory() -> None:
    """Tell glibc to hold on to freed blocks instead of giving them back to the system.

    An update allocates the same few megabytes again and again. Given back, their pages are faulted in anew each time:
    that was a fifth of an SAC update. Elsewhere than on glibc nothing happens.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(M_MMAP_THRESHOLD, KEEP)
        libc.mallopt(M_TRIM_THRESHOLD, KEEP)
    except (OSError, AttributeError):
        pass


def must_fit(capacity: int, each: int, *, mapped: bool) -> None:
    """One sentence, before anything is made, where `capacity` transitions of `each` bytes do not fit into memory.

    On files only those in use have to: the system gives up pages of other files for them.
    """
    room, whole = memory()
    room = whole if mapped else room
    if capacity * each <= room:
        return
    fits = int(0.9 * room / each)
    fits -= fits % 10 ** max(len(str(fits)) - 2, 0)  # two figures of it say enough
    raise CairnError(
        f"a replay buffer of {capacity:,} transitions takes {capacity * each / 1e9:.1f} GB"
        f" and there are {room / 1e9:.1f} GB of memory; a capacity of {fits} fits."
    )


@contextmanager
def enough() -> Iterator[None]:
    """CairnError where the memory of this machine, or of its GPU, runs out inside it."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, (MemoryError, torch.OutOfMemoryError)) and NO_MEMORY not in str(error):
            raise
        raise CairnError(
            f"there is not enough memory for this run; lower {option('envs')}, or the batch_size, horizon or hidden of"
            " the agent."
        ) from error


def memory() -> tuple[int, int]:
    """Bytes that are free or can be freed, and in all; a container's own limits count. Without /proc, no limit."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return sys.maxsize, sys.maxsize
    found = {name: 1024 * int(rest.split()[0]) for name, rest in (line.split(":", 1) for line in lines)}
    free, whole = found["MemAvailable"], found["MemTotal"]
    try:
        most = int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="utf-8"))  # "max" where there is none
        used = int(Path("/sys/fs/cgroup/memory.current").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return free, whole
    return min(free, most - used), min(whole, most)
