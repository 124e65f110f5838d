"""An environment that counts, so that every stored transition can be checked against what must have happened."""

from __future__ import annotations

import os
import time

import gymnasium as gym
import numpy as np


class Counting(gym.Env):
    """obs = (which environment, episode, step). Episode e ends at step `lengths[e % len]`, by way `how[e % len]`.

    how: "t" terminates, "u" truncates, "b" does both. reward = 100 * episode + step. Success where the length is even.
    """

    metadata = {"render_modes": []}

    def __init__(self, index=0, lengths=(3,), how=("t",), fault=None):
        self.observation_space = gym.spaces.Box(-1e9, 1e9, (3,), np.float32)
        self.action_space = gym.spaces.Discrete(5)
        self.index, self.lengths, self.how, self.fault = index, lengths, how, fault
        self.episode, self.t = -1, 0

    def obs(self):
        return np.array([self.index, self.episode, self.t], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode += 1
        self.t = 0
        return self.obs(), {}

    def step(self, action):
        assert 0 <= action < 5
        self.t += 1
        self._fail()
        k = self.episode % len(self.lengths)
        over = self.t >= self.lengths[k]
        way = self.how[k]
        terminated, truncated = over and way in "tb", over and way in "ub"
        info = {"is_success": self.t % 2 == 0} if over else {}
        return self.obs(), 100.0 * self.episode + self.t, terminated, truncated, info

    def _fail(self):
        if self.fault is None or (self.episode, self.t) != tuple(self.fault[1:]):
            return
        kind = self.fault[0]
        if kind == "raise":
            raise ValueError("the wheel fell off")
        if kind == "hang":
            time.sleep(60)
        if kind == "die":
            os._exit(9)
        if kind == "nan":
            self.index = float("nan")
