"""`python -m benchmarks.checks.kill [--kills 8] [--jobs 2] [--only NAME ...] [--record]`

`kill -9` at random moments, then resume.

Each family of agents and simulators is trained once to its end. Then, `--kills` times, the same command is started in
a new folder, killed with its process group at a random moment and continued with --resume. Weights, optimisers and
generators of the last checkpoint, evaluations and metrics must equal those of the run that was left alone, to the last
bit. Exits with 1 where one differs. With --record the table goes to results/benchmarks/kill.json.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from benchmarks.store import BENCHMARKS, ROOT, save
from cairn.runs.curves import read_curves
from cairn.runs.policy_files import checkpoints

RECORD = BENCHMARKS / "kill.json"
SMALL = "--agent.hidden 32 32"
REPLAY = "--agent.learning-starts 300 --agent.batch-size 32"
LEVELS = "--agent.high.learning-starts 500 --agent.low.learning-starts 300 --agent.high.batch-size 32"

FAMILIES = {
    "ppo-box2d": f"--env BipedalWalker-v3 --agent ppo {SMALL} --agent.horizon 100 --envs 4",
    "sac-box2d": f"--env LunarLanderContinuous-v3 --agent sac {SMALL} {REPLAY}",
    "td3-mujoco": f"--env Hopper-v5 --agent td3 {SMALL} {REPLAY}",
    "reinforce-pybullet": f"--env cairn/BulletCartPole-v0 --agent reinforce {SMALL} --envs 2",
    "sac-racecar": f"--env cairn/RaceCar-v0 --agent sac {SMALL} {REPLAY} --hindsight future",
    "dqn-atari": f"--env ALE/Pong-v5 --agent dqn {REPLAY} --agent.updates-per-step 0.05 --agent.capacity 3000"
    " --vector atari --envs 2",
    "ppo-atari": "--env ALE/Pong-v5 --agent ppo --agent.horizon 64 --agent.epochs 1 --vector atari --envs 4",
    "sac-hindsight": f"--env FetchReach-v4 --agent sac {SMALL} {REPLAY} --hindsight future",
    "hiro": f"reach-far-hiro {LEVELS} --agent.low.batch-size 32",
    "dqn-prioritised-async": f"--env CartPole-v1 --agent dqn {SMALL} {REPLAY} --agent.priority 0.6 --agent.n-step 3"
    " --envs 2 --vector async --workers 2",
    "dagger": "cartpole-dagger --expert zoo/cartpole-ppo",
    "aggrevated": "cartpole-aggrevated --expert zoo/cartpole-ppo",
    "a2c-envpool": f"--env CartPole-v1 --agent a2c {SMALL} --envs 4 --vector envpool",
    "ppo-memory": f"--env CartPole-v1 --agent ppo {SMALL} --agent.memory gru --agent.horizon 64 --envs 4",
    "dqn-memory": f"--env CartPole-v1 --agent dqn {SMALL} {REPLAY} --agent.memory lstm --agent.sequence 8",
    "ppo-masks": f"--env Taxi-v4 --agent ppo {SMALL} --agent.horizon 64 --envs 4 --vector async --workers 2",
    "dqn-masks": f"--env Taxi-v4 --agent dqn {SMALL} {REPLAY}",
    "ppo-dict": f"--env tests.any_tasks:toys/Camera-v0 --agent ppo {SMALL} --agent.horizon 64 --envs 4",
    "dqn-dict": f"--env tests.any_tasks:toys/Camera-v0 --agent dqn {SMALL} {REPLAY} --agent.updates-per-step 0.1",
    "ppo-ray": f"--env CartPole-v1 --agent ppo {SMALL} --agent.horizon 128 --envs 4 --vector ray --workers 2",
}
STEPS = {"hiro": 2000, "ppo-atari": 2048, "dagger": 4000, "aggrevated": 4000, "dqn-atari": 2500}
USUAL = 3000  # steps
OFTEN = 8  # checkpoints in a run


@dataclass(frozen=True)
class Trial:
    """One kill: after how many seconds, at which checkpoint, and what differed in the end (None: nothing)."""

    after: float
    step: int
    finished: bool
    fault: str | None


def options(family: str) -> list[str]:
    steps = STEPS.get(family, USUAL)
    often = ["--eval-every", str(steps // 2), "--eval-episodes", "2", "--log-every", str(steps // 10)]
    return [
        *FAMILIES[family].split(),
        "--steps",
        str(steps),
        "--checkpoint-every",
        str(steps // OFTEN),
        *often,
        "--seed",
        "3",
    ]


def start(args: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "cairn", "train", *args]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, env=env, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def completed(args: list[str]) -> str | None:
    """Run to the end; what it said where it failed."""
    process = start(args)
    _, said = process.communicate()
    return None if process.returncode == 0 else f"exit {process.returncode}: {said[-500:]}"


def state(folder: Path) -> dict[str, torch.Tensor]:
    last = checkpoints(folder / "checkpoints")[-1]
    tensors = {"step": torch.tensor(int(last.name))}
    for file in ("policy.safetensors", "training.safetensors"):
        tensors |= {f"{file}:{k}": v for k, v in safetensors.torch.load_file(last / file).items()}
    return tensors


def difference(alone: Path, killed: Path) -> str | None:
    """The first thing in which two finished runs differ."""
    left, right = state(alone), state(killed)
    if left.keys() != right.keys():
        return "other tensors"
    for name in left:
        if not torch.equal(left[name], right[name]):
            return name
    a, b = read_curves(alone).named, read_curves(killed).named
    for name in sorted(a.keys() | b.keys()):
        if name.startswith("time/"):
            continue
        ours, theirs = ([(p.step, p.value) for p in side.get(name, [])] for side in (a, b))
        if repr(ours) != repr(theirs):
            return f"metrics.csv: {name}"
    return None


def trial(family: str, alone: Path, folder: Path, after: float) -> Trial:
    process = start([*options(family), "--out", str(folder)])
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        pass
    finished = process.poll() is not None
    if not finished:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    found = checkpoints(folder / "checkpoints")
    step = int(found[-1].name) if found else 0
    if finished and process.returncode != 0:
        return Trial(after, step, finished, f"exit {process.returncode}")
    again = ["--resume", "--trust", "--out", str(folder)] if (folder / "config.json").exists() else None
    fault = completed(again if again is not None else [*options(family), "--out", str(folder)])
    return Trial(after, step, finished, fault or difference(alone, folder))


def measure(family: str, kills: int, root: Path, rng: random.Random) -> dict[str, Any]:
    alone = root / family / "alone"
    begun = time.perf_counter()
    fault = completed([*options(family), "--out", str(alone)])
    seconds = time.perf_counter() - begun
    if fault is not None:
        return {"name": family, "kills": 0, "equal": 0, "faults": [fault]}
    trials = []
    for k in range(kills):
        folder = root / family / f"killed-{k}"
        trials.append(trial(family, alone, folder, rng.uniform(0.1, 1.0) * seconds))
        shutil.rmtree(folder, ignore_errors=True)
    faults = [f"killed after {t.after:.1f} s: {t.fault}" for t in trials if t.fault]
    row = {
        "name": family,
        "command": "cairn train " + " ".join(options(family)),
        "seconds": round(seconds, 1),
        "kills": sum(not t.finished for t in trials),
        "equal": sum(t.fault is None for t in trials),
        "trials": len(trials),
        "at_steps": [t.step for t in trials],
        "faults": faults,
    }
    print(
        f"{family:<24} {row['equal']} of {len(trials)} equal, checkpoints {row['at_steps']} {faults or ''}", flush=True
    )
    return row


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.checks.kill")
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--record", action="store_true", help="keep the table in results/benchmarks/kill.json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as root, ThreadPoolExecutor(args.jobs) as pool:
        asked = [
            pool.submit(measure, family, args.kills, Path(root), random.Random(f"{args.seed}-{family}"))
            for family in args.only
        ]
        rows = [one.result() for one in asked]
    if args.record:
        for row in rows:
            save(row, RECORD)
    equal, trials = sum(row["equal"] for row in rows), sum(row.get("trials", 0) for row in rows)
    print(f"{len(rows)} families: {equal} of {trials} runs equal the run left alone.")
    sys.exit(any(row["faults"] for row in rows))


if __name__ == "__main__":
    main()
