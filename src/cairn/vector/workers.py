"""Environments spread over worker processes, each a lane, writing into shared memory. A dead worker is replaced."""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np

from cairn.core.errors import EnvError
from cairn.core.seeding import derive_many
from cairn.core.types import Array, Spec, Step
from cairn.vector.base import EnvMaker, EpisodeStats
from cairn.vector.lane import Lane, Slots

MAX_RESTARTS_IN_A_ROW = 3


class Workers:
    """Vector over `workers` processes (by default one a core). The same seeds give the same steps as `Sync`.

    A worker whose environment raises, hangs past `timeout` or dies is restarted and counted; its environments begin
    new episodes, their lost step comes back as not valid. Failing again and again without a good step between stops
    the run.
    """

    def __init__(self, makers: Sequence[EnvMaker], *, workers: int | None = None, timeout: float = 120.0) -> None:
        self.num_envs = len(makers)
        self.timeout = timeout
        self.restarts = 0
        self.seed = 0
        count = min(workers or os.cpu_count() or 1, self.num_envs)
        edges = np.linspace(0, self.num_envs, count + 1).round().astype(int).tolist()
        self.spans = list(pairwise(edges))
        self.failures = [0] * len(self.spans)  # of each worker, since its last good step
        self.makers = cloudpickle.dumps(list(makers))
        probe = makers[0]()
        self.spec = Lane([lambda: probe]).spec
        probe.close()
        self.context = mp.get_context("forkserver")
        self.context.set_forkserver_preload(["cairn.vector.workers"])
        self.memory = {
            name: self.context.RawArray("b", int(np.prod(shape)) * np.dtype(dtype).itemsize)
            for name, (shape, dtype) in _layout(self.spec, self.num_envs).items()
        }
        arrays = _views(self.memory, self.spec, self.num_envs)
        self.action = arrays.pop("action")
        self.slots = Slots(**arrays)
        self.stats = EpisodeStats(self.num_envs)
        self.processes: list[BaseProcess] = []
        self.pipes: list[Connection] = []
        for start, stop in self.spans:
            process, pipe = self._spawn(start, stop)
            self.processes.append(process)
            self.pipes.append(pipe)

    def _spawn(self, start: int, stop: int) -> tuple[BaseProcess, Connection]:
        ours, theirs = self.context.Pipe()
        args = (theirs, self.makers, start, stop, self.memory, self.spec, self.num_envs)
        process = self.context.Process(target=_work, args=args, daemon=True)
        with _main_hidden():
            process.start()
        theirs.close()
        return process, ours

    def reset(self, seeds: Sequence[int]) -> Array:
        self.stats.reset()
        self.seed = int(seeds[0])
        for worker, (start, stop) in enumerate(self.spans):
            self._tell(worker, ("reset", list(seeds[start:stop])))
        for worker, (start, stop) in enumerate(self.spans):
            try:
                self._answer(worker)
            except EnvError as error:
                self._restart(worker, error, seeds[start:stop])
        return self.slots.obs.copy()

    def send(self, action: Array) -> None:
        self.action[:] = self.spec.action.to_env(action)
        for worker in range(len(self.pipes)):
            self._tell(worker, ("step", None))

    def recv(self) -> Step:
        valid = np.ones(self.num_envs, bool)
        for worker, (start, stop) in enumerate(self.spans):
            try:
                self._answer(worker)
                self.failures[worker] = 0
            except EnvError as error:
                self._restart(worker, error)
                self.slots.next_obs[start:stop] = self.slots.obs[start:stop]
                valid[start:stop] = False
        s = self.slots
        terminated, truncated = s.terminated & valid, s.truncated & valid
        reward = np.where(valid, s.reward, np.float32(0))  # what a lost worker left behind may not be a number
        for i in np.flatnonzero(~valid):
            self.stats.forget(int(i))
        score = np.where(valid, s.score, np.float32(0))
        episodes = self.stats.update(score, s.over & valid, valid, s.success)
        return Step(s.obs.copy(), s.next_obs.copy(), reward, terminated, truncated, valid, episodes)

    def step(self, action: Array) -> Step:
        self.send(action)
        return self.recv()

    def close(self) -> None:
        for worker in range(len(self.pipes)):
            self._tell(worker, ("close", None))
        for process in self.processes:
            process.join(2)
            if process.is_alive():
                process.kill()
                process.join()

    def _tell(self, worker: int, order: tuple[str, list[int] | None]) -> None:
        """Give an order; a worker that is dead is found so when its answer is awaited."""
        try:
            self.pipes[worker].send(order)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def _answer(self, worker: int) -> None:
        """Wait for one worker; EnvError where it failed, hung or died."""
        first = self.spans[worker][0]
        try:
            if not self.pipes[worker].poll(self.timeout or None):
                raise EnvError(first, f"did not answer within {self.timeout:g} s")
            failure = self.pipes[worker].recv()
        except (EOFError, ConnectionResetError, BrokenPipeError):
            raise EnvError(first, "lost its worker process") from None
        if failure is not None:
            raise EnvError(*failure)

    def _restart(self, worker: int, error: EnvError, seeds: Sequence[int] | None = None) -> None:
        """Replace a worker and reset its environments, with the seeds it was given or fresh ones."""
        self.restarts += 1
        self.failures[worker] += 1
        if self.failures[worker] > MAX_RESTARTS_IN_A_ROW:
            raise EnvError(error.index, f"{error.what} (its worker was restarted {MAX_RESTARTS_IN_A_ROW} times)")
        start, stop = self.spans[worker]
        self.processes[worker].kill()
        self.processes[worker].join()
        self.pipes[worker].close()
        self.processes[worker], self.pipes[worker] = self._spawn(start, stop)
        seeds = seeds or derive_many(self.seed, stop - start, "restart", self.restarts, start)
        self._tell(worker, ("reset", list(seeds)))
        try:
            self._answer(worker)
        except EnvError as again:
            self._restart(worker, again, seeds)


@contextmanager
def _main_hidden() -> Iterator[None]:
    """Start a process without it importing the user's script again: a script needs no `if __name__ == "__main__"`.

    cloudpickle sends what a worker needs of that script by value.
    """
    main = sys.modules["__main__"]
    kept = {name: getattr(main, name) for name in ("__file__", "__spec__") if hasattr(main, name)}
    try:
        for name in kept:
            setattr(main, name, None)
        yield
    finally:
        for name, value in kept.items():
            setattr(main, name, value)


def _layout(spec: Spec, n: int) -> dict[str, tuple[tuple[int, ...], str]]:
    action = spec.action.to_env(np.zeros((n, *spec.action_shape), spec.action_dtype))
    return {**Slots.fields(spec, n), "action": (action.shape, str(action.dtype))}


def _views(memory: dict[str, Any], spec: Spec, n: int) -> dict[str, Array]:
    layout = _layout(spec, n)
    return {k: np.frombuffer(memory[k], dtype).reshape(shape) for k, (shape, dtype) in layout.items()}


def _work(
    pipe: Connection, makers: bytes, start: int, stop: int, memory: dict[str, Any], spec: Spec, num_envs: int
) -> None:
    """A worker's life: one answer for each order, None or (environment, what went wrong)."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the parent decides how a run ends; its closed pipe ends us
    arrays = _views(memory, spec, num_envs)
    action = arrays.pop("action")[start:stop]
    lane: Lane | None = None
    while True:
        try:
            order, seeds = pipe.recv()
        except EOFError:
            break
        if order == "close":
            break
        try:
            if lane is None:
                lane = _lane(makers, start, stop)
                lane.slots = Slots(**arrays).rows(start, stop)
            lane.reset(seeds) if order == "reset" else lane.step(action)
            pipe.send(None)
        except EnvError as error:
            pipe.send((error.index, error.what))
    if lane is not None:
        lane.close()


def _lane(makers: bytes, start: int, stop: int) -> Lane:
    try:
        return Lane(cloudpickle.loads(makers)[start:stop], start)
    except Exception as error:  # the reason must reach the parent, whatever it is
        raise EnvError(start, f"could not be made in a worker process: {error}") from error
