"""`python -m benchmarks.peers [--tasks cartpole-ppo ...] [--libraries sb3 ...] [--limit 600] [--record] [--yes]`

One table. Every library runs each task with the settings of `tasks.py`, one after the other on the idle machine, until
an evaluation reaches the target, the steps are used up or `limit` seconds of training are. Environments are made once,
in .venv-peers, after a question (`--yes` answers it): what a library pins cannot disturb another.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from benchmarks.peers.tasks import TASKS
from benchmarks.store import ROOT, SCALE, save

HOME = ROOT / ".venv-peers"


@dataclass(frozen=True)
class Library:
    module: str  # its side of the comparison
    packages: tuple[str, ...] = ()  # () is the project's own environment
    args: tuple[str, ...] = ()


LIBRARIES = {
    "cairn": Library("benchmarks.peers.cairn"),
    "sb3": Library("benchmarks.peers.sb3", ("stable-baselines3",)),
    "sbx": Library("benchmarks.peers.sb3", ("sbx-rl",), ("sbx",)),
    "tianshou": Library("benchmarks.peers.tianshou", ("tianshou",)),
    "rllib": Library("benchmarks.peers.rllib", ("ray[rllib]",)),
}


def python_of(name: str) -> str:
    """The interpreter of a library's environment."""
    return str(HOME / name / "bin" / "python") if LIBRARIES[name].packages else sys.executable


def missing(names: Sequence[str]) -> list[str]:
    """The libraries whose environment is not made yet."""
    return [name for name in names if LIBRARIES[name].packages and not (HOME / name / ".ready").exists()]


def may_install(names: Sequence[str], yes: bool) -> None:
    """Ask before anything is fetched; end in one sentence where nobody can answer, or the answer is no."""
    packages = ", ".join(package for name in names for package in LIBRARIES[name].packages)
    what = f"{packages} and what they need into {HOME.relative_to(ROOT)} (some GB)"
    if not names or yes:
        return
    if not sys.stdin.isatty():
        refuse(f"this would install {what}; add --yes to let it.")
    if input(f"Install {what}? [y/N] ").strip().lower() not in ("y", "yes"):
        refuse("nothing was installed, so there is nothing to compare; name others with --libraries.")


def install(name: str) -> None:
    """Make a library's environment."""
    home, packages = HOME / name, LIBRARIES[name].packages
    print(f"making {home.relative_to(ROOT)} with {', '.join(packages)} ...", file=sys.stderr)
    venv.create(home, with_pip=True, clear=True)
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line.startswith("torch==")]
    quiet = [python_of(name), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if (
        subprocess.run(
            [*quiet, *pins, *packages, "box2d", "pygame", "mujoco<3.12", "imageio", "packaging"], check=False
        ).returncode
        != 0
    ):
        refuse(f"pip could not install {', '.join(packages)}; what it said is above.")
    (home / ".ready").touch()


def refuse(sentence: str) -> NoReturn:
    print(f"cairn: {sentence}", file=sys.stderr)
    raise SystemExit(2)


class Parser(argparse.ArgumentParser):
    """A mistake is one sentence."""

    def error(self, message: str) -> NoReturn:
        refuse(f"{message}; `cairn bench peers --help` shows every option.")


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
    parser = Parser(prog="cairn bench peers")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=list(LIBRARIES))
    parser.add_argument("--limit", type=float, default=600.0)
    parser.add_argument("--record", action="store_true", help="keep it in results/benchmarks/scale.json")
    parser.add_argument("--yes", action="store_true", help="install what is missing without asking")
    args = parser.parse_args()
    absent = missing(args.libraries)
    may_install(absent, args.yes)
    for name in absent:
        install(name)
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
