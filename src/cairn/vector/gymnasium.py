"""Any Gymnasium vector environment behind the contract: its three autoreset modes arrive as the same transitions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import iterate

from cairn.core.errors import CairnError, EnvError
from cairn.core.types import Array, Step
from cairn.vector.checks import blame, close_env
from cairn.vector.protocol import GOAL_KEYS, EpisodeStats, spec_of


class Gymnasium:
    """Vector over a SyncVectorEnv, an AsyncVectorEnv or any other that states its autoreset mode.

    SAME_STEP  the successor is in info["final_obs"]
    NEXT_STEP  the successor is the observation; the step after it resets, and comes out as not valid
    DISABLED   the successor is the observation; the ended environments are reset here

    Its environments are the caller's, and are never made anew: a reset is exact where it depends on its seed alone.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        self.env: Any = env  # a VectorEnv; its own annotations know neither a list of seeds nor send and recv
        mode = env.metadata.get("autoreset_mode")
        if mode is None:
            raise CairnError(f"{env} does not state its autoreset mode in metadata['autoreset_mode'].")
        self.mode = AutoresetMode(mode)
        self.num_envs = env.num_envs
        self.restarts = 0
        space = env.single_observation_space
        self.spec, self.layout = spec_of(space, env.single_action_space)
        self.laid_out = isinstance(space, spaces.Box)  # as they come
        self.stats = EpisodeStats(self.num_envs)
        self.resetting = np.zeros(self.num_envs, bool)  # NEXT_STEP: those whose next step is only a reset
        self.action: Array = np.zeros(0)
        self.used = False  # whether it was reset before

    def reset(self, seeds: Sequence[int]) -> Array:
        self.stats.reset()
        self.resetting[:] = False
        if self.used:
            _warn_not_renewed()
        self.used = True
        try:
            obs, _ = self.env.reset(seed=[int(s) for s in seeds])
        except Exception as error:
            raise blame(0, error, " at reset") from error
        return self._rows(obs)

    def send(self, action: Array) -> None:
        self.action = self.spec.action.to_env(action)

    def _step_envs(self) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        out: tuple[Any, Array, Array, Array, dict[str, Any]] = self.env.step(self.action)
        return out

    def recv(self) -> Step:
        try:
            out, reward, terminated, truncated, info = self._step_envs()
        except Exception as error:
            raise blame(0, error) from error
        next_obs = self._rows(out)
        ended = terminated | truncated
        valid = ~self.resetting
        obs = next_obs
        if self.mode is AutoresetMode.SAME_STEP and ended.any():
            next_obs = obs.copy()
            for i in np.flatnonzero(ended):
                next_obs[i] = self.layout(info["final_obs"][i])
        elif self.mode is AutoresetMode.DISABLED and ended.any():
            fresh, _ = self.env.reset(options={"reset_mask": ended.copy()})
            obs = np.where(ended.reshape(-1, *[1] * (next_obs.ndim - 1)), self._rows(fresh), next_obs)
        elif self.mode is AutoresetMode.NEXT_STEP:
            self.resetting = ended & valid
        reward = np.asarray(reward, np.float32)
        terminated, truncated = np.array(terminated, bool), np.array(truncated, bool)
        episodes = self.stats.update(reward, ended, valid, self._success(info))
        return Step(obs, next_obs, reward, terminated, truncated, valid, episodes)

    def step(self, action: Array) -> Step:
        self.send(action)
        return self.recv()

    def close(self) -> None:
        close_env(self.env)

    def _rows(self, obs: Any) -> Array:
        """A batched observation -> [N, *spec.obs_shape], ours to keep."""
        if isinstance(obs, np.ndarray) and self.laid_out:
            shape = self.num_envs, *self.spec.obs_shape
            if obs.shape == shape or (obs.shape == (self.num_envs,) and shape[1:] == (1,)):
                return obs.astype(self.spec.obs_dtype).reshape(shape)
            raise EnvError(0, f"returned observations of shape {obs.shape} where the vector's have {shape}")
        if self.spec.goal is not None:
            return np.concatenate([obs[k].reshape(self.num_envs, -1) for k in GOAL_KEYS], 1, dtype=self.spec.obs_dtype)
        rows = [self.layout(row) for row in iterate(self.env.observation_space, obs)]
        return np.stack(rows).astype(self.spec.obs_dtype)

    def _success(self, info: dict[str, Any]) -> Array:
        success = np.full(self.num_envs, -1, np.int8)
        for source in (info, info.get("final_info", {})):
            for key in ("is_success", "success"):
                if key in source:
                    known = np.asarray(source.get(f"_{key}", np.ones(self.num_envs, bool)), bool)
                    success[known] = np.asarray(source[key])[known].astype(bool)
        return success


@cache
def _warn_not_renewed() -> None:
    print(
        "cairn: this vector was made outside Cairn and is not recreated at a reset: if its resets depend on more than"
        " the seed (Box2D), evaluations and resumed runs are not exactly reproducible.",
        file=sys.stderr,
    )
