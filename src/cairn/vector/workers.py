"""Environments spread over worker processes that write into shared memory."""

from __future__ import annotations

import multiprocessing as mp
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np

from cairn.core.errors import EnvError
from cairn.core.types import Array, Spec
from cairn.vector.base import EnvMaker
from cairn.vector.crew import Crew, lane_of
from cairn.vector.lane import Lane, Slots


class Workers(Crew):
    """A crew of processes. An order is a short message; rows and actions lie in memory that all of them share."""

    def __init__(self, makers: Sequence[EnvMaker], *, workers: int | None = None, timeout: float = 120.0) -> None:
        super().__init__(makers, workers=workers, timeout=timeout)
        self.context = mp.get_context("forkserver")
        self.context.set_forkserver_preload(["cairn.vector.workers"])
        self.memory = {
            name: self.context.RawArray("b", int(np.prod(shape)) * np.dtype(dtype).itemsize)
            for name, (shape, dtype) in _layout(self.spec, self.num_envs).items()
        }
        arrays = _views(self.memory, self.spec, self.num_envs)
        self.action = arrays.pop("action")
        self.slots = Slots(**arrays)
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
        with main_hidden():
            process.start()
        theirs.close()
        return process, ours

    def _replace(self, worker: int) -> None:
        self.processes[worker].kill()
        self.processes[worker].join()
        self.pipes[worker].close()
        self.processes[worker], self.pipes[worker] = self._spawn(*self.spans[worker])

    def _order_reset(self, worker: int, seeds: list[int]) -> None:
        self._tell(worker, ("reset", seeds))

    def _order_step(self, action: Array) -> None:
        self.action[:] = action
        for worker in range(len(self.pipes)):
            self._tell(worker, ("step", None))

    def _tell(self, worker: int, order: tuple[str, list[int] | None]) -> None:
        """Give an order; a worker that is dead is found so when its answer is awaited."""
        try:
            self.pipes[worker].send(order)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def _answer(self, worker: int) -> None:
        first = self.spans[worker][0]
        try:
            if not self.pipes[worker].poll(self.timeout or None):
                raise EnvError(first, f"did not answer within {self.timeout:g} s")
            failure = self.pipes[worker].recv()
        except (EOFError, ConnectionResetError, BrokenPipeError):
            raise EnvError(first, "lost its worker process") from None
        if failure is not None:
            raise EnvError(*failure)

    def close(self) -> None:
        for worker in range(len(self.pipes)):
            self._tell(worker, ("close", None))
        for process in self.processes:
            process.join(2)
            if process.is_alive():
                process.kill()
                process.join()


@contextmanager
def main_hidden() -> Iterator[None]:
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
                lane = lane_of(makers, start, stop)
                lane.slots = Slots(**arrays).rows(start, stop)
            lane.reset(seeds) if order == "reset" else lane.step(action)
            pipe.send(None)
        except EnvError as error:
            pipe.send((error.index, error.what))
    if lane is not None:
        lane.close()
