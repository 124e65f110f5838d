"""`python -m benchmarks.speed.time_to_target --name bipedal-300 [--seeds 1 2 3] [--limit-seconds 1800]`

Seconds until a score.

Each library runs its own published settings for the task, one after the other, each in a process of its own. Cairn has
no recipe for LunarLander: there it runs the peer's settings too. The clock counts training alone: it stands still
during evaluations, which both play deterministically on the same seeds, none of them seen in training. `reach` is the
same for FetchReach.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from benchmarks.speed.cases import PEER
from benchmarks.speed.child import in_fresh_process, versions
from benchmarks.speed.memory import peak_memory_mb
from benchmarks.speed.timing import Clock
from benchmarks.store import RESULTS, save

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv

    from cairn.recipes.recipe import Recipe

EVAL_SEED = 10_000  # the first of the evaluation seeds; training's are far from it on both sides


@dataclass(frozen=True)
class Zoo:
    """Settings of RL Baselines3 Zoo, the peer's own recipes."""

    envs: int
    vec_env: Literal["DummyVecEnv", "SubprocVecEnv"]
    ppo: dict[str, Any]  # "lin_X" falls from X to 0 over `steps`, as in the zoo's files
    steps: int  # after which it gives up
    normalize: bool = True  # observations and rewards, by VecNormalize


@dataclass(frozen=True)
class Target:
    """Reach a mean of `score` over `episodes` episodes, judged after the first update past each `every` steps."""

    env: str
    score: float
    recipe: str  # ours; "" runs the zoo's settings
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
    "cartpole-475": Target(
        env="CartPole-v1",
        score=475.0,
        recipe="cartpole-ppo",
        every=5_000,
        zoo=Zoo(
            envs=8,
            vec_env="DummyVecEnv",
            normalize=False,
            steps=100_000,
            ppo={
                "n_steps": 32,
                "batch_size": 256,
                "gae_lambda": 0.8,
                "gamma": 0.98,
                "n_epochs": 20,
                "ent_coef": 0.0,
                "learning_rate": "lin_0.001",
                "clip_range": "lin_0.2",
            },
        ),
    ),
    "lander-200": Target(
        env="LunarLander-v3",
        score=200.0,
        recipe="",
        every=25_000,
        zoo=Zoo(
            envs=16,
            vec_env="DummyVecEnv",
            normalize=False,
            steps=1_000_000,
            ppo={
                "n_steps": 1024,
                "batch_size": 64,
                "gae_lambda": 0.98,
                "gamma": 0.999,
                "n_epochs": 4,
                "ent_coef": 0.01,
                "learning_rate": 3e-4,
                "clip_range": 0.2,
            },
        ),
    ),
    "bipedal-300": Target(
        env="BipedalWalker-v3",
        score=300.0,
        recipe="bipedal-ppo",
        zoo=Zoo(
            envs=32,
            vec_env="DummyVecEnv",
            steps=5_000_000,
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
    ),
}


def recipe_of(target: Target, seed: int) -> Recipe:
    """Cairn's recipe, or the zoo's settings in Cairn's names."""
    from cairn.algorithms import PPOConfig
    from cairn.core.schedules import constant
    from cairn.recipes import find
    from cairn.recipes.recipe import Recipe

    if target.recipe:
        return replace(find(target.recipe), seed=seed, eval_every=target.every)
    zoo, ppo = target.zoo, target.zoo.ppo
    agent = PPOConfig(
        horizon=ppo["n_steps"],
        batch_size=ppo["batch_size"],
        lam=ppo["gae_lambda"],
        gamma=ppo["gamma"],
        epochs=ppo["n_epochs"],
        entropy_weight=constant(ppo["ent_coef"]),
        lr=constant(ppo["learning_rate"]),
        clip=constant(ppo["clip_range"]),
    )
    return Recipe(env=target.env, agent=agent, steps=zoo.steps, envs=zoo.envs, seed=seed, eval_every=target.every)


def ours(target: Target, seed: int, limit: float, threads: int) -> Attempt:
    """Cairn's recipe as it ships, but for when it is evaluated; nothing is written to disk."""
    import torch

    from cairn.algorithms import build
    from cairn.algorithms.on_policy import on_policy
    from cairn.algorithms.registry import able_by_hand
    from cairn.collect.local import LocalCollector
    from cairn.core.agent import Agent
    from cairn.core.memory import keep_freed_memory
    from cairn.core.seeding import derive
    from cairn.native.use import by_hand, resolved
    from cairn.runs.evaluation import as_policy, evaluate
    from cairn.runs.run import Run
    from cairn.vector.choose import make_vector

    recipe = recipe_of(target, seed)
    keep_freed_memory()  # as train() does
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

    able = able_by_hand(agent)
    try:
        run = Race(recipe, None)
        run.progress_line.live = False  # evaluations are told line by line
        with by_hand(resolved(recipe.native, able), able):
            on_policy(agent, LocalCollector(envs, "cpu"), None, run)
        attempt.steps, attempt.memory_mb = run.step, peak_memory_mb()
    finally:
        envs.close()
        judges.close()
    return attempt


def theirs(target: Target, seed: int, limit: float, threads: int) -> Attempt:
    """The zoo's settings, judged by a callback between rollouts."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import sync_envs_normalization

    from benchmarks.speed.theirs import silent

    torch.set_num_threads(threads)
    zoo = target.zoo
    discount = zoo.ppo["gamma"] if zoo.normalize else None
    envs, judges = their_envs(target.env, zoo.envs, target.episodes, seed=seed, vec_env=zoo.vec_env, normalize=discount)
    settings = {name: falling(value) for name, value in zoo.ppo.items()}
    model = PPO("MlpPolicy", envs, seed=seed, device="cpu", verbose=0, **settings)
    model.set_logger(silent())
    attempt, clock = Attempt(), Clock()

    class Judge(BaseCallback):
        before, solved = 0, False

        def _on_rollout_start(self) -> None:  # the policy was just improved
            if self.num_timesteps // target.every == self.before or self.solved:
                return
            self.before, seconds = self.num_timesteps // target.every, clock.seconds
            with clock.paused():
                if zoo.normalize:
                    sync_envs_normalization(envs, judges)  # judged with the statistics it was trained with
                judges.seed(EVAL_SEED)
                mean, _ = evaluate_policy(model, judges, target.episodes, deterministic=True)
                self.solved = attempt.note(seconds, self.num_timesteps, float(mean), target.score)  # type: ignore[arg-type]

        def _on_training_end(self) -> None:
            self._on_rollout_start()

        def _on_step(self) -> bool:
            return not self.solved and clock.seconds < limit

    model.learn(zoo.steps, callback=Judge())
    attempt.steps, attempt.memory_mb = model.num_timesteps, peak_memory_mb()
    envs.close()
    judges.close()
    return attempt


def falling(value: Any) -> Any:
    """A setting of the zoo: "lin_X" as a function of the share of steps that is left."""
    if not isinstance(value, str):
        return value
    first = float(value.removeprefix("lin_"))
    return lambda left: first * left


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


def entry_of(args: argparse.Namespace, us: list[Attempt], them: list[Attempt]) -> dict[str, Any]:
    """`ratio` is theirs over ours, so that above 1 is in Cairn's favour, as everywhere in the file."""
    target = TARGETS[args.name]
    our_s, their_s = (middle([a.seconds for a in side]) for side in (us, them))
    sides: dict[str, Any] = {}
    for name, side in (("ours", us), ("theirs", them)):
        sides |= {
            f"all_{name}": [rounded(a.seconds) for a in side],
            f"steps_all_{name}": [a.steps for a in side],
            f"best_mean_{name}": [rounded(a.best) for a in side],
            f"curves_{name}": [a.curve for a in side],
        }
    return {
        "name": args.name,
        "peer": PEER,
        "ours": rounded(our_s),
        "theirs": rounded(their_s),
        "ratio": round(their_s / our_s, 3) if our_s and their_s else None,
        "unit": f"s to a mean of {target.score:g}",
        "memory_ours_mb": round(max(a.memory_mb for a in us)),
        "memory_theirs_mb": round(max(a.memory_mb for a in them)),
        "settings": {
            **asdict(target),
            "seeds": args.seeds,
            "limit_seconds": args.limit_seconds,
            "threads_ours": args.threads,
            "threads_theirs": args.threads,
            "device": "cpu",
            "cores": os.cpu_count(),
            "versions": versions(),
            "command": f"python -m benchmarks.speed.time_to_target --name {args.name}",
            **sides,
        },
        "repeats": len(us),
    }


def middle(values: list[float | None]) -> float | None:
    """The median, one that was not reached standing above all others; None where that is the median."""
    found = median(float("inf") if value is None else value for value in values)
    return None if found == float("inf") else found


def rounded(value: float | None) -> float | None:
    return None if value is None or value == float("-inf") else round(value, 1)


def _told(attempt: Attempt) -> str:
    if attempt.seconds is not None:
        return f"{attempt.seconds:,.0f} s"
    return f"not within the limit (best mean {rounded(attempt.best)})"


def race(args: argparse.Namespace) -> dict[str, Any]:
    """Both sides in turn for each seed; their evaluations are told as they come."""
    attempts: dict[str, list[Attempt]] = {side: [] for side in SIDES}
    for seed in args.seeds:
        for side, found in attempts.items():
            print(f"{args.name}, seed {seed}: {side}", flush=True)
            words = [f"--name={args.name}", f"--seeds={seed}", f"--limit-seconds={args.limit_seconds}"]
            words += [f"--threads={args.threads}", f"--side={side}"]
            told = in_fresh_process("benchmarks.speed.time_to_target", *words, threads=args.threads, quiet=False)
            found.append(Attempt(**told))
            print(f"{args.name}, seed {seed}: {side} {_told(found[-1])}", flush=True)
    return entry_of(args, attempts["ours"], attempts["theirs"])


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.time_to_target", description="Seconds until a score."
    )
    parser.add_argument("--name", choices=TARGETS, default="bipedal-300")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--limit-seconds", type=float, default=1800.0, help="of training, for each side and seed")
    parser.add_argument("--threads", type=int, default=2, help="of torch, on both sides")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results are kept")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)  # how a side's own process is started
    args = parser.parse_args()
    if args.side:
        attempt = SIDES[args.side](TARGETS[args.name], args.seeds[0], args.limit_seconds, args.threads)
        print(json.dumps(asdict(attempt)))
        return
    entry = race(args)
    save(entry, args.out)
    print(f"{entry['name']}: {entry['ours']} / {entry['theirs']} {entry['unit']}, medians of {entry['repeats']}")


if __name__ == "__main__":
    main()
