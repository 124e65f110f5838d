"""The interface of every vector backend, and parts that backends share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np

from cairn.core.types import Array, Episode, Spec, Step

EnvMaker = Callable[[], gym.Env[Any, Any]]


class Vector(Protocol):
    """N environments that step together: `step` is `send` then `recv`; work between the two overlaps with them.

    `reset` takes N seeds and returns obs [N, ...]. Actions are in Cairn's units (see `Box.to_env`), [N] or [N, dim].
    Step.next_obs is always the true successor. What follows a reset depends on its seeds and the actions alone; see
    `world_reuse`. `close` ends environments and workers.
    """

    spec: Spec
    num_envs: int

    @property
    def restarts(self) -> int:
        """Workers that were replaced so far."""

    def reset(self, seeds: Sequence[int]) -> Array: ...
    def send(self, action: Array) -> None: ...
    def recv(self) -> Step: ...
    def step(self, action: Array) -> Step: ...
    def close(self) -> None: ...


@runtime_checkable
class Separate(Protocol):
    """A vector whose environments can be started and paused one by one; scoring needs it, training does not."""

    def begin(self, index: int, seed: int) -> Array:
        """Start an episode of one environment from a seed; returns its first observation."""

    def rest(self, which: Array) -> None:
        """Do not step the environments `which` [N] bool until the next `begin` or reset; their rows are not valid."""


class EpisodeStats:
    """Returns and lengths of episodes from true rewards (Gymnasium's own are wrong under SAME_STEP)."""

    def __init__(self, num_envs: int) -> None:
        self.total = np.zeros(num_envs)
        self.length = np.zeros(num_envs, np.int64)

    def reset(self) -> None:
        """Drop all open episodes."""
        self.total[:] = 0
        self.length[:] = 0

    def update(self, reward: Array, ended: Array, valid: Array, success: Array) -> tuple[Episode, ...]:
        """Add a step and return the episodes that ended. success [N] int8: 1, 0, or -1 where unknown."""
        if np.count_nonzero(valid) == len(valid):  # nearly always, and cheaper than the general case
            self.total += reward
            self.length += 1
        else:
            self.total += reward * valid
            self.length += valid
        if not np.count_nonzero(ended):  # a fifth of the time of `any`, at every step
            return ()
        done = []
        for i in np.flatnonzero(ended & valid):
            verdict = None if success[i] < 0 else bool(success[i])
            done.append(Episode(int(i), float(self.total[i]), int(self.length[i]), verdict))
            self.total[i] = self.length[i] = 0
        return tuple(done)

    def forget(self, index: int) -> None:
        """Drop the open episode of one environment."""
        self.total[index] = self.length[index] = 0


def success_of(info: Mapping[str, Any]) -> int:
    """1 or 0 where the info says whether the episode succeeded, else -1."""
    for key in ("is_success", "success"):
        if key in info:
            return int(bool(info[key]))
    return -1
