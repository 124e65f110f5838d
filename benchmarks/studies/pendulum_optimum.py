"""How good can any policy be on Pendulum-v1's start states? Dynamic programming on a fine grid, then played for real.

    python -m benchmarks.studies.pendulum_optimum [--episodes 100] [--seed 1000]

A mean over 100 random starts has a standard error of about 9, so a score of -155 may be the optimum of its 100 starts.
"""

from __future__ import annotations

import argparse

import gymnasium as gym
import numpy as np

ANGLES, SPEEDS, TORQUES, STEPS = 401, 321, 41, 200
TORQUE = np.linspace(-2, 2, TORQUES)


def dynamics(theta, speed, torque):
    """Gymnasium's own step: cost of the state left, then semi-implicit Euler with dt = 0.05."""
    wrapped = (theta + np.pi) % (2 * np.pi) - np.pi
    cost = wrapped**2 + 0.1 * speed**2 + 0.001 * torque**2
    speed = np.clip(speed + (15.0 * np.sin(theta) + 3.0 * torque) * 0.05, -8, 8)
    return theta + speed * 0.05, speed, cost


def interpolate(value, theta, speed):
    x = ((theta + np.pi) % (2 * np.pi)) / (2 * np.pi) * ANGLES
    y = (speed + 8) / 16 * (SPEEDS - 1)
    i, j = np.floor(x).astype(int) % ANGLES, np.minimum(np.floor(y).astype(int), SPEEDS - 2)
    u, v = x - np.floor(x), y - j
    k = (i + 1) % ANGLES
    low = value[i, j] * (1 - u) + value[k, j] * u
    return low * (1 - v) + (value[i, j + 1] * (1 - u) + value[k, j + 1] * u) * v


def values_to_go() -> list[np.ndarray]:
    """V_t on the grid for every step left, by backward induction."""
    theta = np.arange(ANGLES) / ANGLES * 2 * np.pi - np.pi
    speed = np.linspace(-8, 8, SPEEDS)
    grid = np.meshgrid(theta, speed, TORQUE, indexing="ij")
    next_theta, next_speed, cost = dynamics(*grid)
    out = [np.zeros((ANGLES, SPEEDS))]
    for _ in range(STEPS):
        out.append((cost + interpolate(out[-1], next_theta, next_speed)).min(-1))
    return out[::-1]


def play(values: list[np.ndarray], seed: int) -> float:
    env = gym.make("Pendulum-v1")
    env.reset(seed=seed)
    total = 0.0
    fine = np.linspace(-2, 2, 401)
    for t in range(STEPS):
        theta, speed = env.unwrapped.state
        next_theta, next_speed, cost = dynamics(theta, speed, fine)
        torque = fine[np.argmin(cost + interpolate(values[t + 1], next_theta, next_speed))]
        _, reward, *_ = env.step(np.array([torque], np.float32))
        total += float(reward)
    return total


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1000)
    args = parser.parse_args()
    table = values_to_go()
    returns = [play(table, args.seed + k) for k in range(args.episodes)]
    error = np.std(returns) / np.sqrt(len(returns))
    last = args.seed + args.episodes - 1
    print(f"optimum over seeds {args.seed}..{last}: {np.mean(returns):.1f} (standard error {error:.1f})")
