"""`python -m benchmarks.speed.vectors [WORD] [--rounds 5] [--envs 1 16 64]`: how fast each backend steps MuJoCo tasks.

Random actions. The backends take turns, `--rounds` times, and the medians count, so that what else the machine does
meets all of them alike. Processor time is that of this process and its workers: it tells what a step costs on a busy
machine too. Rows go to results/benchmarks/vectors.json.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.store import BENCHMARKS, save
from cairn.envs.task import Task
from cairn.vector.choose import make_vector, suitable_backends
from cairn.vector.protocol import Vector

TASKS = (
    "HalfCheetah-v5",
    "Hopper-v5",
    "Walker2d-v5",
    "Ant-v5",
    "Humanoid-v5",
    "cairn/AntMaze-v0",
    "FetchReach-v4",
    "FetchPush-v4",
)
SECONDS = 0.6  # of one measurement
WARM = 5  # steps before it
TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds() -> float:
    """Of this process and of those that descend from it, which workers do by way of a fork server."""
    parent, ticks = {}, {}
    for listed in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = listed.read_text().rpartition(")")[2].split()  # the state, the parent, ...
        except OSError:
            continue
        parent[number := int(listed.parent.name)], ticks[number] = int(fields[1]), int(fields[11]) + int(fields[12])
    ours, found = {os.getpid()}, {os.getpid()}
    while found:
        found = {number for number, above in parent.items() if above in found} - ours
        ours |= found
    return time.process_time() + sum(ticks.get(number, 0) for number in ours - {os.getpid()}) / TICKS


def once(envs: Vector, actions: list[Any]) -> tuple[float, float]:
    """Steps a second, and microseconds of processor time a step."""
    steps = rounds = 0
    worked, begun = processor_seconds(), time.perf_counter()
    while (elapsed := time.perf_counter() - begun) < SECONDS:
        steps += int(envs.step(actions[rounds % len(actions)]).valid.sum())
        rounds += 1
    return steps / elapsed, 1e6 * (processor_seconds() - worked) / steps


def measure(name: str, count: int, rounds: int) -> dict[str, Any]:
    task, draw = Task(name), np.random.default_rng(0)
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(rounds):
        for backend in suitable_backends(task, count):
            envs = make_vector(task, count, backend=backend)
            try:
                shape = (count, *envs.spec.action_shape)
                actions = [draw.uniform(-1, 1, shape).astype(np.float32) for _ in range(16)]
                envs.reset(range(count))
                for action in actions[:WARM]:
                    envs.step(action)
                found.setdefault(backend, []).append(once(envs, actions))
            finally:
                envs.close()
    speed = {backend: round(statistics.median(one[0] for one in all_)) for backend, all_ in found.items()}
    cost = {backend: round(statistics.median(one[1] for one in all_), 1) for backend, all_ in found.items()}
    return {
        "name": f"{name}, {count} environments",
        "steps_per_second": speed,
        "processor_us_per_step": cost,
        "rounds": rounds,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),  # of all processes of the machine, over a minute
        "versions": {package: metadata.version(package) for package in ("mujoco", "gymnasium", "envpool", "numpy")},
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("word", nargs="?", default="")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--envs", type=int, nargs="+", default=[1, 16, 64])
    args = options.parse_args()
    for name in (name for name in TASKS if args.word in name):
        for count in args.envs:
            row = measure(name, count, args.rounds)
            save(row, BENCHMARKS / "vectors.json")
            told = (
                f"{backend} {speed:,} ({row['processor_us_per_step'][backend]:g} us)"
                for backend, speed in row["steps_per_second"].items()
            )
            print(f"{row['name']:<34} {'   '.join(told)}", flush=True)


if __name__ == "__main__":
    main()
