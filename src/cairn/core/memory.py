"""How memory is allocated, and whether there is enough."""

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
NO_MEMORY = "can't allocate memory"  # torch's RuntimeError contains this text


def keep_freed_memory() -> None:
    """Make glibc keep freed blocks instead of returning them to the system.

    An update allocates the same few megabytes again and again. Returned pages have to be faulted in anew each time,
    which
    took a fifth of an SAC update. Without glibc this does nothing.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(M_MMAP_THRESHOLD, KEEP)
        libc.mallopt(M_TRIM_THRESHOLD, KEEP)
    except (OSError, AttributeError):
        pass


_runs = 1  # that share this process
_checking: tuple[bool] | None = None  # whether `must_fit` is only asked, and for a mapped file


class _Fits(Exception):
    """A replay buffer fits, and is not to be made."""


@contextmanager
def divided(runs: int) -> Iterator[None]:
    """Context in which so many runs share this process and its memory."""
    global _runs
    before, _runs = _runs, runs
    try:
        yield
    finally:
        _runs = before


@contextmanager
def only_checked(*, mapped: bool) -> Iterator[None]:
    """Context that ends where a replay buffer was found to fit, as a mapped file or not, before it is allocated."""
    global _checking
    _checking = (mapped,)
    try:
        yield
    except _Fits:
        pass
    finally:
        _checking = None


def must_fit(capacity: int, each: int, *, mapped: bool) -> None:
    """Raise CairnError where a replay buffer would not fit into memory, before it is allocated.

    Args:
        capacity: Number of transitions.
        each: Bytes of one transition.
        mapped: Whether the buffer is a memory-mapped file. Then all memory counts, because the system frees pages of
            other
            files for it.
    """
    room, whole = memory()
    room = whole if (_checking[0] if _checking else mapped) else room
    size = capacity * each
    if _runs * size <= room:
        if _checking:
            raise _Fits
        return
    if size <= room:
        raise CairnError(
            f"{_runs} replay buffers of {capacity:,} transitions take {_runs * size / 1e9:.1f} GB and there are"
            f" {room / 1e9:.1f} GB of memory; {room // size} fit: take as many seeds or learners, or a smaller"
            " capacity."
        )
    fits = int(0.9 * room / each)
    fits -= fits % 10 ** max(len(str(fits)) - 2, 0)  # rounded down to two significant digits
    raise CairnError(
        f"a replay buffer of {capacity:,} transitions takes {size / 1e9:.1f} GB"
        f" and there are {room / 1e9:.1f} GB of memory; a capacity of {fits} fits."
    )


@contextmanager
def enough() -> Iterator[None]:
    """Context that raises CairnError where the memory of this machine or of its GPU runs out."""
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
    """Bytes available and bytes in total, within the limits of a container; sys.maxsize without /proc."""
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
