"""`python -m bench.basicmath [--episodes 100]`: what BasicMath pays to who does not calculate, and to who does.

Random actions and every constant one, by buttons and by answers; and the ceiling, who reads both numbers from the
game's memory and types their sum. Mean and deviation over whole games on fresh seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, get_args

import numpy as np

from cairn.core.types import Episode
from cairn.envs.basicmath import By
from cairn.envs.make import Task
from cairn.train.evaluate import Score

SEED = 1000
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


def total(env: Any) -> int:
    """What the game asks for."""
    memory = env.unwrapped.ale.getRAM()
    return int(memory[FIRST]) + int(memory[SECOND])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.basicmath", description=__doc__)
    parser.add_argument("--episodes", type=int, default=100)
    episodes = parser.parse_args().episodes
    for by in get_args(By):
        env: Any = Task("cairn/BasicMath-v0", args={"by": by})()
        count, rng = env.action_space.n, np.random.default_rng(0)
        words = [action.name for action in env.unwrapped.actions] if by == "button" else [str(n) for n in range(count)]
        print(f"by {by}: random {play(env, lambda n=count, rng=rng: int(rng.integers(n)), episodes)}", flush=True)
        scores = {word: play(env, lambda at=at: at, episodes) for at, word in enumerate(words)}
        best = max(scores, key=lambda word: scores[word].mean)
        print(f"by {by}: the best constant is {best}: {scores[best]}", flush=True)
    print(f"sums: {play(env, lambda: total(env), episodes)}")


if __name__ == "__main__":
    main()
