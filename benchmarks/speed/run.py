"""`python -m benchmarks.speed.run [--only NAME ...] [--repeats K] [--seconds S]`

Steps a second beside Stable-Baselines3.

Measurements alternate (ours, theirs, ours, theirs, ...), so that a machine that slows down slows both; each has a
process of its own; medians are compared. Where the two sides did not do the same work there is an error, not a result.
Run it on an idle machine: two threads that wait for each other on a busy core take many times longer.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.speed.cases import CASES, PEER, Case
from benchmarks.speed.child import in_fresh_process, versions
from benchmarks.speed.timing import Timing
from benchmarks.store import RESULTS, save


def compare(case: Case, repeats: int, seconds: float) -> dict[str, Any]:
    """Measure both sides of a case, in turn."""
    steps = case.steps(seconds)
    ours: list[Timing] = []
    theirs: list[Timing] = []
    for _ in range(repeats):
        ours.append(_measure("ours", case, steps, case.threads_ours))
        theirs.append(_measure("theirs", case, steps, case.threads_theirs))
    _same_work(case, [*ours, *theirs])
    return entry_of(case, ours, theirs)


def entry_of(case: Case, ours: Sequence[Timing], theirs: Sequence[Timing]) -> dict[str, Any]:
    """The object that results/benchmarks/speed.json keeps. Above 1, `ratio` is in Cairn's favour."""
    our_speed, their_speed = (median(t.speed for t in side) for side in (ours, theirs))
    settings = {k: v for k, v in asdict(case).items() if k not in ("name", "pace")}
    settings |= {
        "timed_steps": ours[0].steps,
        "timed_updates": ours[0].updates,
        "device": "cpu",
        "cores": os.cpu_count(),
        "versions": versions(),
        "all_ours": [round(t.speed, 1) for t in ours],
        "all_theirs": [round(t.speed, 1) for t in theirs],
    }
    return {
        "name": case.name,
        "peer": PEER,
        "ours": round(our_speed, 1),
        "theirs": round(their_speed, 1),
        "ratio": round(our_speed / their_speed, 3),
        "unit": "steps/s",
        "memory_ours_mb": round(median(t.memory_mb for t in ours)),
        "memory_theirs_mb": round(median(t.memory_mb for t in theirs)),
        "settings": settings,
        "repeats": len(ours),
    }


def _measure(side: str, case: Case, steps: int, threads: int) -> Timing:
    args = side, case.name, str(steps), str(threads)
    return Timing(**in_fresh_process("benchmarks.speed.child", *args, threads=threads))


def _same_work(case: Case, timings: Sequence[Timing]) -> None:
    """Rows in which EnvPool only resets are no steps: where it takes part, one in a hundred may be missing."""
    work = {(t.steps, t.updates) for t in timings}
    slack = 0.99 if case.vector == "envpool" else 1.0
    if any(min(column) < slack * max(column) for column in zip(*work, strict=True)):
        sys.exit(f"{case.name}: the sides differ in (steps, updates): {sorted(work)}; this is no comparison.")


def line(entry: dict[str, Any]) -> str:
    return (
        f"{entry['name']:<24} {entry['ours']:>9,.0f} {entry['theirs']:>9,.0f} {entry['unit']:<8}"
        f" {entry['ratio']:>6.2f}x {entry['memory_ours_mb']:>8,} {entry['memory_theirs_mb']:>8,} MB"
    )


def table(entries: Sequence[dict[str, Any]]) -> str:
    head = f"{'case':<24} {'Cairn':>9} {'SB3':>9} {'unit':<8} {'ratio':>7} {'Cairn':>8} {'SB3':>8} peak"
    return "\n".join([head, "-" * len(head), *map(line, entries)])


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.run", description="Cairn beside Stable-Baselines3."
    )
    parser.add_argument("--only", nargs="+", choices=CASES, metavar="NAME", help=f"of {', '.join(CASES)}")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each side")
    parser.add_argument("--seconds", type=float, default=15.0, help="about how long the slower side takes for one")
    parser.add_argument("--threads", type=int, help="of torch on both sides, in place of each case's own")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results are kept")
    args = parser.parse_args()
    entries = []
    for name in args.only or CASES:
        case = CASES[name]
        if args.threads:
            case = replace(case, threads_ours=args.threads, threads_theirs=args.threads)
        entry = compare(case, args.repeats, args.seconds)
        save(entry, args.out)
        print(line(entry), flush=True)
        entries.append(entry)
    print(f"\n{table(entries)}")


if __name__ == "__main__":
    main()
