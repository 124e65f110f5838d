"""`python -m bench.peers [--tasks cartpole-ppo ...] [--libraries sb3 ...] [--limit 600] [--record]`: one table.

Every library runs each task with the settings of `tasks.py`, one after the other on the idle machine, until an
evaluation reaches the target, the steps are used up or `limit` seconds of training are. Environments are made once, in
.venv-peers: what a library pins cannot disturb another.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from typing import Any

from bench.child import ROOT
from bench.peers.tasks import TASKS
from bench.store import SCALE, save

HOME = ROOT / ".venv-peers"


@dataclass(frozen=True)
class Library:
    module: str  # its side of the comparison
    packages: tuple[str, ...] = ()  # () is the project's own environment
    args: tuple[str, ...] = ()


LIBRARIES = {
    "cairn": Library("bench.peers.cairn"),
    "sb3": Library("bench.peers.sb3", ("stable-baselines3",)),
    "sbx": Library("bench.peers.sb3", ("sbx-rl",), ("sbx",)),
    "tianshou": Library("bench.peers.tianshou", ("tianshou",)),
    "rllib": Library("bench.peers.rllib", ("ray[rllib]",)),
}


def python_of(name: str) -> str:
    """The interpreter of a library's environment, which is made where there is none."""
    packages = LIBRARIES[name].packages
    if not packages:
        return sys.executable
    home = HOME / name
    python, ready = home / "bin" / "python", home / ".ready"
    if not ready.exists():
        print(f"making {home.relative_to(ROOT)} with {', '.join(packages)} ...", file=sys.stderr)
        venv.create(home, with_pip=True, clear=True)
        pins = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch==")]
        quiet = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*quiet, *pins, *packages, "box2d", "pygame"], check=True)
        ready.touch()
    return str(python)


def measure(name: str, task: str, limit: float) -> dict[str, Any]:
    library = LIBRARIES[name]
    env = {**os.environ, "SDL_VIDEODRIVER": "dummy", "CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
    env |= {"OMP_NUM_THREADS": "2", "PYTHONPATH": str(ROOT)}
    command = [python_of(name), "-m", library.module, task, str(limit), *library.args]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{name} failed on {task}:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.peers")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=list(LIBRARIES))
    parser.add_argument("--limit", type=float, default=600.0)
    parser.add_argument("--record", action="store_true", help="keep it in results/scale.json")
    args = parser.parse_args()
    for name in args.libraries:
        python_of(name)
    print(f"{'task':14} {'library':10} {'steps/s':>9} {'s to target':>12} {'score':>8} {'steps':>10} {'MB':>6}")
    for task in args.tasks:
        rows = {}
        for name in args.libraries:
            rows[name] = found = measure(name, task, args.limit)
            reached = "-" if found["seconds_to_target"] is None else f"{found['seconds_to_target']:.1f}"
            figures = f"{found['speed']:>9,.0f} {reached:>12} {found['score']:>8.1f} {found['steps']:>10,}"
            print(f"{task:14} {name:10} {figures} {found['memory_mb']:>6,}", flush=True)
        if args.record:
            save({"name": f"peers-{task}", "settings": {"limit": args.limit}, "rows": rows}, SCALE)


if __name__ == "__main__":
    main()
