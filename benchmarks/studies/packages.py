"""Other people's packages of tasks, each trained by one `cairn train` and scored by `cairn eval` on fresh episodes.

Writes results/studies/packages.json, from which docs/refresh.py makes the table of docs/packages.md:

    python -m benchmarks.studies.packages --seeds 101 102 103 [--only NAME ...] [--python PYTHON]

The packages are not dependencies of Cairn: `pip` of an entry is what installs them. Some need versions of MuJoCo that
others refuse; --python is the interpreter of an environment that has the packages of the chosen entries. A score is
what `cairn eval` gives the run folder, which is its best policy. `--only` and other seeds leave what is recorded alone.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.store import STUDIES, save
from cairn.runs.curves import evaluations

RECORD = STUDIES / "packages.json"
EPISODES = 100
ALWAYS = ("gymnasium", "torch", "numpy")  # versions that belong to every entry


@dataclass(frozen=True)
class Case:
    """One task: what is typed after `cairn train --env`, what pip installs, and the score that counts as solved."""

    command: str
    pip: str
    bar: float | None = None  # None: no score is known as solved
    metric: str = "return"
    packages: tuple[str, ...] = ()  # whose versions are recorded besides
    episodes: int = EPISODES  # of the score


DOOR = "--agent ppo --envs 16 --agent.horizon 128 --agent.batch-size 256 --agent.entropy-weight 0.01"
REPEAT = "--agent ppo --envs 16 --agent.horizon 102 --agent.batch-size 256 --agent.lr 1e-3"
GOALS = "--agent sac --hindsight future --metric success --agent.gamma 0.95"
CASES = {
    "minigrid-empty": Case("minigrid:MiniGrid-Empty-5x5-v0 --agent ppo --steps 30000", "minigrid", 0.9),
    "minigrid-doorkey": Case(f"minigrid:MiniGrid-DoorKey-5x5-v0 {DOOR} --steps 120000", "minigrid", 0.9),
    "bsuite-catch": Case(
        "shimmy:bsuite/catch-v0 --agent dqn --steps 20000", "shimmy[bsuite]", 1.0, packages=("bsuite",)
    ),
    "popgym-repeat": Case(
        f"popgym:popgym-RepeatPreviousEasy-v0 {REPEAT} --agent.memory gru --steps 200000", "popgym", 0.8
    ),
    "popgym-repeat-forgetful": Case(f"popgym:popgym-RepeatPreviousEasy-v0 {REPEAT} --steps 200000", "popgym"),
    "panda-reach": Case(
        f"panda_gym:PandaReach-v3 {GOALS} --agent.hidden 128 128 --agent.batch-size 128"
        " --eval-every 3000 --steps 12000",
        "panda-gym",
        0.9,
        "success",
        ("pybullet",),
    ),
    # an episode pays 0 or 1, and the best policy 0.74 on average: the mean of 100 is off by 0.04
    "frozen-lake": Case(
        "FrozenLake-v1 --agent ppo --steps 100000 --eval-episodes 100", "gymnasium[toy-text]", 0.7, episodes=1000
    ),
    "frozen-lake-dqn": Case(
        "FrozenLake-v1 --agent dqn --steps 50000 --eval-episodes 100", "gymnasium[toy-text]", 0.7, episodes=1000
    ),
    "dm-control-cartpole": Case(
        "shimmy:dm_control/cartpole-balance-v0 --agent sac --agent.hidden 64 64 --agent.batch-size 128"
        " --eval-every 5000 --eval-episodes 5 --steps 15000",
        "shimmy[dm-control]",
        900,
        packages=("dm_control", "mujoco"),
    ),
    "parking": Case(
        f"highway_env:parking-v0 {GOALS} --agent.hidden 128 128 --agent.batch-size 128 --eval-every 5000 --steps 20000",
        "highway-env",
        0.9,
        "success",
    ),
    "minatar-breakout": Case(
        "minatar.gym:MinAtar/Breakout-v1 --agent ppo --envs 16 --agent.horizon 128 --agent.batch-size 256"
        " --agent.entropy-weight 0.01 --steps 200000 --eval-every 50000",
        "minatar",
        10,
    ),
    "meta-world-reach": Case(
        'metaworld:Meta-World/MT1 --env-args \'{"env_name": "reach-v3"}\' --agent sac --metric success --steps 20000',
        "metaworld",
        0.9,
        "success",
        ("mujoco",),
    ),
}


def versions(python: str, names: list[str]) -> dict[str, str]:
    """What is installed of some packages, by the names that pip knows."""
    code = "import sys, json, importlib.metadata as m; print(json.dumps({n: m.version(n) for n in sys.argv[1:]}))"
    return last_object(cairn(python, ["-c", code, *names]))


def cairn(python: str, args: list[str]) -> str:
    """The standard output of the interpreter with these arguments; one that fails ends the study."""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run([python, *args], env=env, check=True, stdout=subprocess.PIPE, text=True).stdout


def last_object(text: str) -> dict[str, Any]:
    """The last line that is a JSON object; some simulators write lines of their own."""
    line = next(line for line in reversed(text.splitlines()) if line.startswith("{"))
    found: dict[str, Any] = json.loads(line)
    return found


def trained(python: str, case: Case, seed: int, folder: Path) -> dict[str, Any]:
    """One seed: steps and seconds of the training, its evaluations, and the score of the kept policy."""
    args = ["train", "--env", *shlex.split(case.command), "--seed", str(seed), "--out", str(folder)]
    cairn(python, ["-m", "cairn", *args])
    args = ["eval", str(folder), "--trust", "--json", "--episodes", str(case.episodes)]
    told = last_object(cairn(python, ["-m", "cairn", *args]))
    curve = evaluations(folder, case.metric)
    first = next((point for point in curve if case.bar is not None and point.value >= case.bar), None)
    return {
        "seed": seed,
        "steps": curve[-1].step,
        "seconds": round(curve[-1].seconds, 1),
        "score": told["success" if case.metric == "success" else "mean"],
        "std": told["std"],
        "last": curve[-1].value,
        "steps to bar": first.step if first else None,
        "seconds to bar": round(first.seconds, 1) if first else None,
    }


def record(name: str, run: dict[str, Any], python: str, path: Path) -> None:
    """Add a run to those of the same command, in place of one of the same seed."""
    case = CASES[name]
    entry: dict[str, Any] = {
        "name": name,
        "command": f"cairn train --env {case.command}",
        "pip": case.pip,
        "metric": case.metric,
        "bar": case.bar,
        "episodes": case.episodes,
        "versions": versions(python, [case.pip.partition("[")[0], *case.packages, *ALWAYS]),
    }
    known = json.loads(path.read_text()) if path.exists() else []
    same = [old for old in known if all(old[key] == entry[key] for key in ("name", "command", "episodes"))]
    before = [one for old in same for one in old["runs"]]
    runs = [one for one in before if one["seed"] != run["seed"]] + [run]
    save({**entry, "runs": sorted(runs, key=lambda one: one["seed"])}, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[101, 102, 103])
    parser.add_argument("--only", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--python", default=sys.executable, help="interpreter that has the packages")
    parser.add_argument("--out", type=Path, default=RECORD)
    given = parser.parse_args()
    for seed in given.seeds:
        for name in given.only:
            with tempfile.TemporaryDirectory() as root:
                run = trained(given.python, CASES[name], seed, Path(root) / "run")
            print(name, json.dumps(run), flush=True)
            record(name, run, given.python, given.out)


if __name__ == "__main__":
    main()
