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

from benchmarks.speed.cases import CASES, PEERS
from benchmarks.store import ROOT


def in_fresh_process(
    module: str, *args: str, threads: int, quiet: bool = True, python: str = sys.executable
) -> dict[str, Any]:
    """Run `python -m module args` and read the JSON object on the last line it prints."""
    env = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "JAX_PLATFORMS": "cpu"}
    if threads == 1:  # JAX takes no number of threads; bound to one core its products have one
        env["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    env.setdefault("SDL_VIDEODRIVER", "dummy")
    errors = subprocess.PIPE if quiet else None
    done = subprocess.run(
        [python, "-m", module, *args], cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=errors, text=True
    )
    if done.returncode != 0:
        sys.exit(f"`{module} {' '.join(args)}` failed with {done.returncode}:\n{done.stderr or ''}")
    value: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return value


def versions(
    *packages: str,
) -> dict[str, str]:
    """Versions of these packages, or of those that the other measurements compare."""
    from importlib.metadata import version

    packages = packages or ("cairn-rl", "stable-baselines3", "torch", "gymnasium", "numpy")
    return {name: version(name) for name in packages}


def main() -> None:
    """One measurement of one side, as JSON. Libraries are imported here, so that each side pays for its own alone."""
    parser = argparse.ArgumentParser()
    parser.add_argument("side", choices=["ours", *PEERS])
    parser.add_argument("case", choices=CASES)
    parser.add_argument("steps", type=int)
    parser.add_argument("threads", type=int)
    args = parser.parse_args()
    asked = CASES[args.case], args.steps, args.threads
    if args.side == "ours":
        found, packages = importlib.import_module("benchmarks.speed.ours").measure(*asked), ("cairn-rl", "torch")
    else:
        found = importlib.import_module("benchmarks.speed.theirs").measure(*asked, args.side)
        packages = (args.side, "jax" if args.side == "sbx-rl" else "torch")
    print(json.dumps({"timing": asdict(found), "versions": versions(*packages, "gymnasium", "numpy")}))


if __name__ == "__main__":
    main()
