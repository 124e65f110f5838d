"""`python -m benchmarks.speed.run [--only NAME ...] [--repeats K] [--seconds S] [--no-sbx] [--yes]`

Steps a second beside Stable-Baselines3, and beside SBX (JAX) where a case says so.

Measurements alternate (ours, SB3, SBX, ours, ...), so that a machine that slows down slows all; each has a process of
its own; medians are compared. After the clock has stopped each policy is scored, so that a row also shows that all
sides learn. Where the sides did not do the same work there is an error, not a result. Run it on an idle machine: two
threads that wait for each other on a busy core take many times longer. SBX is installed into .venv-peers, after a
question.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.peers.__main__ import install, may_install, missing, python_of
from benchmarks.speed.cases import CASES, PEER, PEERS, Case
from benchmarks.speed.child import in_fresh_process
from benchmarks.speed.timing import Timing
from benchmarks.store import RESULTS, save


@dataclass(frozen=True)
class Side:
    """Measurements of one library."""

    timings: tuple[Timing, ...]
    versions: dict[str, str]

    @property
    def speed(self) -> float:
        return median(t.speed for t in self.timings)


def compare(case: Case, repeats: int, seconds: float, peers: Sequence[str]) -> list[dict[str, Any]]:
    """Measure all sides of a case, in turn; an entry for each peer."""
    steps = case.steps(seconds)
    found: dict[str, list[dict[str, Any]]] = {side: [] for side in ("ours", *peers)}
    for _ in range(repeats):
        for side, measured in found.items():
            measured.append(_measure(side, case, steps))
    sides = {
        name: Side(tuple(Timing(**one["timing"]) for one in measured), measured[0]["versions"])
        for name, measured in found.items()
    }
    _same_work(case, [timing for side in sides.values() for timing in side.timings])
    return [entry_of(case, sides["ours"], sides[peer], peer) for peer in peers]


def entry_of(case: Case, ours: Side, theirs: Side, peer: str) -> dict[str, Any]:
    """The object that results/benchmarks/speed.json keeps. Above 1, `ratio` is in Cairn's favour."""
    settings = {k: v for k, v in asdict(case).items() if k not in ("name", "pace", "sbx")}
    settings |= {
        "timed_steps": ours.timings[0].steps,
        "timed_updates": ours.timings[0].updates,
        "device": "cpu",
        "cores": os.cpu_count(),
        "versions": {**theirs.versions, **ours.versions},
        "all_ours": [round(t.speed, 1) for t in ours.timings],
        "all_theirs": [round(t.speed, 1) for t in theirs.timings],
        "scores_ours": [round(t.score, 1) for t in ours.timings],
        "scores_theirs": [round(t.score, 1) for t in theirs.timings],
        "command": f"python -m benchmarks.speed.run --only {case.name}",
    }
    return {
        "name": case.name if peer == PEER else f"{case.name}-sbx",
        "peer": peer,
        "ours": round(ours.speed, 1),
        "theirs": round(theirs.speed, 1),
        "ratio": round(ours.speed / theirs.speed, 3),
        "unit": "steps/s",
        "memory_ours_mb": round(median(t.memory_mb for t in ours.timings)),
        "memory_theirs_mb": round(median(t.memory_mb for t in theirs.timings)),
        "score_ours": round(median(t.score for t in ours.timings), 1),
        "score_theirs": round(median(t.score for t in theirs.timings), 1),
        "settings": settings,
        "repeats": len(ours.timings),
    }


def _measure(side: str, case: Case, steps: int) -> dict[str, Any]:
    threads = case.threads_ours if side == "ours" else case.threads_theirs
    python = python_of("sbx") if side == "sbx-rl" else sys.executable
    args = side, case.name, str(steps), str(threads)
    return in_fresh_process("benchmarks.speed.child", *args, threads=threads, python=python)


def _same_work(case: Case, timings: Sequence[Timing]) -> None:
    """Rows in which EnvPool only resets are no steps: where it takes part, one in a hundred may be missing."""
    work = {(t.steps, t.updates) for t in timings}
    slack = 0.99 if case.vector == "envpool" else 1.0
    if any(min(column) < slack * max(column) for column in zip(*work, strict=True)):
        sys.exit(f"{case.name}: the sides differ in (steps, updates): {sorted(work)}; this is no comparison.")


def line(entry: dict[str, Any]) -> str:
    """One row of the table."""
    scores = f"{entry['score_ours']:>7.1f} {entry['score_theirs']:>7.1f}"
    memory = f"{entry['memory_ours_mb']:>6,} {entry['memory_theirs_mb']:>6,} MB"
    figures = f"{entry['ours']:>9,.0f} {entry['theirs']:>9,.0f} {entry['ratio']:>6.2f}x {scores} {memory}"
    return f"{entry['name']:<24} {PEERS[entry['peer']]:<5} {figures}"


def table(entries: Sequence[dict[str, Any]]) -> str:
    """All rows under a head."""
    steps = f"{'Cairn':>9} {'peer':>9} {'ratio':>7} {'return':>15} {'peak memory':>13}"
    head = f"{'case':<24} {'peer':<5} {steps}"
    return "\n".join([head, "-" * len(head), *map(line, entries)])


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.run", description="Cairn beside Stable-Baselines3 and SBX."
    )
    parser.add_argument("--only", nargs="+", choices=CASES, metavar="NAME", help=f"of {', '.join(CASES)}")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each side")
    parser.add_argument("--seconds", type=float, default=15.0, help="length of a measurement, by each case's pace")
    parser.add_argument("--threads", type=int, help="of torch on both sides, in place of each case's own")
    parser.add_argument("--no-sbx", dest="sbx", action="store_false", help="leave SBX out")
    parser.add_argument("--yes", action="store_true", help="install SBX without asking")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results are kept")
    args = parser.parse_args()
    cases = [CASES[name] for name in args.only or CASES]
    absent = missing(["sbx"]) if args.sbx and any(case.sbx for case in cases) else []
    may_install(absent, args.yes)
    for name in absent:
        install(name)
    entries = []
    for case in cases:
        if args.threads:
            case = replace(case, threads_ours=args.threads, threads_theirs=args.threads)
        peers = [PEER, "sbx-rl"] if case.sbx and args.sbx else [PEER]
        for entry in compare(case, args.repeats, args.seconds, peers):
            save(entry, args.out)
            print(line(entry), flush=True)
            entries.append(entry)
    print(f"\n{table(entries)}")


if __name__ == "__main__":
    main()
