"""Wrappers that a recipe can ask for."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from cairn.core.calls import option
from cairn.core.errors import CairnError


class TimeFeature(gym.Wrapper[Any, Any, Any, Any]):
    """Appends the remaining share of the time limit, 1 to 0 (Pardo et al. 2018), so that values can depend on it.

    In a goal task it is appended to the `observation` part, so that hindsight does not change it.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        limit = env.spec.max_episode_steps if env.spec else None
        if not limit:
            raise CairnError(f"time_feature needs a task with a time limit; set {option('time_limit')}.")
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
        raise CairnError(f"time_feature needs flat observations of floats, not {space}.")
    kind: Any = space.dtype
    return spaces.Box(np.append(space.low, kind.type(0)), np.append(space.high, kind.type(1)), dtype=kind.type)


class History(gym.Wrapper[Any, Any, Any, Any]):
    """Shows the last `length` observations, oldest first, zeros before the start of an episode.

    Several observations show what one alone does not, such as a speed.
    """

    def __init__(self, env: gym.Env[Any, Any], length: int) -> None:
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, spaces.Box) or len(space.shape) != 1:
            raise CairnError(f"history needs flat (one-dimensional) observations, not {space}; leave it at 1.")
        kind: Any = space.dtype
        low, high = np.minimum(space.low, 0), np.maximum(space.high, 0)  # zeros must lie within the bounds
        before = [(low, high)] * (length - 1)
        lows, highs = zip(*before, (space.low, space.high), strict=True)
        self.observation_space = spaces.Box(np.concatenate(lows), np.concatenate(highs), dtype=kind.type)
        self.zero_padded_frames = length
        self.seen = np.zeros(self.observation_space.shape, space.dtype)

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(**kwargs)
        self.seen[:] = 0
        return self._with(obs), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self._with(obs), reward, terminated, truncated, info

    def _with(self, obs: Any) -> Any:
        self.seen[: -len(obs)] = self.seen[len(obs) :]
        self.seen[-len(obs) :] = obs
        return self.seen.copy()


class RewardFloor(gym.Wrapper[Any, Any, Any, Any]):
    """Raises rewards below `floor` to it during training; evaluation uses the true rewards (`cairn/score`).

    For tasks in which a fall costs as much as a whole episode can earn: there, policies learn to stand still.
    """

    def __init__(self, env: gym.Env[Any, Any], floor: float) -> None:
        super().__init__(env)
        self.floor = floor

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        clipped = max(float(reward), self.floor)
        return obs, clipped, terminated, truncated, {"cairn/score": reward, **info}


class Resets(gym.Wrapper[Any, Any, Any, Any]):
    """Resets the task up to `most` times before an episode begins; the number is drawn for each episode.

    Some simulators depend on earlier use: Box2D solves contacts in an order that depends on bodies created and
    destroyed
    before. So one seed gives BipedalWalker different courses in a new environment and in one that was reset twice. A
    gait
    that was learned in one can fail in the other, so training uses all of them.
    """

    def __init__(self, env: gym.Env[Any, Any], most: int) -> None:
        super().__init__(env)
        self.most, self.dice = most, np.random.default_rng(0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self.dice = np.random.default_rng(seed)
        for _ in range(self.dice.integers(self.most)):
            self.env.reset(seed=seed, options=options)
        return self.env.reset(seed=seed, options=options)
