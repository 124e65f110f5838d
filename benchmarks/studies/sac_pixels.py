"""SAC from pixels beside SAC from state, after the same number of updates on one MuJoCo task.

Writes results/studies/sac-pixels.json:

    python -m benchmarks.studies.sac_pixels --seeds 101 102 103 --device cuda

Pixels are the last three frames of 84 x 84 from MuJoCo's own renderer.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import cairn
from benchmarks.store import STUDIES, save
from cairn.envs.task import Task

TASK, SIDE, FRAMES = "InvertedPendulum-v5", 84, 3
CAMERA = {"trackbodyid": 1, "distance": 1.6}
BATCH, EPISODES = 128, 5


class Pixels(gym.ObservationWrapper[Any, Any, Any]):
    """The last frames in place of the state, stacked along the channels."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.observation_space = gym.spaces.Box(0, 255, (SIDE, SIDE, 3 * FRAMES), np.uint8)
        self.frames: deque[Any] = deque(maxlen=FRAMES)

    def reset(self, **given: Any) -> tuple[Any, dict[str, Any]]:
        self.frames.clear()
        return super().reset(**given)

    def observation(self, observation: Any) -> Any:
        frame = self.env.render()
        self.frames.extend([frame] * (FRAMES - len(self.frames)) or [frame])
        return np.concatenate(list(self.frames), -1)


def state_env() -> gym.Env[Any, Any]:
    """The task as it is."""
    return gym.make(TASK)


def pixel_env() -> gym.Env[Any, Any]:
    """The task seen through its renderer."""
    return Pixels(gym.make(TASK, render_mode="rgb_array", width=SIDE, height=SIDE, default_camera_config=CAMERA))


def settings(view: str, shift: int, lr: float) -> dict[str, Any]:
    """What both views share, and what pictures need."""
    shared = {"batch_size": BATCH, "learning_starts": 1_000, "lr": lr}
    return shared if view == "state" else {**shared, "capacity": 30_000, "random_shift": shift}


def one(view: str, seed: int, steps: int, device: str, shift: int, lr: float, out: Path) -> None:
    """A training run; its evaluations go to `out`."""
    curve: list[tuple[int, float]] = []

    def note(progress: Any) -> None:
        if progress.event == "evaluation":
            curve.append((progress.step, progress.metrics["eval/mean_reward"]))
            out.write_text(json.dumps({"view": view, "seed": seed, "curve": curve, "seconds": time.time() - began}))

    began = time.time()
    task = Task(pixel_env if view == "pixels" else state_env)
    model = cairn.SAC(task, seed=seed, device=device, **settings(view, shift, lr))
    model.learn(steps, callback=note, eval_every=steps // 5, eval_episodes=EPISODES, checkpoint_every=10**9)


def main() -> None:
    """Train every seed with both views, all at once on a GPU, and record the evaluations."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[101, 102, 103])
    parser.add_argument("--steps", type=int, default=20_000, help="decisions of each run, one update each")
    parser.add_argument("--views", nargs="+", default=["state", "pixels"])
    parser.add_argument("--shift", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=STUDIES / "sac-pixels.json")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        return one(given.one[0], int(given.one[1]), given.steps, given.device, given.shift, given.lr, given.out)
    with tempfile.TemporaryDirectory() as folder:
        runs = {}
        for view in given.views:
            for seed in given.seeds:
                file = Path(folder) / f"{view}-{seed}.json"
                command = [sys.executable, "-m", "benchmarks.studies.sac_pixels", "--one", view, str(seed)]
                command += [
                    "--steps",
                    str(given.steps),
                    "--device",
                    given.device,
                    "--shift",
                    str(given.shift),
                    "--lr",
                    str(given.lr),
                ]
                runs[file] = subprocess.Popen([*command, "--out", str(file)])
                if given.device == "cpu":
                    runs[file].wait()
        for process in runs.values():
            process.wait()
        found = [json.loads(file.read_text()) for file in runs if file.exists()]
    last = {v: float(np.mean([r["curve"][-1][1] for r in found if r["view"] == v])) for v in given.views}
    entry = {
        "name": f"sac-pixels {TASK}",
        "command": f"python -m benchmarks.studies.sac_pixels --seeds {' '.join(map(str, given.seeds))}"
        f" --steps {given.steps} --shift {given.shift} --lr {given.lr} --device {given.device}",
        "last": last,
        "ratio": last["pixels"] / last["state"] if len(last) == 2 else None,
        "episodes": EPISODES,
        "settings": {view: settings(view, given.shift, given.lr) for view in given.views},
        "runs": found,
    }
    save(entry, given.out)
    print(json.dumps(entry, indent=2))


if __name__ == "__main__":
    main()
