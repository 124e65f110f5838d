"""Any Gymnasium vector environment: its three autoreset modes give the same transitions."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from cairn.core.errors import CairnError, EnvError
from cairn.core.types import Array, Composite, Step
from cairn.envs.masks import METHOD, MaskFault
from cairn.vector.checks import blame, close_env
from cairn.vector.protocol import EpisodeStats
from cairn.vector.spaces import GOAL_KEYS, lies_as_shown, spec_of
from cairn.vector.told_masks import told_by, told_masks


class Gymnasium:
    """A vector over a SyncVectorEnv, an AsyncVectorEnv or any other that states its autoreset mode.

    SAME_STEP  the successor is in info["final_obs"]
    NEXT_STEP  the successor is the observation; the next step only resets, and is not valid
    DISABLED   the successor is the observation; ended environments are reset here

    The caller made its environments, and they are never remade: resets are exact if they depend on the seed alone.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], *, ours: bool = True, masks: bool = True) -> None:
        self.ours = ours  # whether `close` closes it
        self.env: Any = env  # a VectorEnv, whose annotations lack a list of seeds, send and recv
        mode = env.metadata.get("autoreset_mode")
        if mode is None:
            raise CairnError(f"{env} does not state its autoreset mode in metadata['autoreset_mode'].")
        self.mode = AutoresetMode(mode)
        self.num_envs = env.num_envs
        self.restarts = 0
        self.told = told_masks(env) if masks else None  # how masks are told that the observations do not show
        self.space: Any = env.single_observation_space if self.told is None else self.told.space
        self.spec, self.layout = spec_of(self.space, env.single_action_space)
        self.laid_out = lies_as_shown(self.space, self.spec)
        self.stats = EpisodeStats(self.num_envs)
        self.resetting = np.zeros(self.num_envs, bool)  # NEXT_STEP: the next step is only a reset
        self.action: Array = np.zeros(0)
        self.used = False  # it was reset before

    def reset(self, seeds: Sequence[int]) -> Array:
        self.stats.reset()
        self.resetting[:] = False
        if self.used:
            _warn_not_renewed()
        self.used = True
        try:
            obs, info = self.env.reset(seed=[int(s) for s in seeds])
        except Exception as error:
            raise blame(0, error, " at reset") from error
        return self._rows(obs, info)

    def send(self, action: Array) -> None:
        self.action = self._batched(self.spec.action.to_env(action))

    def _batched(self, action: Array) -> Any:
        """Actions as the vector takes them: of a Dict or Tuple, one with an array in each of its parts."""
        act = self.spec.action
        if not isinstance(act, Composite):
            return action
        empty: Any = create_empty_array(self.env.single_action_space, self.num_envs)
        return concatenate(self.env.single_action_space, [act.structured(row) for row in action], empty)

    def _step_envs(self) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        out: tuple[Any, Array, Array, Array, dict[str, Any]] = self.env.step(self.action)
        return out

    def recv(self) -> Step:
        try:
            out, reward, terminated, truncated, info = self._step_envs()
        except Exception as error:
            raise blame(0, error) from error
        ended = terminated | truncated
        next_obs = self._rows(out, info, over=ended & (self.mode is not AutoresetMode.SAME_STEP))
        valid = ~self.resetting
        obs = next_obs
        if self.mode is AutoresetMode.SAME_STEP and ended.any():
            next_obs = obs.copy()
            for i in np.flatnonzero(ended).tolist():
                final = info["final_obs"][i]
                if self.told is not None:
                    final = self.told.beside(final, told_by(info.get("final_info", {}), i), over=True)
                next_obs[i] = self._row(i, final)
        elif self.mode is AutoresetMode.DISABLED and ended.any():
            fresh, begun = self.env.reset(options={"reset_mask": ended.copy()})
            begun = self._rows(fresh, begun, over=~ended)  # of the others there may be no mask
            obs = np.where(ended.reshape(-1, *[1] * (next_obs.ndim - 1)), begun, next_obs)
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
        if self.ours:
            close_env(self.env)

    def _rows(self, obs: Any, info: Mapping[str, Any] = MappingProxyType({}), over: Array | None = None) -> Array:
        """A batched observation as a new array [N, *spec.obs_shape]; `over` [N] where an episode ended with it."""
        if isinstance(obs, np.ndarray) and self.laid_out:
            shape = self.num_envs, *self.spec.obs_shape
            if obs.shape == shape or (obs.shape == (self.num_envs,) and shape[1:] == (1,)):
                return obs.astype(self.spec.obs_dtype).reshape(shape)
            raise EnvError(0, f"returned observations of shape {obs.shape} where the vector's have {shape}")
        if self.spec.goal is not None and not self.spec.parts:
            return np.concatenate([obs[k].reshape(self.num_envs, -1) for k in GOAL_KEYS], 1, dtype=self.spec.obs_dtype)
        rows = list(iterate(self.env.observation_space, obs))
        if self.told is not None:
            over = np.zeros(self.num_envs, bool) if over is None else over
            masks = self.env.unwrapped.call(METHOD) if self.told.by_method else None
            found = (told_by(info, i) if masks is None else masks[i] for i in range(len(rows)))
            rows = [self.told.beside(*one) for one in zip(rows, found, over.tolist(), strict=True)]
        return np.stack([self._row(i, row) for i, row in enumerate(rows)]).astype(self.spec.obs_dtype)

    def _row(self, i: int, obs: Any) -> Array:
        """One observation of environment `i` as a row."""
        try:
            return self.layout(obs)
        except MaskFault as fault:
            raise EnvError(i, f"returned {fault}") from None

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
