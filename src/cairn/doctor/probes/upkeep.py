"""What the task costs: time, memory, open files."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from cairn.core.calls import option
from cairn.doctor.copies import Copy
from cairn.doctor.finding import Finding
from cairn.doctor.play import draw
from cairn.doctor.task_probe import TaskProbe

SLOW, CRAWLING = 100.0, 10.0  # steps per second: 2.8 and 28 hours for a million
STEPS, RESETS = 200, 10
LEAK_SHARE = 0.02  # of the time
GIGABYTE = 2**30
LEAK = 4 * 2**20  # bytes per half of the test; caches can take less
ENOUGH, MOST, LONGEST = 50, 4, 10  # episodes of a half, and how many times its share they may take: CPU time, wall time


def speed(p: TaskProbe) -> Iterator[Finding]:
    """Report slow steps and resets."""
    copy = p.first
    stepping: list[float] = []
    resetting = [_clock(lambda: copy.reset(seed=0))]
    until = time.perf_counter() + 0.1 * p.case.seconds
    while len(stepping) < STEPS and time.perf_counter() < until:
        action = draw(copy.action_space, p.rng)
        start = time.perf_counter()
        _, _, terminated, truncated, _ = copy.step(action)
        stepping.append(time.perf_counter() - start)
        if terminated or truncated:
            resetting.append(_clock(copy.reset))
    while len(resetting) < RESETS and time.perf_counter() < until:
        resetting.append(_clock(copy.reset))
    step, reset = float(np.median(stepping)), float(np.median(resetting[1:] or resetting))
    rate = 1 / max(step, 1e-9)
    if rate < SLOW:
        yield Finding(
            "slow",
            "warning" if rate < CRAWLING else "hint",
            "The task is slow.",
            f"{rate:.0f} steps a second; a million take {1e6 * step / 3600:.1f} h in one process",
            f"Run copies in parallel ({option('envs')}, {option('vector', 'async')}), render nothing while training,"
            " simulate less.",
        )
    length = float(np.mean([t.length for t in p.plays]) if p.plays else len(stepping))
    if reset > 0.02 and reset > step * length:
        yield Finding(
            "reset-slow",
            "hint",
            "A reset takes longer than an episode.",
            f"{1000 * reset:.0f} ms against {length:.0f} steps of {1000 * step:.2g} ms",
            "Build the world once in __init__ and restore its state in reset().",
        )


def leaks(p: TaskProbe) -> Iterator[Finding]:
    """Report memory and open files that grow with episodes."""
    copy = p.first
    share = LEAK_SHARE * p.case.seconds
    _return_freed_memory()
    _churn(p, copy, share / 2)  # fill caches first
    with _traced():
        files, marks, counts = _files(), [_memory()], []
        for _ in range(2):
            counts.append(_churn(p, copy, share))
            marks.append(_memory())
    resets = sum(r for r, _ in counts)
    opened = _files() - files
    if opened >= max(3, resets // 2):
        yield Finding(
            "files-leak",
            "error",
            "Every reset leaves files open.",
            f"{opened} more open after {resets} resets",
            "Close what reset() replaces; a process may hold about a thousand.",
        )
    steps = sum(s for _, s in counts)
    first, second = _growth(marks[0], marks[1]), _growth(marks[1], marks[2])
    in_a_million = 1e6 * second / max(counts[1][1], 1)
    if min(first, second) > LEAK and in_a_million > GIGABYTE:
        yield Finding(
            "memory-grows",
            "warning",
            "Memory grows as episodes are played.",
            f"{(first + second) / 2**20:.0f} MB in {steps:,} steps and {resets:,} resets;"
            f" a million steps would take {in_a_million / GIGABYTE:.1f} GB",
            "Look for lists that reset() does not empty and for worlds that are built and never removed.",
        )


def _churn(p: TaskProbe, copy: Copy, seconds: float) -> tuple[int, int]:
    """Play short episodes for some seconds, keeping nothing; returns resets and steps.

    On a loaded machine a pause can take all of the seconds, and too few episodes would show no growth. So `ENOUGH` are
    played where that takes no longer than `MOST` times the seconds of CPU time and `LONGEST` times by the clock.
    """
    resets = steps = 0
    start, cpu = time.perf_counter(), time.thread_time()

    def late() -> bool:
        return time.thread_time() - cpu > MOST * seconds or time.perf_counter() - start > LONGEST * seconds

    while (time.perf_counter() - start < seconds or resets < ENOUGH) and not late():
        copy.reset()
        resets += 1
        for _ in range(20):
            _, _, terminated, truncated, _ = copy.step(draw(copy.action_space, p.rng))
            steps += 1
            if terminated or truncated or late():
                break
    gc.collect()
    return resets, steps


@contextlib.contextmanager
def _traced() -> Iterator[None]:
    """Let Python count what it and NumPy allocate from here on."""
    if tracemalloc.is_tracing():
        yield
        return
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def _clock(what: Callable[[], object]) -> float:
    start = time.perf_counter()
    what()
    return time.perf_counter() - start


class _Mallinfo(ctypes.Structure):
    """What glibc says of its heap (mallinfo2, bytes)."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def _memory() -> tuple[int, int, int]:
    """Bytes of this process alone, bytes that malloc has handed out (0 where the system does not say), bytes traced.

    The first does not grow while a leak fills memory that was freed before. The second does not count small Python
    objects. Both shrink when the process frees something else meanwhile. The third is what Python and NumPy allocated
    within `_traced`; it does not count what a simulator allocates.
    """
    traced, _ = tracemalloc.get_traced_memory()
    try:
        resident, shared = map(int, Path("/proc/self/statm").read_text().split()[1:3])
    except (OSError, ValueError):
        resident = shared = 0
    private = (resident - shared) * os.sysconf("SC_PAGE_SIZE")
    try:
        ask = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError):  # another C library than glibc, or one before 2.33
        return private, 0, traced
    ask.restype = _Mallinfo
    heap = ask()
    return private, heap.uordblks + heap.hblkhd, traced


def _growth(before: tuple[int, ...], after: tuple[int, ...]) -> int:
    return max(now - then for then, now in zip(before, after, strict=True))


def _return_freed_memory() -> None:
    """Give what this process has freed back to the system: a leak would fill it first, and not be seen to grow."""
    with contextlib.suppress(OSError, AttributeError):  # another C library than glibc
        ctypes.CDLL(None).malloc_trim(0)


def _files() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0
