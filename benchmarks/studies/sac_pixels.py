"""SAC from pixels beside SAC from state, after the same number of updates on one MuJoCo task.

Writes results/studies/sac-pixels.json:

    python -m benchmarks.studies.sac_pixels --seeds 101 102 103 --device cuda

Pixels are three frames of 84 x 84, drawn from the positions that MuJoCo computes: as fast as MuJoCo steps, and without
OpenGL. The camera follows the cart. `--picture` changes what they show, one thing at a time:

    drawn      a bright pole, cart and rail; the rail's ends and a mark below its middle tell where the cart is
    unplaced   without ends and mark: as the task's own camera shows it, if it follows the cart
    dim        at a quarter of the brightness
    colour     channels last, three per frame
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import deque
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import cairn
from benchmarks.store import STUDIES, save
from cairn.envs.task import Task

TASK, SIDE, FRAMES = "InvertedPendulum-v5", 84, 3
WIDE, TOP = 1.5, 1.0  # of the picture, in metres; its top, above the cart
EPISODES, LAST = 20, 3  # episodes of an evaluation; evaluations that count as the end of a run
SHARED = {"batch_size": 128, "learning_starts": 1_000, "lr": 3e-4, "tau": 0.01, "alpha": 0.1, "layer_norm": True}


class Pixels(gym.ObservationWrapper[Any, Any, Any]):
    """The last frames, drawn, in place of the state."""

    def __init__(self, env: gym.Env[Any, Any], picture: str) -> None:
        super().__init__(env)
        self.picture = picture
        shape = (SIDE, SIDE, 3 * FRAMES) if picture == "colour" else (FRAMES, SIDE, SIDE)
        self.observation_space = gym.spaces.Box(0, 255, shape, np.uint8)
        self.frames: deque[Any] = deque(maxlen=FRAMES)
        self.pixel = WIDE / SIDE
        row, column = np.mgrid[0:SIDE, 0:SIDE] + 0.5
        self.x, self.y = column * self.pixel - WIDE / 2, TOP - row * self.pixel

    def reset(self, **given: Any) -> tuple[Any, dict[str, Any]]:
        self.frames.clear()
        return super().reset(**given)

    def observation(self, observation: Any) -> Any:
        frame = self.draw(*self.env.unwrapped.data.qpos)  # type: ignore[attr-defined]
        self.frames.extend([frame] * (FRAMES - len(self.frames)) or [frame])
        if self.picture == "colour":
            return np.stack(self.frames, -1).repeat(3, -1)
        return np.stack(self.frames)

    def draw(self, cart: float, angle: float) -> Any:
        """The picture: the share of each pixel that is covered, times the brightness of what covers it."""
        tip = 0.6 * np.array([np.sin(angle), np.cos(angle)])
        along = np.clip((self.x * tip[0] + self.y * tip[1]) / 0.36, 0, 1)
        pole = self.covered(np.hypot(self.x - along * tip[0], self.y - along * tip[1]), 0.04)
        body = self.covered(self.x, 0.1) * self.covered(self.y, 0.05)
        rail = self.covered(self.y + 0.15, 0.02)
        ink = [pole, 0.7 * body, 0.5 * rail]
        if self.picture != "unplaced":
            ink[2] = ink[2] * self.covered(self.x + cart, 1.0)
            ink.append(self.covered(self.x + cart, 0.05) * self.covered(self.y + 0.25, 0.05))
        return (255 * (0.25 if self.picture == "dim" else 1.0) * np.maximum.reduce(ink)).astype(np.uint8)

    def covered(self, away: Any, reach: float) -> Any:
        """The share of pixels `away` from a middle that lies within `reach` of it."""
        return np.clip((reach - np.abs(away)) / self.pixel + 0.5, 0, 1)


def state_env() -> gym.Env[Any, Any]:
    """The task as it is."""
    return gym.make(TASK)


def pixel_env(picture: str) -> gym.Env[Any, Any]:
    """The task as a picture."""
    return Pixels(gym.make(TASK), picture)


def settings(view: str) -> dict[str, Any]:
    """What both views share, and what pictures need besides; `default` is the state with SAC's defaults."""
    if view == "default":
        return {}
    return SHARED if view == "state" else {**SHARED, "capacity": 30_000, "random_shift": 4}


def one(view: str, seed: int, steps: int, device: str, out: Path) -> None:
    """A training run; its evaluations go to `out`. `view` is state, default or the name of a picture."""
    curve: list[tuple[int, float]] = []

    def note(progress: Any) -> None:
        if progress.event == "evaluation":
            curve.append((progress.step, progress.metrics["eval/mean_reward"]))
            out.write_text(json.dumps({"view": view, "seed": seed, "curve": curve, "seconds": time.time() - began}))

    began = time.time()
    task = Task(state_env if view in ("state", "default") else partial(pixel_env, view))
    model = cairn.SAC(task, seed=seed, device=device, **settings(view))
    model.learn(steps, callback=note, eval_every=steps // 10, eval_episodes=EPISODES, checkpoint_every=10**9)


def end(run: dict[str, Any]) -> float:
    """The mean of a run's last evaluations."""
    return float(np.mean([score for _, score in run["curve"][-LAST:]]))


def main() -> None:
    """Train every seed with every view, all at once on a GPU, and record the evaluations."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[101, 102, 103])
    parser.add_argument("--steps", type=int, default=12_000, help="decisions of each run, one update each")
    parser.add_argument("--views", nargs="+", default=["default", "state", "drawn"])
    parser.add_argument(
        "--ablate", nargs="*", default=["unplaced", "dim", "colour"], help="pictures for the first seed"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=STUDIES / "sac-pixels.json")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        return one(given.one[0], int(given.one[1]), given.steps, given.device, given.out)
    plan = [(view, seed) for view in given.views for seed in given.seeds]
    plan += [(picture, given.seeds[0]) for picture in given.ablate]
    with tempfile.TemporaryDirectory() as folder:
        runs = {}
        for view, seed in plan:
            file = Path(folder) / f"{view}-{seed}.json"
            command = [sys.executable, "-m", "benchmarks.studies.sac_pixels", "--one", view, str(seed)]
            command += ["--steps", str(given.steps), "--device", given.device, "--out", str(file)]
            runs[file] = subprocess.Popen(command)
            if given.device == "cpu":
                runs[file].wait()
        for process in runs.values():
            process.wait()
        found = [json.loads(file.read_text()) for file in runs if file.exists()]
    last = {view: float(np.mean([end(run) for run in found if run["view"] == view])) for view in dict(plan)}
    states = [last[view] for view in ("default", "state") if view in last]
    entry = {
        "name": f"sac-pixels {TASK}",
        "command": f"python -m benchmarks.studies.sac_pixels --seeds {' '.join(map(str, given.seeds))}"
        f" --steps {given.steps} --device {given.device}",
        "last": last,
        "ratio": last["drawn"] / max(states) if states and "drawn" in last else None,
        "episodes": EPISODES,
        "evaluations": LAST,
        "settings": {view: settings(view) for view in last},
        "runs": found,
    }
    save(entry, given.out)
    print(json.dumps(entry, indent=2))


if __name__ == "__main__":
    main()
