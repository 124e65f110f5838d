"""`python -m bench.basicmath [--episodes 30]`: what BasicMath pays to who does not calculate, and to who does.

Random actions and every constant one play the recipe's own games; the true score of whole games, mean over episodes.
The ceiling is played as well, by who reads both numbers from the game's memory and presses the digits of their sum,
under the same frame skip and time limit.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from cairn.core.types import Array, Episode
from cairn.recipes import find
from cairn.train.evaluate import Score, evaluate
from cairn.vector.make import make_vector

SEED = 1000


def play(choose: Callable[[Array], Array], episodes: int) -> Score:
    recipe = find("basicmath")
    envs = make_vector(recipe.judged_task.for_scoring(), min(episodes, 16), backend=recipe.vector)
    try:
        score = evaluate(choose, envs, range(SEED, SEED + episodes))
    finally:
        envs.close()
    assert score is not None  # nobody stops it
    return score


READY, FIRST, SECOND = 2, 52, 58  # cells of the game's memory: 1 while it waits for an answer, and the two numbers


def calculate(episodes: int) -> Score:
    """The digits of the sum, ones first: UP goes from nothing to 0 and on by one, LEFT to the tens, FIRE answers."""
    env: Any = find("basicmath").judged_task.for_scoring()()
    button = {name: at for at, name in enumerate(names())}
    played = []
    for seed in range(SEED, SEED + episodes):
        env.reset(seed=seed)
        keys: list[str] = []
        total, steps, over = 0.0, 0, False
        while not over:
            memory = env.unwrapped.ale.getRAM()
            if not keys and memory[READY]:
                ones, tens = (int(memory[FIRST]) + int(memory[SECOND])) % 10, int(memory[FIRST] + memory[SECOND]) // 10
                keys = ["UP"] * (ones + 1) + (["LEFT"] + ["UP"] * (tens + 1) if tens else []) + ["FIRE"]
                keys += ["NOOP"] * 4  # until it has taken notice
            _, reward, terminated, truncated, _ = env.step(button[keys.pop(0) if keys else "NOOP"])
            total, steps, over = total + reward, steps + 1, terminated or truncated
        played.append(Episode(0, total, steps, None))
    return Score.of(played)


def names() -> list[str]:
    """The game's actions, by their buttons."""
    recipe = find("basicmath")
    env = recipe.task()
    return [action.name for action in env.unwrapped.actions]  # type: ignore[attr-defined]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.basicmath", description=__doc__)
    parser.add_argument("--episodes", type=int, default=30)
    episodes = parser.parse_args().episodes
    rng = np.random.default_rng(0)
    actions = names()
    print(f"random    {play(lambda obs: rng.integers(0, len(actions), len(obs)), episodes)}", flush=True)
    scores = {}
    for action, name in enumerate(actions):
        scores[name] = play(lambda obs, action=action: np.full(len(obs), action), episodes)
        print(f"{name:<9} {scores[name]}", flush=True)
    best = max(scores, key=lambda name: scores[name].mean)
    print(f"sums      {calculate(episodes)}", flush=True)
    print(f"the best constant is {best}: {scores[best]}")


if __name__ == "__main__":
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    main()
