"""`python -m benchmarks.speed.reach [--seeds 1 2 3] [--limit 300]`

Seconds until an evaluation on FetchReach without a failure.

Cairn's recipe fetch-reach-her beside Stable-Baselines3's SAC with HerReplayBuffer, in turn for each seed, one at a
time, each in a process of its own. Both are judged after every 1,000 steps by 50 episodes on the same seeds, played
deterministically on other environments than they train in, and stop at the first evaluation without a failure.

The clock starts when everything is imported and the peer's environments are made, but not Cairn's. It stands still
during evaluations; the total, which counts them, is told beside it. Cairn writes its run folder meanwhile, the peer
nothing.

The peer runs twice: "zoo" is what RL Baselines3 Zoo has for FetchReach (two layers of 64, VecNormalize), "plain" the
same with the peer's own network (two layers of 256) and nothing normalised.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.speed.cases import PEER
from benchmarks.speed.child import in_fresh_process, versions
from benchmarks.speed.time_to_target import EVAL_SEED, Attempt, middle, rounded, their_envs
from benchmarks.speed.timing import Clock
from benchmarks.store import RESULTS, save

ENV, RECIPE = "FetchReach-v4", "fetch-reach-her"
EVERY, EPISODES = 1_000, 50
SAC: dict[str, Any] = {
    "learning_rate": 1e-3,
    "gamma": 0.95,
    "batch_size": 256,
    "learning_starts": 1_000,
    "buffer_size": 1_000_000,
    "ent_coef": "auto",
}
HER: dict[str, Any] = {"n_sampled_goal": 4, "goal_selection_strategy": "future"}
PEERS: dict[str, dict[str, Any]] = {
    "zoo": {"normalize": True, "net_arch": [64, 64]},
    "plain": {"normalize": False, "net_arch": [256, 256]},  # SAC's default
}


def ours(seed: int, limit: float, threads: int) -> Attempt:
    """The recipe as it ships, but for `hold` and the seeds of its evaluations: the trainer's Run is told to race."""
    from cairn.core.agent import Agent
    from cairn.recipes import find
    from cairn.recipes.recipe import Recipe
    from cairn.runs import shared_run
    from cairn.runs.evaluation import Score
    from cairn.runs.run import Run
    from cairn.runs.scorer import Scorer
    from cairn.runs.train import train

    import_robotics()
    recipe = replace(
        find(RECIPE), seed=seed, hold=1, target=1.0, eval_every=EVERY, eval_episodes=EPISODES, threads=threads
    )
    attempt, clock = Attempt(), Clock()

    class Race(Run):
        def __init__(self, recipe: Recipe, folder: Path | None, scorer: Scorer, **more: Any) -> None:
            super().__init__(recipe, folder, self.judge, **more)
            self.progress_line.live = False  # evaluations are told line by line
            scorer.seeds = list(range(EVAL_SEED, EVAL_SEED + EPISODES))
            self.scorer = scorer

        def judge(self, agent: Agent, stop: Callable[[], bool]) -> Score | None:
            seconds = clock.seconds
            with clock.paused():
                score = self.scorer(agent, stop)
            assert score is not None and score.success is not None
            note(attempt, clock, seconds, self.step, score.success)
            return score

        def going(self) -> bool:
            if clock.seconds >= limit:
                self.evaluator = None  # no last evaluation after the limit
                return False
            return super().going()

    shared_run.Run = Race  # type: ignore[misc,assignment]
    with TemporaryDirectory() as folder:
        attempt.steps = train(recipe, Path(folder)).step
    assert attempt.curve  # Race was the run
    return attempt


def theirs(seed: int, limit: float, threads: int, peer: str) -> Attempt:
    """Judged by a callback, which ends `learn` at the first evaluation without a failure, or at the limit."""
    import stable_baselines3 as sb3
    import torch
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import sync_envs_normalization

    from benchmarks.speed.theirs import silent

    import_robotics()
    torch.set_num_threads(threads)
    settings = PEERS[peer]
    envs, judges = their_envs(ENV, 1, EPISODES, seed=seed, normalize=SAC["gamma"] if settings["normalize"] else None)
    attempt, clock = Attempt(), Clock()

    class Judge(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps % EVERY:
                return clock.seconds < limit
            seconds, ended = clock.seconds, []
            with clock.paused():
                if settings["normalize"]:
                    sync_envs_normalization(envs, judges)  # judged with the statistics it was trained with
                judges.seed(EVAL_SEED)

                def keep(told: dict[str, Any], _: dict[str, Any]) -> None:
                    if told["done"]:
                        ended.append(float(told["info"]["is_success"]))

                evaluate_policy(model, judges, EPISODES, deterministic=True, callback=keep)
            assert len(ended) == EPISODES
            return not note(attempt, clock, seconds, self.num_timesteps, sum(ended) / EPISODES)

    model = sb3.SAC(
        "MultiInputPolicy",
        envs,
        replay_buffer_class=sb3.HerReplayBuffer,
        replay_buffer_kwargs=HER,
        policy_kwargs={"net_arch": settings["net_arch"]},
        seed=seed,
        device="cpu",
        verbose=0,
        **SAC,
    )
    model.set_logger(silent())
    model.learn(10_000_000, callback=Judge())
    attempt.steps = model.num_timesteps
    return attempt


def note(attempt: Attempt, clock: Clock, seconds: float, steps: int, success: float) -> bool:
    """Keep one evaluation, in per cent; True where no episode failed."""
    solved = attempt.note(seconds, steps, 100 * success, 100.0)
    if solved:
        attempt.total_seconds = clock.total
    return solved


def import_robotics() -> None:
    """Before the clock starts; it has advice to give about tasks that are not ours."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        import gymnasium_robotics  # type: ignore[import-untyped]  # noqa: F401


def attempt_of(side: str, seed: int, args: argparse.Namespace) -> Attempt:
    """One side, once, in a process of its own; its evaluations are told as they come."""
    threads = args.threads if side == "ours" else args.sb3_threads
    print(f"{ENV}, seed {seed}: {side}", flush=True)
    words = [f"--side={side}", f"--seeds={seed}", f"--limit={args.limit}"]
    words += [f"--threads={args.threads}", f"--sb3-threads={args.sb3_threads}"]
    attempt = Attempt(**in_fresh_process("benchmarks.speed.reach", *words, threads=threads, quiet=False))
    print(f"{ENV}, seed {seed}: {side} {told(attempt)}", flush=True)
    return attempt


def told(attempt: Attempt) -> str:
    if attempt.seconds is None or attempt.total_seconds is None:
        return f"not within the limit (best {rounded(attempt.best)} %)"
    return f"{attempt.seconds:.1f} s, {attempt.total_seconds:.1f} s with evaluations, {attempt.steps:,} steps"


def entry_of(peer: str, args: argparse.Namespace, us: list[Attempt], them: list[Attempt]) -> dict[str, Any]:
    """`ratio` is theirs over ours, so that above 1 is in Cairn's favour, as everywhere in the file."""
    our_s, their_s = (middle([a.seconds for a in side]) for side in (us, them))
    our_total, their_total = (middle([a.total_seconds for a in side]) for side in (us, them))
    our_steps, their_steps = (middle([a.steps if a.seconds else None for a in side]) for side in (us, them))
    sides: dict[str, Any] = {}
    for name, side in (("ours", us), ("theirs", them)):
        sides |= {
            f"all_{name}": [rounded(a.seconds) for a in side],
            f"total_all_{name}": [rounded(a.total_seconds) for a in side],
            f"steps_all_{name}": [a.steps for a in side],
            f"curves_{name}": [a.curve for a in side],
        }
    network = " x ".join(map(str, PEERS[peer]["net_arch"]))
    totals, steps = (_pair(*two) for two in ((our_total, their_total), (our_steps, their_steps)))
    return {
        "name": "fetch-reach" if peer == "zoo" else f"fetch-reach-{peer}",
        "peer": PEER,
        "ours": rounded(our_s),
        "theirs": rounded(their_s),
        "ratio": round(their_s / our_s, 3) if our_s and their_s else None,
        "unit": "s to a first 100 %",
        "settings": {
            "about": f"{ENV} beside the peer's {peer} settings ({network}); with evaluations {totals} s; steps {steps}",
            "recipe": RECIPE,
            "sac": SAC,
            "her": HER,
            **PEERS[peer],
            "every": EVERY,
            "episodes": EPISODES,
            "seeds": args.seeds,
            "limit_seconds": args.limit,
            "threads_ours": args.threads,
            "threads_theirs": args.sb3_threads,
            "device": "cpu",
            "cores": os.cpu_count(),
            "versions": versions(),
            "total_ours": rounded(our_total),
            "total_theirs": rounded(their_total),
            "total_ratio": round(their_total / our_total, 3) if our_total and their_total else None,
            "steps_ours": our_steps,
            "steps_theirs": their_steps,
            **sides,
        },
        "repeats": len(us),
    }


def _pair(*values: float | None) -> str:
    return " / ".join("not reached" if value is None else f"{value:,.0f}" for value in values)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.reach", description="Seconds until FetchReach is solved."
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of training, for each")
    parser.add_argument("--threads", type=int, default=1, help="of torch on Cairn's side; the recipe says 1")
    parser.add_argument("--sb3-threads", type=int, default=2, help="of torch on the peer's side")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS), help="the peer's settings")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the results are kept")
    parser.add_argument("--side", choices=["ours", *PEERS], help=argparse.SUPPRESS)  # how a process is started
    args = parser.parse_args()
    if args.side == "ours":
        print(json.dumps(asdict(ours(args.seeds[0], args.limit, args.threads))))
        return
    if args.side:
        print(json.dumps(asdict(theirs(args.seeds[0], args.limit, args.sb3_threads, args.side))))
        return
    attempts: dict[str, list[Attempt]] = {side: [] for side in ("ours", *args.peers)}
    for seed in args.seeds:
        for side in attempts:
            attempts[side].append(attempt_of(side, seed, args))
    for peer in args.peers:
        entry = entry_of(peer, args, attempts["ours"], attempts[peer])
        save(entry, args.out)
        ratio = "-" if entry["ratio"] is None else f"{entry['ratio']:.2f}x"
        print(f"{entry['name']:<20} {_pair(entry['ours'], entry['theirs'])} {entry['unit']}, {ratio}")
        print(f"{'':<20} {entry['settings']['about']}")


if __name__ == "__main__":
    main()
