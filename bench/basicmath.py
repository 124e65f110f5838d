"""`python -m bench.basicmath [--episodes 100]`: what BasicMath pays to who does not calculate, and to who does.

Random actions and every constant one, by buttons and by answers; and the ceiling, who reads both numbers from the
game's memory and types their sum. Mean and deviation over whole games on fresh seeds, printed and kept in
results/studies/basicmath.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any, get_args

import numpy as np

from bench.study import STUDIES
from cairn.core.types import Episode
from cairn.envs.basicmath import By
from cairn.envs.make import Task
from cairn.train.evaluate import Score

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


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.basicmath", description=__doc__)
    parser.add_argument("--episodes", type=int, default=100)
    episodes = parser.parse_args().episodes
    rows = []

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
