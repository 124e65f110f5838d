"""Peak memory of a process and of the workers it started."""

from __future__ import annotations

import os
import resource
from pathlib import Path


def peak_memory_mb() -> float:
    """Peak resident memory of this process and its living descendants, summed. Call before environments are closed.

    Each process's own high-water mark is read from /proc, because getrusage misleads here: RUSAGE_CHILDREN is the largest
    single child, not their sum, leaves out workers that a fork server started, and RUSAGE_SELF keeps the size of the
    process that launched us. Pages that workers share are counted once for each, on both sides alike.
    """
    if not Path("/proc/self/status").exists():
        both = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(both) / 1024
    table = _processes()
    mine = {os.getpid()}
    while grown := {pid for pid, (parent, _) in table.items() if parent in mine} - mine:
        mine |= grown
    return sum(table[pid][1] for pid in mine) / 1024


def _processes() -> dict[int, tuple[int, int]]:
    """Every process: its parent and its peak resident kilobytes."""
    table = {}
    for path in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = path.read_text().splitlines()
        except OSError:
            continue  # it ended while we were reading
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        table[int(path.parent.name)] = int(fields["PPid"]), int(fields.get("VmHWM", "0 kB").split()[0])
    return table
