"""All environments in this process, one after the other: the fastest choice for cheap ones."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from cairn.core.types import Array, Step
from cairn.vector.base import EnvMaker, EpisodeStats
from cairn.vector.lane import Hang, Lane


class Sync:
    """Vector over one lane."""

    def __init__(self, makers: Sequence[EnvMaker], *, timeout: float = 120.0) -> None:
        self.lane = Lane(makers)
        self.spec = self.lane.spec
        self.num_envs = len(makers)
        self.restarts = 0
        self.timeout = timeout
        self.stats = EpisodeStats(self.num_envs)
        self.valid = np.ones(self.num_envs, bool)
        self.action: Array = np.zeros(0)

    def reset(self, seeds: Sequence[int]) -> Array:
        self.stats.reset()
        with deadline(self.timeout):
            self.lane.reset(seeds)
        return self.lane.slots.obs.copy()

    def send(self, action: Array) -> None:
        self.action = self.spec.action.to_env(action)

    def recv(self) -> Step:
        with deadline(self.timeout):
            self.lane.step(self.action)
        s = self.lane.slots
        terminated, truncated = s.terminated.copy(), s.truncated.copy()
        reward = s.reward.copy()
        episodes = self.stats.update(reward, terminated | truncated, self.valid, s.success)
        return Step(s.obs.copy(), s.next_obs.copy(), reward, terminated, truncated, self.valid, episodes)

    def step(self, action: Array) -> Step:
        self.send(action)
        return self.recv()

    def close(self) -> None:
        self.lane.close()


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise Hang inside the body where it takes longer; only the main thread can be woken, elsewhere it just runs."""
    if seconds <= 0 or threading.current_thread() is not threading.main_thread():
        yield
        return

    def expired(*_: Any) -> None:
        raise Hang(seconds)

    before = signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
