"""Peak memory of a process and of the workers it started."""

from __future__ import annotations

import os
import resource
from pathlib import Path


def peak_memory_mb() -> float:
    """Memory of this process and its living descendants. Call at the end of the work, before environments are closed.

    Processes forked from one another share pages, so each is counted by its proportional share (PSS), as /proc tells
    it; to that comes, for each, what its own high-water mark lies above what it holds now. getrusage misleads here:
    RUSAGE_CHILDREN is the largest single child, and leaves out workers that a fork server started.
    """
    if not Path("/proc/self/status").exists():
        both = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(both) / 1024
    table = _processes()
    mine = {os.getpid()}
    while grown := {pid for pid, (parent, _) in table.items() if parent in mine} - mine:
        mine |= grown
    return sum(table[pid][1] for pid in mine) / 1024


def resident_mb() -> tuple[float, float]:
    """Resident memory of this process alone: now, and at its highest. getrusage's peak outlives exec; /proc's not."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return _kilobytes(fields, "VmRSS") / 1024, _kilobytes(fields, "VmHWM") / 1024


def _processes() -> dict[int, tuple[int, int]]:
    """Every process: its parent and its kilobytes."""
    table = {}
    for path in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = path.read_text().splitlines()
        except OSError:
            continue  # it ended while we were reading
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        above = _kilobytes(fields, "VmHWM") - _kilobytes(fields, "VmRSS")
        table[int(path.parent.name)] = int(fields["PPid"]), _shared_fairly(path.parent) + above
    return table


def _kilobytes(fields: dict[str, str], name: str) -> int:
    return int(fields.get(name, "0 kB").split()[0])


def _shared_fairly(process: Path) -> int:
    """Proportional set size: a page shared by n processes counts 1/n for each."""
    try:
        lines = (process / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
