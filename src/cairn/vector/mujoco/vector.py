"""A vector that steps the physics of N environments in threads and computes the rest for all of them at once."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from cairn.core.errors import EnvError
from cairn.core.types import Array, Step
from cairn.envs.task import Task
from cairn.envs.wrappers import TimeFeature
from cairn.native.physics import PhysicsFault, pool
from cairn.vector.checks import Rows, blame, check_reset, fault_at_close, make_env, warn_once
from cairn.vector.finite import refuse_not_finite
from cairn.vector.mujoco.known import simulated
from cairn.vector.protocol import EpisodeStats
from cairn.vector.spaces import spec_of_env


class MuJoCo:
    """N environments of a task that `known.py` lists. Equal to the same environments stepped one by one.

    Each environment exists, and is reset by its own `reset`. Only its `step` is not called: threads step its
    simulation, and a `Simulated` computes what `step` would return. With `send` the physics begin; one thread is the
    caller of `recv`.
    """

    def __init__(self, task: Task, num_envs: int, *, threads: int = 0) -> None:
        """`task` has no history and no reward floor. Raises CairnError if the task is not known."""
        self.envs: list[Any] = [make_env(i, task) for i in range(num_envs)]
        self.spec, layout = spec_of_env(self.envs[0])
        self.row, self.num_envs, self.restarts = Rows(self.spec, layout), num_envs, 0
        self.sim = simulated(task.id, self.envs)
        models, datas = zip(*((one.model, one.data) for one in self.sim.holders), strict=True)
        self.pool = pool(self.sim.plan(), models, datas, min(threads or os.cpu_count() or 1, num_envs))
        self.sim.rows = self.pool.rows
        self.limit = limit_of(self.envs[0])
        self.clock: int | None = None  # the column of the remaining time, if it is observed
        if isinstance(self.envs[0], TimeFeature):
            self.clock = (self.spec.goal.observation if self.spec.goal else self.spec.obs_shape[0]) - 1
        self.stats = EpisodeStats(num_envs)
        self.steps = np.zeros(num_envs, np.int64)  # of each episode
        self.awake = np.ones(num_envs, bool)
        self.which = np.arange(num_envs, dtype=np.int32)  # those awake
        self.action: Array = np.zeros(0)
        self.moving = False  # a step has begun

    def reset(self, seeds: Sequence[int]) -> Array:
        self._settle()
        self.stats.reset()
        obs = [self._begin(i, int(seed)) for i, seed in zip(range(self.num_envs), seeds, strict=True)]
        self._wake(np.ones(self.num_envs, bool))
        return np.stack(obs)

    def begin(self, index: int, seed: int) -> Array:
        self._settle()
        self.stats.forget(index)
        obs = self._begin(index, int(seed))
        self._wake(self.awake | (np.arange(self.num_envs) == index))
        return obs

    def rest(self, which: Array) -> None:
        self._settle()
        self._wake(~which)

    def _wake(self, awake: Array) -> None:
        self.awake, self.which = awake, np.flatnonzero(awake).astype(np.int32)

    def send(self, action: Array) -> None:
        self.action = self.spec.action.to_env(action)
        self._settle()
        self.sim.act(self.action)
        self.pool.start(self.which)
        self.moving = True

    def _settle(self) -> None:
        """Wait for the physics of a step that was not received."""
        if self.moving:
            self.moving = False
            try:
                self.pool.finish()
            except PhysicsFault as fault:
                raise blame(fault.index, fault.error) from fault

    @np.errstate(over="ignore", invalid="ignore")  # overflows become an EnvError below
    def recv(self) -> Step:
        self._settle()
        self.steps += self.awake
        next_obs = np.empty((self.num_envs, *self.spec.obs_shape), np.float32)
        self._observe(next_obs)
        gained, terminated = self.sim.judge(self.action, next_obs)
        valid = self.awake.copy()
        reward = np.asarray(gained, np.float32) * valid
        terminated = terminated & valid
        truncated = (self.steps >= self.limit) & valid
        flat = next_obs.reshape(-1)
        if not math.isfinite(flat.dot(flat) + reward.dot(reward)):  # or too large for a sum of squares
            refuse_not_finite(0, next_obs, reward)
        obs, ended = next_obs.copy(), terminated | truncated
        episodes = self.stats.update(reward, ended, valid, self.sim.success)
        if ended.any():
            for i in np.flatnonzero(ended).tolist():
                obs[i] = self._begin(i, None)
        return Step(obs, next_obs, reward, terminated, truncated, valid, episodes)

    def _observe(self, out: Array) -> None:
        if self.clock is None:
            self.sim.observe(out)
            return
        bare = np.empty((len(out), out.shape[1] - 1), np.float32)
        self.sim.observe(bare)
        out[:, : self.clock], out[:, self.clock + 1 :] = bare[:, : self.clock], bare[:, self.clock :]
        out[:, self.clock] = 1.0 - self.steps / self.limit

    def _begin(self, i: int, seed: int | None) -> Array:
        """Start an episode of environment `i`; returns its first observation."""
        try:
            row = self.row(check_reset(self.envs[i].reset(seed=seed))).astype(np.float32)
        except (Exception, SystemExit) as error:
            raise blame(i, error, " at reset") from error
        refuse_not_finite(i, row[None])
        self.steps[i] = 0
        self.sim.begun(i)
        self.pool.read(i)
        return row

    def step(self, action: Array) -> Step:
        self.send(action)
        return self.recv()

    def close(self) -> None:
        with contextlib.suppress(EnvError):
            self._settle()
        self.pool.close()
        warn_once(next((fault for fault in [fault_at_close(env) for env in self.envs] if fault), ""))
        self.envs = []


def limit_of(env: Any) -> int:
    """The time limit of an environment in steps; a number that is never reached where it has none."""
    while isinstance(env, gym.Wrapper):
        if isinstance(env, gym.wrappers.TimeLimit):
            return int(env._max_episode_steps)
        env = env.env
    return int(np.iinfo(np.int64).max)
