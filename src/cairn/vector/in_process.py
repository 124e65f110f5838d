"""All environments in this process, one after the other: the fastest choice for cheap ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cairn.core.types import Array, Step
from cairn.vector.checks import blame, warn_once
from cairn.vector.deadline import ALARM, STARTS_WITHIN, Deadline, Hang
from cairn.vector.env_batch import EnvBatch
from cairn.vector.protocol import EnvMaker, EpisodeStats


class Sync:
    """A vector over one `EnvBatch`."""

    def __init__(self, makers: Sequence[EnvMaker], *, timeout: float = 120.0) -> None:
        self.batch = EnvBatch(makers)
        self.spec = self.batch.spec
        self.num_envs = len(makers)
        self.restarts = 0
        self.deadline, self.start = Deadline(timeout), Deadline(STARTS_WITHIN if timeout else 0.0)
        self.stats = EpisodeStats(self.num_envs)
        self.valid = np.ones(self.num_envs, bool)
        self.action: Array = np.zeros(0)

    def reset(self, seeds: Sequence[int]) -> Array:
        self.stats.reset()
        self.renew()
        with self.deadline:
            self.batch.reset(seeds)
        self.valid = np.ones(self.num_envs, bool)
        return self.batch.buffers.obs.copy()

    def begin(self, index: int, seed: int) -> Array:
        self.stats.forget(index)
        self.renew(index)
        with self.deadline:
            self.batch.begin(index, seed)
        self.valid[index] = True
        row: Array = self.batch.buffers.obs[index].copy()
        return row

    def renew(self, *which: int) -> None:
        """Before new seeds, remake those (all, or `which`) whose resets depend on earlier use."""
        try:
            with self.start:
                self.batch.renew(*which)
        except Hang as error:
            raise blame(which[0] if which else 0, error, " while it was made") from error

    def rest(self, which: Array) -> None:
        self.valid = ~which
        self.batch.rest(which)

    def send(self, action: Array) -> None:
        self.action = self.spec.action.to_env(action)

    def recv(self) -> Step:
        with self.deadline:
            self.batch.step(self.action)
        s, valid = self.batch.buffers, self.valid.copy()
        terminated, truncated = s.terminated.copy(), s.truncated.copy()
        reward = s.reward.copy()
        episodes = self.stats.update(s.score, s.over, valid, s.success)
        return Step(s.obs.copy(), s.next_obs.copy(), reward, terminated, truncated, valid, episodes)

    def step(self, action: Array) -> Step:
        self.send(action)
        return self.recv()

    def close(self) -> None:
        ALARM.give_back()
        warn_once(self.batch.close())
