"""`python -m benchmarks.checks.doctor [--jobs 1] [--seconds 60] [--only WORD]`

The doctor on tasks that are known to be healthy.

What it says of them goes to results/benchmarks/doctor.json, with the seconds it took. It exits with 1 where it finds an
error, or more than two warnings in all; docs/reference/findings.md says why each warning that is left is right.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from benchmarks.store import BENCHMARKS
from cairn.doctor import diagnose
from cairn.report.video import prepare_headless

OUT = BENCHMARKS / "doctor.json"
WARNINGS = 2

CLASSIC = ("CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Acrobot-v1", "Pendulum-v1")
BOX2D = ("LunarLander-v3", "BipedalWalker-v3", "BipedalWalkerHardcore-v3", "CarRacing-v3")
MUJOCO = tuple(
    f"{name}-v5"
    for name in (
        "Ant",
        "HalfCheetah",
        "Hopper",
        "Humanoid",
        "HumanoidStandup",
        "InvertedDoublePendulum",
        "InvertedPendulum",
        "Pusher",
        "Reacher",
        "Swimmer",
        "Walker2d",
    )
)
FETCH = ("FetchReach-v4", "FetchPush-v4", "FetchPickAndPlace-v4", "FetchSlide-v4")
MAZES = ("PointMaze_UMaze-v3", "AntMaze_UMaze-v5")
ATARI = tuple(f"ALE/{name}-v5" for name in ("Pong", "Breakout", "SpaceInvaders", "Qbert", "Seaquest", "BeamRider"))
OURS = tuple(
    f"cairn/{name}-v0"
    for name in (
        "BitFlip",
        "RaceCar",
        "BulletCartPole",
        "BalancingPlate",
        "FetchReachFar",
        "KeyDoorRooms",
        "PixelCartPole",
        "AntMaze",
        "AntPush",
        "AntFall",
        "AntGather",
    )
)
TASKS = (*CLASSIC, *BOX2D, *MUJOCO, *FETCH, *MAZES, *ATARI, *OURS)


def examined(task: str, limit: float) -> dict[str, Any]:
    begun = time.perf_counter()
    findings = diagnose(task, seconds=limit)
    seconds = time.perf_counter() - begun
    count = {kind: sum(f.severity == kind for f in findings) for kind in ("error", "warning", "hint")}
    print(f"{task:<28} {seconds:5.1f} s  " + ", ".join(f"{n} {kind}s" for kind, n in count.items() if n), flush=True)
    for finding in findings:
        print(f"    {finding.severity} {finding.code}: {finding.evidence}", flush=True)
    return {"task": task, "seconds": round(seconds, 1), **count, "findings": [asdict(f) for f in findings]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="", help="tasks whose id holds this; what was found of the others stays")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each task")
    options = parser.parse_args()
    prepare_headless()
    tasks = [task for task in TASKS if options.only in task]
    with ThreadPoolExecutor(options.jobs) as pool:
        body = list(pool.map(lambda task: examined(task, options.seconds), tasks))
    known = {one["task"]: one for one in json.loads(OUT.read_text())} if options.only and OUT.exists() else {}
    known |= {one["task"]: one for one in body}
    body = [known[task] for task in TASKS if task in known]
    OUT.write_text(json.dumps(body, indent=1) + "\n")
    errors, warnings = (sum(one[kind] for one in body) for kind in ("error", "warning"))
    seconds = [one["seconds"] for one in body]
    time_taken = f"{sum(seconds) / len(body):.1f} s in the mean, {max(seconds):.1f} s at the most"
    print(f"{len(body)} tasks, {errors} errors, {warnings} warnings; {time_taken}")
    raise SystemExit(errors > 0 or warnings > WARNINGS)


if __name__ == "__main__":
    main()
