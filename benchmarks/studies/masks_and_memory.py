"""Action masks and memory beside sb3-contrib: the same tasks, settings, steps and evaluations on both sides.

Writes results/studies/masks-and-memory.json:

    python -m benchmarks.studies.masks_and_memory --seeds 101 102 103 [--only NAME ...]

    invalid-*   sb3-contrib's InvalidActionEnv family, which MaskablePPO is tested on: choose what is shown, by masks
                that forbid most other actions
    taxi        Gymnasium's Taxi, whose mask is in `info`
    cartpole    CartPole without its velocities, beside RecurrentPPO with the settings and networks of its own test

Both sides see PPO's settings of `shared` and an LSTM of the same size, unrolled over whole rollouts. After every
`every` steps, right after an update, the policy plays the same number of fresh episodes, without sampling. Steps to the
bar are those before the first such evaluation that reaches it. Needs sb3-contrib.

InvalidActionEnv draws its masks from NumPy's global generator, from which Cairn's look at a task before training, which
is limited in time, draws too: such a run is not repeatable, and its steps to the bar vary by some evaluations.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

import cairn
from benchmarks.store import STUDIES, save
from cairn.envs.task import Task

RECORD = STUDIES / "masks-and-memory.json"
SIDES = ("cairn", "sb3-contrib")
LAST = 3  # evaluations that count as the end of a run


class Positions(gym.ObservationWrapper[Any, Any, Any]):
    """CartPole's position and angle, without the velocities."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.observation_space = gym.spaces.Box(-10, 10, (2,), np.float32)

    def observation(self, observation: Any) -> Any:
        return observation[[0, 2]]


def positions() -> gym.Env[Any, Any]:
    """CartPole that hides its velocities."""
    return Positions(gym.make("CartPole-v1"))


def invalid(kind: str, **size: Any) -> gym.Env[Any, Any]:
    """One of sb3-contrib's InvalidActionEnv family."""
    from sb3_contrib.common import envs

    made: gym.Env[Any, Any] = getattr(envs, f"InvalidActionEnv{kind}")(**size)
    return made


def taxi() -> gym.Env[Any, Any]:
    """Taxi as it is: Cairn reads the mask from `info`."""
    return gym.make("Taxi-v4")


class Told(gym.Wrapper[Any, Any, Any, Any]):
    """The mask of `info` as the method that MaskablePPO asks for."""

    mask: Any = None

    def reset(self, **given: Any) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(**given)
        self.mask = info["action_mask"]
        return obs, info

    def step(self, action: Any) -> Any:
        *told, info = self.env.step(action)
        self.mask = info["action_mask"]
        return *told, info

    def action_masks(self) -> Any:
        return np.asarray(self.mask, bool)


@dataclass(frozen=True)
class Case:
    """A task, the score that solves it, and settings of PPO by Cairn's names."""

    make: Callable[[], gym.Env[Any, Any]]
    bar: float
    steps: int
    every: int
    shared: dict[str, Any]
    wrap: Any = None  # what sb3-contrib needs around the task
    memory: int = 0  # units
    normalise: tuple[str, ...] = ()  # what running statistics normalise: obs, reward
    episodes: int = 20


SMALL = {"envs": 4, "horizon": 128, "batch_size": 64, "epochs": 10, "lr": 1e-3, "gamma": 0.4, "lam": 0.95, "clip": 0.2}
TAXI = {"envs": 8, "horizon": 128, "batch_size": 128, "epochs": 10, "lr": 1e-3, "gamma": 0.98, "lam": 0.95, "clip": 0.2}
TAXI |= {"entropy_weight": 0.01}
POLE = {"envs": 8, "horizon": 128, "batch_size": 256, "epochs": 10, "lr": 7e-4, "gamma": 0.99, "lam": 0.98, "clip": 0.2}
CASES = {
    "invalid-discrete": Case(partial(invalid, "Discrete", dim=80, n_invalid_actions=60), 90, 15_360, 512, SMALL),
    "invalid-multidiscrete": Case(
        partial(invalid, "MultiDiscrete", dims=[10, 10], n_invalid_actions=10), 90, 7_680, 512, SMALL
    ),
    "invalid-multibinary": Case(partial(invalid, "MultiBinary", dims=10, n_invalid_actions=5), 90, 7_680, 512, SMALL),
    "taxi": Case(taxi, 7.0, 81_920, 5_120, TAXI, wrap=Told, episodes=50, normalise=("reward",)),
    "cartpole-positions": Case(
        positions, 475, 40_960, 5_120, {**POLE, "max_norm": 1.0}, memory=64, normalise=("obs", "reward")
    ),
}
THEIRS = {"horizon": "n_steps", "epochs": "n_epochs", "lr": "learning_rate", "lam": "gae_lambda", "clip": "clip_range"}
THEIRS |= {"max_norm": "max_grad_norm", "entropy_weight": "ent_coef"}


def ours(case: Case, seed: int, note: Callable[[int, float], None]) -> None:
    """Train Cairn's PPO; `note` gets every evaluation."""
    settings: dict[str, Any] = {"hidden": (64, 64), **case.shared}
    settings |= {f"normalise_{what}": True for what in case.normalise}
    if case.memory:
        settings |= {"memory": "lstm", "memory_size": case.memory, "sequence": case.shared["horizon"]}

    def told(progress: Any) -> None:
        if progress.event == "evaluation":
            note(progress.step, progress.metrics["eval/mean_reward"])

    model = cairn.PPO(Task(case.make), seed=seed, **settings)
    model.learn(case.steps, callback=told, eval_every=case.every, eval_episodes=case.episodes, checkpoint_every=10**9)


def theirs(case: Case, seed: int, note: Callable[[int, float], None]) -> None:
    """Train MaskablePPO or RecurrentPPO; evaluated right after an update, as Cairn is."""
    from sb3_contrib import MaskablePPO, RecurrentPPO
    from sb3_contrib.common.maskable.evaluation import evaluate_policy as masked
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy as plain
    from stable_baselines3.common.vec_env import VecNormalize

    def make() -> gym.Env[Any, Any]:
        return case.make() if case.wrap is None else case.wrap(case.make())

    settings = {THEIRS.get(name, name): value for name, value in case.shared.items() if name != "envs"}
    envs = make_vec_env(make, case.shared["envs"], seed=seed)
    judge = make_vec_env(make, case.episodes, seed=10_000 + seed)  # an episode each
    if case.normalise:
        shown, paid = "obs" in case.normalise, "reward" in case.normalise
        envs = VecNormalize(envs, norm_obs=shown, norm_reward=paid, gamma=case.shared["gamma"])
        judge = VecNormalize(judge, training=False, norm_obs=shown, norm_reward=False)
        if shown:
            judge.obs_rms = envs.obs_rms
    evaluate: Any = plain if case.memory else masked
    cls: Any = RecurrentPPO if case.memory else MaskablePPO
    if case.memory:
        net = {"pi": [], "vf": [64]}
        settings["policy_kwargs"] = {"lstm_hidden_size": case.memory, "net_arch": net, "ortho_init": False}
    model = cls("MlpLstmPolicy" if case.memory else "MlpPolicy", envs, seed=seed, device="cpu", **settings)

    def judged() -> None:
        note(model.num_timesteps, float(evaluate(model, judge, case.episodes, deterministic=True)[0]))

    class Judge(BaseCallback):  # type: ignore[misc]
        def _on_step(self) -> bool:
            return True

        def _on_rollout_start(self) -> None:
            if model.num_timesteps and model.num_timesteps % case.every == 0:
                judged()

    model.learn(case.steps, callback=Judge())
    judged()


def measured(case: Case, side: str, seed: int) -> dict[str, Any]:
    """One run: its evaluations, steps to the bar, last score and seconds, evaluations included."""
    curve: list[tuple[int, float]] = []
    np.random.seed(seed)  # what InvalidActionEnv draws its masks from
    began = time.perf_counter()
    (ours if side == "cairn" else theirs)(case, seed, lambda step, score: curve.append((step, round(score, 3))))
    return {
        "side": side,
        "seed": seed,
        "steps to bar": next((step for step, score in curve if score >= case.bar), None),
        "last": round(float(np.mean([score for _, score in curve[-LAST:]])), 3),
        "seconds": round(time.perf_counter() - began, 1),
        "curve": curve,
    }


def record(name: str, runs: list[dict[str, Any]], path: Path) -> None:
    """Add the runs of a seed to those with the same settings, in place of earlier ones of this seed."""
    case = CASES[name]
    entry: dict[str, Any] = {
        "name": name,
        "command": f"python -m benchmarks.studies.masks_and_memory --only {name}",
        "bar": case.bar,
        "steps": case.steps,
        "every": case.every,
        "episodes": case.episodes,
        "evaluations": LAST,
        "settings": {**case.shared, "memory": case.memory, "normalise": list(case.normalise)},
        "versions": {one: version(one) for one in ("sb3-contrib", "stable-baselines3", "gymnasium", "torch")},
    }
    known = json.loads(path.read_text()) if path.exists() else []
    same = [old["runs"] for old in known if all(old.get(key) == value for key, value in entry.items())]
    before = [run for old in same for run in old if run["seed"] != runs[0]["seed"]]
    save({**entry, "runs": sorted(before + runs, key=lambda run: (run["seed"], run["side"]))}, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[101, 102, 103])
    parser.add_argument("--only", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--out", type=Path, default=RECORD)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for seed in given.seeds:
        for name in given.only:
            runs = [measured(CASES[name], side, seed) for side in SIDES]
            for run in runs:
                told = {key: value for key, value in run.items() if key != "curve"}
                print(name, json.dumps(told), flush=True)
            record(name, runs, given.out)


if __name__ == "__main__":
    main()
