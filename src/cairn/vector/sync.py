"""All environments in this process, one after the other: the fastest choice for cheap ones."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from cairn.core.types import Array, Step
from cairn.vector.base import EnvMaker, EpisodeStats
from cairn.vector.lane import Hang, Lane

TICKS = 10  # of a deadline


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


class Deadline:
    """A context whose body is woken by Hang where it takes longer; only the main thread can be woken.

    It counts ticks and not the clock: while we are stopped ourselves (Ctrl-Z, a sleeping laptop), one at most adds up.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds if threading.current_thread() is threading.main_thread() else 0.0
        self.before: Any = None  # whose alarm it was
        self.left = TICKS

    def _tick(self, *_: Any) -> None:
        self.left -= 1
        if self.left <= 0:
            raise Hang(self.seconds)

    def __enter__(self) -> None:
        if self.seconds:
            self.left, self.before = TICKS, signal.signal(signal.SIGALRM, self._tick)
            signal.setitimer(signal.ITIMER_REAL, self.seconds / TICKS, self.seconds / TICKS)

    def __exit__(self, *_: Any) -> None:
        if self.seconds:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self.before)
