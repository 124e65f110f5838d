"""All environments in this process, one after the other: the fastest choice for cheap ones."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Sequence
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
        self.deadline = Deadline(timeout)
        self.stats = EpisodeStats(self.num_envs)
        self.valid = np.ones(self.num_envs, bool)
        self.action: Array = np.zeros(0)

    def reset(self, seeds: Sequence[int]) -> Array:
        self.stats.reset()
        with self.deadline:
            self.lane.reset(seeds)
        return self.lane.slots.obs.copy()

    def send(self, action: Array) -> None:
        self.action = self.spec.action.to_env(action)

    def recv(self) -> Step:
        with self.deadline:
            self.lane.step(self.action)
        s = self.lane.slots
        terminated, truncated = s.terminated.copy(), s.truncated.copy()
        reward = s.reward.copy()
        episodes = self.stats.update(s.score, s.over, self.valid, s.success)
        return Step(s.obs.copy(), s.next_obs.copy(), reward, terminated, truncated, self.valid, episodes)

    def step(self, action: Array) -> Step:
        self.send(action)
        return self.recv()

    def close(self) -> None:
        self.lane.close()
        self.deadline.close()


class Deadline:
    """A context whose body is woken by Hang where it takes longer; only the main thread can be woken."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds if threading.current_thread() is threading.main_thread() else 0.0
        self.before: Any = signal.signal(signal.SIGALRM, self._expired) if self.seconds else None

    def _expired(self, *_: Any) -> None:
        late = time.monotonic() - self.entered - self.seconds
        if late > self.seconds / 10:  # it is we who were stopped (Ctrl-Z, a sleeping laptop): the same time again
            self.__enter__()
        else:
            raise Hang(self.seconds)

    def __enter__(self) -> None:
        if self.seconds:
            self.entered = time.monotonic()
            signal.setitimer(signal.ITIMER_REAL, self.seconds)

    def __exit__(self, *_: Any) -> None:
        if self.seconds:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def close(self) -> None:
        if self.seconds:
            signal.signal(signal.SIGALRM, self.before)
