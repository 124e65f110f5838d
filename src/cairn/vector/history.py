"""History and reward floor for a vector whose environments cannot be wrapped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cairn.core.types import Array, Step
from cairn.vector.protocol import Vector


class HistoryVector:
    """The vector version of the wrappers `History` and `RewardFloor`.

    Observations are the last `history` ones, oldest first, zeros before an episode's first. Rewards are at least
    `floor`;
    statistics of episodes use the true rewards.
    """

    def __init__(self, envs: Vector, *, history: int = 1, floor: float | None = None) -> None:
        (width,) = envs.spec.obs_shape
        self.envs, self.num_envs, self.width, self.floor = envs, envs.num_envs, width, floor
        self.restarts = envs.restarts
        self.spec = replace(envs.spec, obs_shape=(width * history,), stack=history)
        self.obs: Array = np.zeros((self.num_envs, *self.spec.obs_shape), self.spec.obs_dtype)

    def reset(self, seeds: Sequence[int]) -> Array:
        self.obs = np.zeros_like(self.obs)
        self.obs[:, -self.width :] = self.envs.reset(seeds)
        return self.obs

    def send(self, action: Array) -> None:
        self.envs.send(action)

    def recv(self) -> Step:
        step, self.restarts = self.envs.recv(), self.envs.restarts
        after = np.concatenate([self.obs[:, self.width :], step.next_obs], 1)
        self.obs, fresh = after, step.terminated | step.truncated | ~step.valid
        if fresh.any():
            self.obs = after.copy()
            self.obs[fresh, : -self.width] = 0
            self.obs[fresh, -self.width :] = step.obs[fresh]
        reward = step.reward if self.floor is None else np.maximum(step.reward, np.float32(self.floor))
        return replace(step, obs=self.obs, next_obs=after, reward=reward)

    def step(self, action: Array) -> Step:
        self.send(action)
        return self.recv()

    def close(self) -> None:
        self.envs.close()
