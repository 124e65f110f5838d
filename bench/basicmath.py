"""`python -m bench.basicmath [--episodes 30]`: what BasicMath pays to who does not calculate.

Random actions and every constant one play the recipe's own games; the true score of whole games, mean over episodes.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

import numpy as np

from cairn.core.types import Array
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
    print(f"the best constant is {best}: {scores[best]}")


if __name__ == "__main__":
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    main()
