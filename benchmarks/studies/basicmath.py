"""`python -m benchmarks.studies.basicmath [--episodes 100]`

What BasicMath pays to who does not calculate, and to who does.

Random actions and every constant one, by buttons and by answers; and the ceiling, who reads both numbers from the
game's memory and types their sum. Mean and deviation over whole games on fresh seeds, printed and kept in
results/studies/basicmath.json. With --policy, what policies that press buttons get right of each sum, in
results/studies/basicmath-sums.json.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np

from benchmarks.store import STUDIES
from cairn.core.types import Episode
from cairn.envs.basicmath import By
from cairn.envs.task import Task
from cairn.runs.checkpoint import load_policy
from cairn.runs.evaluation import Score, as_policy

SEED, SUMS = 1000, 10
FIRST, SECOND = 52, 58  # cells of the game's memory: the two numbers


def play(env: Any, choose: Callable[[], int], episodes: int) -> Score:
    played = []
    for seed in range(SEED, SEED + episodes):
        env.reset(seed=seed)
        total, steps, over = 0.0, 0, False
        while not over:
            _, reward, terminated, truncated, _ = env.step(choose())
            total, steps, over = total + reward, steps + 1, terminated or truncated
        played.append(Episode(0, total, steps, None))
    return Score.of(played)


def asked(env: Any) -> tuple[int, int]:
    """The two numbers."""
    memory = env.unwrapped.ale.getRAM()
    return int(memory[FIRST]), int(memory[SECOND])


def by_sum(env: Any, policy: Callable[[Any], Any], episodes: int) -> dict[str, list[int]]:
    """{sum: [right, asked]} of a policy that presses buttons, over whole games."""
    found: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for seed in range(SEED, SEED + episodes):
        obs, over = env.reset(seed=seed)[0], False
        while not over:
            number = sum(asked(env))
            obs, _, terminated, truncated, info = env.step(int(policy(obs[None])[0]))
            if terminated or truncated:
                found[number][0] += int(info["cairn/score"])
                found[number][1] += 1
                over = not info["cairn/goes_on"]
                obs = obs if over else env.reset()[0]
    return {str(number): found[number] for number in sorted(found)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.studies.basicmath", description=__doc__)
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--policy", type=Path, nargs="+", help="what these, by buttons, get right of each sum; no more")
    args = parser.parse_args()
    episodes, rows = args.episodes, []
    if args.policy:
        apart, told = Task("cairn/BasicMath-v0", args={"by": "button", "apart": True})(), []
        for saved in map(load_policy, args.policy):
            sums = by_sum(apart, as_policy(saved.agent), episodes)
            told.append({"recipe": saved.about["recipe"], "seed": saved.about["seed"], "right of asked": sums})
            print(
                f"seed {saved.about['seed']}: " + ", ".join(f"{n}: {right} of {of}" for n, (right, of) in sums.items())
            )
        (STUDIES / "basicmath-sums.json").write_text(json.dumps({"episodes": episodes, "policies": told}) + "\n")
        return

    def tell(by: str, who: str, score: Score) -> None:
        rows.append({"by": by, "who": who, "mean": round(score.mean, 2), "std": round(score.std, 2)})
        print(f"by {by}, {who}: {score}", flush=True)

    for by in get_args(By):
        env: Any = Task("cairn/BasicMath-v0", args={"by": by})()
        count, rng = env.action_space.n, np.random.default_rng(0)
        words = [action.name for action in env.unwrapped.actions] if by == "button" else [str(n) for n in range(count)]
        tell(by, "random", play(env, lambda n=count, rng=rng: int(rng.integers(n)), episodes))
        scores = {word: play(env, lambda at=at: at, episodes) for at, word in enumerate(words)}
        best = max(scores, key=lambda word: scores[word].mean)
        tell(by, f"the best constant, {best}", scores[best])
    seen: list[tuple[int, int]] = []

    def add() -> int:
        seen.append(asked(env))
        return sum(seen[-1])

    tell("answer", "reads both numbers and adds", play(env, add, episodes))
    games = len({tuple(seen[at : at + SUMS]) for at in range(0, len(seen), SUMS)})
    print(f"{len(set(seen))} different pairs in {games} different games")
    body = {"episodes": episodes, "first_seed": SEED, "rows": rows, "pairs": len(set(seen)), "games": games}
    (STUDIES / "basicmath.json").write_text(json.dumps(body, indent=1) + "\n")


if __name__ == "__main__":
    main()
