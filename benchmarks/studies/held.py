"""`python -m benchmarks.studies.held [--candidates 2000]`

How long a pole can be kept up if a push is held for some steps.

No pictures and no learning: straight lines through the true state, drawn at random, the best of which plays 100 fresh
episodes. What it reaches any policy that sees the state can.
"""

from __future__ import annotations

import argparse

import numpy as np

from cairn.core.types import Array

GRAVITY, CART, POLE, HALF, FORCE, TICK = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02  # CartPole-v1's
EDGE, LEAN, LIMIT = 2.4, np.radians(12), 500


def steps(weights: Array, start: Array, held: int) -> Array:
    """How long each policy sign(w·s) keeps its pole up, at most 500 steps."""
    state = start.copy()
    up, lasted = np.ones(len(state), bool), np.zeros(len(state), np.int64)
    for tick in range(LIMIT):
        if tick % held == 0:
            push = np.where((weights * state).sum(1) > 0, FORCE, -FORCE)
        state = state + TICK * _speeds(state, push)
        lasted += up
        up &= (np.abs(state[:, 0]) <= EDGE) & (np.abs(state[:, 2]) <= LEAN)
    return lasted


def _speeds(state: Array, push: Array) -> Array:
    """What changes, a second: as Gymnasium's CartPole has it."""
    _, speed, angle, turning = state.T
    sine, cosine, mass = np.sin(angle), np.cos(angle), CART + POLE
    shove = (push + POLE * HALF * turning**2 * sine) / mass
    turn = (GRAVITY * sine - cosine * shove) / (HALF * (4 / 3 - POLE * cosine**2 / mass))
    return np.stack([speed, shove - POLE * HALF * turn * cosine / mass, turning, turn], 1)


def best(held: int, candidates: int, rng: np.random.Generator) -> tuple[float, float]:
    """The best line of all, chosen over 20 episodes: mean and deviation over 100 fresh ones."""
    weights = rng.normal(size=(candidates, 4)) * np.array([0.3, 0.5, 3.0, 1.0])
    many = np.repeat(weights, 20, 0)
    found = steps(many, rng.uniform(-0.05, 0.05, many.shape), held).reshape(candidates, 20).mean(1)
    chosen = np.repeat(weights[[found.argmax()]], 100, 0)
    lasted = steps(chosen, rng.uniform(-0.05, 0.05, chosen.shape), held)
    return float(lasted.mean()), float(lasted.std())


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.studies.held", description="How long can a pole be kept up?"
    )
    parser.add_argument("--candidates", type=int, default=2000)
    candidates = parser.parse_args().candidates
    for held in (1, 2, 4, 8):
        mean, std = best(held, candidates, np.random.default_rng(0))
        print(f"held for {held}: {mean:.1f} ± {std:.1f} over 100 episodes")


if __name__ == "__main__":
    main()
