"""Fresh processes to measure in: nothing carried over from another measurement, threads and memory its own."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from dataclasses import asdict
from typing import Any

from benchmarks.speed.cases import CASES
from benchmarks.store import ROOT


def in_fresh_process(module: str, *args: str, threads: int, quiet: bool = True) -> dict[str, Any]:
    """Run `python -m module args` and read the JSON object on the last line it prints."""
    env = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    env.setdefault("SDL_VIDEODRIVER", "dummy")
    errors = subprocess.PIPE if quiet else None
    done = subprocess.run(
        [sys.executable, "-m", module, *args], cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=errors, text=True
    )
    if done.returncode != 0:
        sys.exit(f"`{module} {' '.join(args)}` failed with {done.returncode}:\n{done.stderr or ''}")
    value: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return value


def versions() -> dict[str, str]:
    from importlib.metadata import version

    return {name: version(name) for name in ("cairn-rl", "stable-baselines3", "torch", "gymnasium", "numpy")}


def main() -> None:
    """One measurement of one side, as JSON. Libraries are imported here, so that each side pays for its own alone."""
    parser = argparse.ArgumentParser()
    parser.add_argument("side", choices=["ours", "theirs"])
    parser.add_argument("case", choices=CASES)
    parser.add_argument("steps", type=int)
    parser.add_argument("threads", type=int)
    args = parser.parse_args()
    measure = importlib.import_module(f"benchmarks.speed.{args.side}").measure
    print(json.dumps(asdict(measure(CASES[args.case], args.steps, args.threads))))


if __name__ == "__main__":
    main()
