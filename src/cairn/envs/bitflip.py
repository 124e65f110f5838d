"""Bit flipping (Andrychowicz et al. 2017, section 3.1): flip n bits until they equal a goal pattern."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from cairn.core.goals import Within
from cairn.core.types import Array


class BitFlip(gym.Env[Any, Any]):
    """Action i flips bit i. The reward is -1 per step until the bits equal the goal; at most n steps.

    There are 2ⁿ patterns, so from n ≈ 15 on nothing is learned without hindsight. The limit of n steps is part of the
    task:
    `--time-limit` can lower it, but not raise it.
    """

    goal_rule = Within(0.5, ends=True)  # between 0 and 1, the possible differences of a bit

    def __init__(self, n: int = 15, one_goal: bool = False) -> None:
        """`n` is the number of bits. `one_goal` uses one fixed pattern as the goal, to compare hindsight with."""
        if n < 1:
            raise ValueError(f"n is {n}; there must be at least one bit")
        self.n, self.one_goal = n, one_goal
        bits = spaces.Box(0.0, 1.0, (n,), np.float32)
        self.observation_space = spaces.Dict(observation=bits, achieved_goal=bits, desired_goal=bits)
        self.action_space = spaces.Discrete(n)
        self.bits = self.goal = np.zeros(n, np.float32)
        self.steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        super().reset(seed=seed)
        self.bits, self.goal = self.np_random.integers(0, 2, (2, self.n)).astype(np.float32)
        if self.one_goal:
            self.goal = np.arange(self.n, dtype=np.float32) % 2
        while (self.bits == self.goal).all():  # do not start at the goal
            self.bits = self.np_random.integers(0, 2, self.n).astype(np.float32)
        self.steps = 0
        return self._obs(), {}

    def step(self, action: int) -> tuple[dict[str, Array], float, bool, bool, dict[str, Any]]:
        self.bits[action] = 1.0 - self.bits[action]
        self.steps += 1
        reached = bool((self.bits == self.goal).all())
        return self._obs(), float(reached) - 1.0, reached, self.steps >= self.n, {"is_success": reached}

    def _obs(self) -> dict[str, Array]:
        bits = self.bits.copy()
        return {"observation": bits, "achieved_goal": bits, "desired_goal": self.goal.copy()}
