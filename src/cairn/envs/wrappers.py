"""Wrappers that a recipe can ask for."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from cairn.core.errors import CairnError


class TimeFeature(gym.Wrapper[Any, Any, Any, Any]):
    """Appends the share of the time limit that is left, 1 to 0 (Pardo et al. 2018): a limit one cannot see is noise.

    In a goal task it goes to the `observation` part, so that hindsight leaves it alone.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        limit = env.spec.max_episode_steps if env.spec else None
        if not limit:
            raise CairnError("time_feature needs a task with a time limit; set --time-limit.")
        self.limit, self.steps = limit, 0
        space = env.observation_space
        if isinstance(space, spaces.Dict):
            self.observation_space = spaces.Dict({**space.spaces, "observation": _longer(space["observation"])})
        else:
            self.observation_space = _longer(space)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(**kwargs)
        self.steps = 0
        return self._with_time(obs), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.steps += 1
        return self._with_time(obs), reward, terminated, truncated, info

    def _with_time(self, obs: Any) -> Any:
        if isinstance(obs, dict):
            return {**obs, "observation": self._with_time(obs["observation"])}
        return np.append(obs, 1.0 - self.steps / self.limit).astype(obs.dtype)


def _longer(space: spaces.Space[Any]) -> spaces.Box:
    if not isinstance(space, spaces.Box) or len(space.shape) != 1 or not np.issubdtype(space.dtype, np.floating):
        raise CairnError(f"time_feature can only be added to a flat observation of floats, not to {space}.")
    kind: Any = space.dtype
    return spaces.Box(np.append(space.low, kind.type(0)), np.append(space.high, kind.type(1)), dtype=kind.type)
