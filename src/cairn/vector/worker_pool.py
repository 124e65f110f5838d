"""Environments spread over several workers, each with a batch of them. Lost workers are replaced."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from cairn.core.errors import EnvError
from cairn.core.seeding import derive_many
from cairn.core.types import Array, Step
from cairn.vector.checks import close_env, make_env
from cairn.vector.deadline import STARTS_WITHIN
from cairn.vector.env_batch import EnvBatch
from cairn.vector.pickling import pack, unpack
from cairn.vector.protocol import EnvMaker, EpisodeStats
from cairn.vector.restarts import Restarts
from cairn.vector.spaces import spec_of_env
from cairn.vector.step_buffers import StepBuffers

Command = Literal["renew", "reset", "begin", "rest", "step"]  # methods of EnvBatch that workers run


class WorkerPool(ABC):
    """A vector over `workers` workers (default: one per core). Equal seeds give the same steps as `Sync`.

    A worker whose environment raises, does not answer within `timeout` or dies is restarted and counted. Its
    environments
    begin new episodes; their lost step is not valid. Repeated failures raise EnvError (see `Restarts`). Making
    environments
    has a longer time limit than stepping them. Subclasses start workers and exchange messages with them.
    """

    buffers: StepBuffers  # what the workers returned last

    def __init__(self, makers: Sequence[EnvMaker], *, workers: int | None = None, timeout: float = 120.0) -> None:
        self.num_envs = len(makers)
        self.timeout = timeout
        self.seed = 0
        self.spans = shares(self.num_envs, workers)
        self.workers = Restarts(len(self.spans), happened="its worker was restarted")
        self.makers: bytes = pack(list(makers))
        probe = make_env(0, makers[0])
        self.spec = spec_of_env(probe)[0]
        close_env(probe)
        self.stats = EpisodeStats(self.num_envs)
        self.lost = np.zeros(self.num_envs, bool)  # environments whose episode was lost since the last step
        self.resting = np.zeros(self.num_envs, bool)

    @property
    def restarts(self) -> int:
        return self.workers.total

    @abstractmethod
    def _replace(self, worker: int) -> None:
        """Start a new worker in place of one that failed."""

    @abstractmethod
    def _send(self, worker: int, command: Command, *args: Any) -> None:
        """Tell a worker to run a method of its batch. A dead worker raises in `_wait`, not here."""

    @abstractmethod
    def _send_step(self, action: Array) -> None:
        """Tell every worker to step; action is [N, ...] in the task's units."""

    @abstractmethod
    def _wait(self, worker: int, timeout: float) -> None:
        """Wait until a worker's rows are in `buffers`. Raises EnvError where it failed or timed out; 0: no limit."""

    @abstractmethod
    def close(self) -> None:
        """End the workers."""

    def reset(self, seeds: Sequence[int]) -> Array:
        self.stats.reset()
        self.lost[:] = self.resting[:] = False
        self.seed = int(seeds[0])
        failed: dict[int, EnvError] = {}
        commands: tuple[Command, ...] = ("renew", "reset")
        for command in commands:
            for worker, (start, stop) in enumerate(self.spans):
                if worker not in failed:
                    self._send(worker, command, *([list(seeds[start:stop])] if command == "reset" else []))
            for worker in set(range(len(self.spans))) - set(failed):
                try:
                    self._wait(worker, self._timeout(command))
                except EnvError as error:
                    failed[worker] = error
        for worker in sorted(failed):
            start, stop = self.spans[worker]
            self._restart(worker, failed[worker], seeds[start:stop])
        return self.buffers.obs.copy()

    def begin(self, index: int, seed: int) -> Array:
        """If the worker fails, its environments begin with other seeds, and their next step is not valid."""
        self.stats.forget(index)
        worker = next(w for w, (start, stop) in enumerate(self.spans) if start <= index < stop)
        start, stop = self.spans[worker]
        self.resting[index] = False
        try:
            self._call(worker, "renew", index - start)
            self._call(worker, "begin", index - start, int(seed))
        except EnvError as error:
            self._restart(worker, error)
            self.lost[start:stop] = True
            self._call(worker, "rest", self.resting[start:stop].copy())
        row: Array = self.buffers.obs[index].copy()
        return row

    def rest(self, which: Array) -> None:
        for worker, (start, stop) in enumerate(self.spans):
            if (which[start:stop] != self.resting[start:stop]).any():
                self._call(worker, "rest", which[start:stop].copy())
        self.resting = which.copy()

    def _call(self, worker: int, command: Command, *args: Any) -> None:
        self._send(worker, command, *args)
        self._wait(worker, self._timeout(command))

    def _timeout(self, command: Command) -> float:
        """Seconds that a command may take; making environments may take longer."""
        return self.timeout if command != "renew" or not self.timeout else max(self.timeout, STARTS_WITHIN)

    def send(self, action: Array) -> None:
        self._send_step(self.spec.action.to_env(action))

    def recv(self) -> Step:
        valid = ~(self.lost | self.resting)
        for worker, (start, stop) in enumerate(self.spans):
            try:
                self._wait(worker, self.timeout)
                self.workers.answered(worker)
            except EnvError as error:
                self._restart(worker, error)
                self.buffers.next_obs[start:stop] = self.buffers.obs[start:stop]
                valid[start:stop] = False
                if self.resting[start:stop].any():
                    self._call(worker, "rest", self.resting[start:stop].copy())
        self.lost[:] = False
        s = self.buffers
        terminated, truncated = s.terminated & valid, s.truncated & valid
        reward = np.where(valid, s.reward, np.float32(0))  # a lost worker may have left NaN
        for i in np.flatnonzero(~valid):
            self.stats.forget(int(i))
        score = np.where(valid, s.score, np.float32(0))
        episodes = self.stats.update(score, s.over & valid, valid, s.success)
        return Step(s.obs.copy(), s.next_obs.copy(), reward, terminated, truncated, valid, episodes)

    def step(self, action: Array) -> Step:
        self.send(action)
        return self.recv()

    def _restart(self, worker: int, error: EnvError, seeds: Sequence[int] | None = None) -> None:
        """Replace a worker and reset its environments, with these seeds or new ones."""
        self.workers.failed(worker, error)
        start, stop = self.spans[worker]
        self._replace(worker)
        seeds = seeds or derive_many(self.seed, stop - start, "restart", self.restarts, start)
        try:
            self._call(worker, "renew")
            self._call(worker, "reset", list(seeds))
        except EnvError as again:
            self._restart(worker, again, seeds)


def shares(num_envs: int, workers: int | None) -> list[tuple[int, int]]:
    """(first, last + 1) of each worker's environments; one worker per core by default, never an idle one."""
    count = min(workers or os.cpu_count() or 1, num_envs)
    return list(pairwise(np.linspace(0, num_envs, count + 1).round().astype(int).tolist()))


def unpack_batch(makers: bytes, start: int, stop: int) -> EnvBatch:
    """The environments `start` to `stop` - 1 of pickled makers."""
    try:
        return EnvBatch(unpack(makers)[start:stop], start)
    except EnvError:
        raise
    except Exception as error:  # any error of the user's code must reach the parent
        raise EnvError(start, f"could not be made in a worker process: {error}") from error


def run_command(batch: EnvBatch, command: Command, *args: Any) -> None:
    """Call the method of a worker's batch that a command names."""
    methods: dict[Command, Callable[..., None]] = {
        "renew": batch.renew,
        "reset": batch.reset,
        "begin": batch.begin,
        "rest": batch.rest,
        "step": batch.step,
    }
    methods[command](*args)
