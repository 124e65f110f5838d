"""`python -m benchmarks.speed.time_to_target --name bipedal-300 [--seed 1] [--limit-seconds 1800]`

Seconds until a score.

Each library runs its own published settings for the task, one after the other, each in a process of its own. The clock
counts training alone: it stands still during evaluations, which both play deterministically on the same seeds, none of
them seen in training.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from benchmarks.speed.cases import PEER
from benchmarks.speed.child import in_fresh_process, versions
from benchmarks.speed.memory import peak_memory_mb
from benchmarks.speed.timing import Clock
from benchmarks.store import RESULTS, save

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv

EVAL_SEED = 10_000  # the first of the evaluation seeds; training's are far from it on both sides


@dataclass(frozen=True)
class Zoo:
    """Settings of RL Baselines3 Zoo, the peer's own recipes."""

    envs: int
    vec_env: Literal["DummyVecEnv", "SubprocVecEnv"]
    ppo: dict[str, Any]
    normalize: bool = True  # observations and rewards, by VecNormalize


@dataclass(frozen=True)
class Target:
    """Reach a mean of `score` over `episodes` episodes, judged after the first update past each `every` steps."""

    env: str
    score: float
    recipe: str  # ours
    zoo: Zoo  # theirs
    every: int = 100_000
    episodes: int = 20


@dataclass
class Attempt:
    """How one side fared. `seconds` is None where the limit came first."""

    seconds: float | None = None
    total_seconds: float | None = None  # the same with evaluations, where it is told
    best: float = float("-inf")
    steps: int = 0
    memory_mb: float = 0.0
    curve: list[tuple[float, int, float]] = field(default_factory=list)  # seconds, steps, mean

    def note(self, seconds: float, steps: int, mean: float, score: float) -> bool:
        """Keep one evaluation; True where the target is reached."""
        self.best = max(self.best, mean)
        self.curve.append((round(seconds, 1), steps, round(mean, 1)))
        print(f"  {seconds:7.0f} s  {steps:>9,} steps  mean {mean:7.1f}", file=sys.stderr, flush=True)
        if mean >= score:
            self.seconds = seconds
        return mean >= score


TARGETS = {
    "bipedal-300": Target(
        env="BipedalWalker-v3",
        score=300.0,
        recipe="bipedal-ppo",
        zoo=Zoo(
            envs=32,
            vec_env="DummyVecEnv",
            ppo={
                "n_steps": 2048,
                "batch_size": 64,
                "gae_lambda": 0.95,
                "gamma": 0.999,
                "n_epochs": 10,
                "ent_coef": 0.0,
                "learning_rate": 3e-4,
                "clip_range": 0.18,
            },
        ),
    )
}


def ours(target: Target, seed: int, limit: float, threads: int) -> Attempt:
    """Cairn's recipe as it ships, but for when it is evaluated; nothing is written to disk."""
    import torch

    from cairn.algorithms import build
    from cairn.algorithms.on_policy import on_policy
    from cairn.collect.local import LocalCollector
    from cairn.core.agent import Agent
    from cairn.core.seeding import derive
    from cairn.recipes import find
    from cairn.runs.evaluation import as_policy, evaluate
    from cairn.runs.run import Run
    from cairn.vector.choose import make_vector

    recipe = replace(find(target.recipe), seed=seed, eval_every=target.every)
    torch.set_num_threads(threads)
    envs = make_vector(recipe.task, recipe.envs, backend=recipe.vector)
    judges = make_vector(recipe.task, target.episodes, backend="sync")
    seeds = range(EVAL_SEED, EVAL_SEED + target.episodes)
    agent = build(recipe.agent, envs.spec, seed=derive(seed, "agent"))
    attempt, clock = Attempt(), Clock()

    class Race(Run):
        def evaluate(self, agent: Agent) -> None:
            seconds = clock.seconds
            with clock.paused():
                score = evaluate(as_policy(agent), judges, seeds)
                assert score is not None
                self.solved = attempt.note(seconds, self.step, score.mean, target.score)

        def going(self) -> bool:
            return super().going() and clock.seconds < limit

    try:
        run = Race(recipe, None)
        run.progress_line.live = False  # evaluations are told line by line
        on_policy(agent, LocalCollector(envs, "cpu"), None, run)
        attempt.steps, attempt.memory_mb = run.step, peak_memory_mb()
    finally:
        envs.close()
        judges.close()
    return attempt


def theirs(target: Target, seed: int, limit: float, threads: int) -> Attempt:
    """The zoo's settings; `learn` is called an iteration at a time, which changes nothing as its rates are constant."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import sync_envs_normalization

    from benchmarks.speed.theirs import silent

    torch.set_num_threads(threads)
    zoo = target.zoo
    discount = zoo.ppo["gamma"] if zoo.normalize else None
    envs, judges = their_envs(target.env, zoo.envs, target.episodes, seed=seed, vec_env=zoo.vec_env, normalize=discount)
    model = PPO("MlpPolicy", envs, seed=seed, device="cpu", verbose=0, **zoo.ppo)
    model.set_logger(silent())
    iteration = zoo.envs * zoo.ppo["n_steps"]
    solved = False
    attempt, clock = Attempt(), Clock()
    while clock.seconds < limit and not solved:
        before = model.num_timesteps // target.every
        model.learn(iteration, reset_num_timesteps=False)
        if model.num_timesteps // target.every == before:
            continue
        seconds = clock.seconds
        with clock.paused():
            if zoo.normalize:
                sync_envs_normalization(envs, judges)  # judged with the statistics it was trained with
            judges.seed(EVAL_SEED)
            mean, _ = evaluate_policy(model, judges, target.episodes, deterministic=True)
            solved = attempt.note(seconds, model.num_timesteps, float(mean), target.score)  # type: ignore[arg-type]
    attempt.steps, attempt.memory_mb = model.num_timesteps, peak_memory_mb()
    envs.close()
    judges.close()
    return attempt


def their_envs(
    env: str, count: int, episodes: int, *, seed: int, vec_env: str = "DummyVecEnv", normalize: float | None = None
) -> tuple[VecEnv, VecEnv]:
    """Training environments, and as many others as there are evaluation episodes: one episode, and seed, for each.

    `normalize` is VecNormalize's discount; None leaves observations and rewards as they are.
    """
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    from benchmarks.speed.theirs import VEC_ENVS

    envs: VecEnv = make_vec_env(env, count, seed=seed, vec_env_cls=VEC_ENVS[vec_env])
    judges: VecEnv = make_vec_env(env, episodes, seed=EVAL_SEED)
    if normalize is not None:
        envs = VecNormalize(envs, gamma=normalize)
        judges = VecNormalize(judges, training=False, norm_reward=False)
    return envs, judges


SIDES: dict[str, Callable[[Target, int, float, int], Attempt]] = {"ours": ours, "theirs": theirs}


def entry_of(args: argparse.Namespace, us: Attempt, them: Attempt) -> dict[str, Any]:
    """`ratio` is theirs over ours, so that above 1 is in Cairn's favour, as everywhere in the file."""
    target = TARGETS[args.name]
    return {
        "name": args.name,
        "peer": PEER,
        "ours": rounded(us.seconds),
        "theirs": rounded(them.seconds),
        "ratio": round(them.seconds / us.seconds, 3) if us.seconds and them.seconds else None,
        "unit": f"s to a mean of {target.score:g}",
        "memory_ours_mb": round(us.memory_mb),
        "memory_theirs_mb": round(them.memory_mb),
        "settings": {
            **asdict(target),
            "seed": args.seed,
            "limit_seconds": args.limit_seconds,
            "threads_ours": args.threads,
            "threads_theirs": args.threads,
            "device": "cpu",
            "cores": os.cpu_count(),
            "versions": versions(),
            "steps_ours": us.steps,
            "steps_theirs": them.steps,
            "best_mean_ours": rounded(us.best),
            "best_mean_theirs": rounded(them.best),
            "curve_ours": us.curve,
            "curve_theirs": them.curve,
        },
        "repeats": 1,
    }


def rounded(value: float | None) -> float | None:
    return None if value is None or value == float("-inf") else round(value, 1)


def _told(attempt: Attempt) -> str:
    if attempt.seconds is not None:
        return f"{attempt.seconds:,.0f} s"
    return f"not within the limit (best mean {rounded(attempt.best)})"


def race(args: argparse.Namespace) -> dict[str, Any]:
    """Both sides, one after the other; their evaluations are told as they come."""
    attempts = []
    for side in SIDES:
        print(f"{args.name}, seed {args.seed}: {side}", flush=True)
        words = [f"--name={args.name}", f"--seed={args.seed}", f"--limit-seconds={args.limit_seconds}"]
        words += [f"--threads={args.threads}", f"--side={side}"]
        found = in_fresh_process("benchmarks.speed.time_to_target", *words, threads=args.threads, quiet=False)
        attempts.append(Attempt(**found))
        print(f"{args.name}, seed {args.seed}: {side} {_told(attempts[-1])}", flush=True)
    return entry_of(args, *attempts)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.time_to_target", description="Seconds until a score."
    )
    parser.add_argument("--name", choices=TARGETS, default="bipedal-300")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit-seconds", type=float, default=1800.0, help="of training, for each side")
    parser.add_argument("--threads", type=int, default=2, help="of torch, on both sides")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results are kept")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)  # how a side's own process is started
    args = parser.parse_args()
    if args.side:
        attempt = SIDES[args.side](TARGETS[args.name], args.seed, args.limit_seconds, args.threads)
        print(json.dumps(asdict(attempt)))
    else:
        save(race(args), args.out)


if __name__ == "__main__":
    main()
