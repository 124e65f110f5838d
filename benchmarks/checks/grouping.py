"""`python -m benchmarks.checks.grouping [POLICY ...] [--episodes 40]`

The same episodes, grouped differently. Are scores equal?

All at once, in two halves of half as many environments, and one by one: a score is to be a function of the policy and
the seed, so every return and length must be the same to the bit.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.store import ROOT
from cairn.runs.checkpoint import load_policy
from cairn.runs.evaluation import Score, as_policy, evaluate
from cairn.vector.choose import make_vector

ZOO = ("bipedal-sac", "fetch-push-her", "cartpole-ppo", "sac-pendulum", "pixel-cartpole", "reach-far-hiro")
EPISODES, SEED = 40, 5000


def scored(path: Path, seeds: Sequence[int], together: int, *, explore: bool = False) -> tuple[list[Score], float]:
    """The scores of all groups of `together` seeds, one vector for all, and the seconds they took."""
    saved = load_policy(path)
    task, begun = saved.task.for_scoring(), time.perf_counter()
    envs = make_vector(task, together, backend="sync")
    try:
        groups = [seeds[start : start + together] for start in range(0, len(seeds), together)]
        policy = as_policy(saved.agent, explore=explore)
        found = [evaluate(policy, envs, group, longest=task.longest) for group in groups]
    finally:
        envs.close()
    return [score for score in found if score is not None], time.perf_counter() - begun


def flat(scores: Sequence[Score]) -> list[tuple[float, int]]:
    return [pair for score in scores for pair in zip(score.returns, score.lengths, strict=True)]


def compare(path: Path, episodes: int, *, explore: bool = False) -> bool:
    seeds = range(SEED, SEED + episodes)
    runs = [scored(path, seeds, together, explore=explore) for together in (episodes, episodes // 2, 1)]
    first = flat(runs[0][0])
    same = all(flat(run) == first for run, _ in runs)
    mean = sum(total for total, _ in first) / episodes
    seconds = "  ".join(f"{taken:7.1f}" for _, taken in runs)
    print(f"{path.name:24} {mean:10.3f}  {seconds}  {'equal' if same else 'DIFFERENT'}", flush=True)
    return same


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.checks.grouping")
    parser.add_argument("policies", nargs="*", type=Path, default=[ROOT / "zoo" / name for name in ZOO])
    parser.add_argument("--episodes", type=int, default=EPISODES)
    parser.add_argument("--stochastic", action="store_true", help="with the actions it explores by")
    args = parser.parse_args()
    torch.set_num_threads(1)
    n = args.episodes
    print(
        f"{'policy':24} {'mean':>10}  {f's {n}x1':>7}  {f'{n // 2}x2':>7}  {f'1x{n}':>7}  the {n} returns and lengths"
    )
    return 0 if all([compare(path, n, explore=args.stochastic) for path in args.policies]) else 1


if __name__ == "__main__":
    raise SystemExit(main())
