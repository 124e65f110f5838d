"""Environments in worker processes that write into shared memory."""

from __future__ import annotations

import contextlib
import multiprocessing as mp
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Literal

import numpy as np

from cairn.core.errors import EnvError
from cairn.core.types import Array, Spec
from cairn.vector.checks import warn_once
from cairn.vector.env_batch import EnvBatch
from cairn.vector.protocol import EnvMaker
from cairn.vector.step_buffers import StepBuffers
from cairn.vector.worker_pool import Command, WorkerPool, run_command, unpack_batch

CLOSES_WITHIN = 2.0  # seconds for workers to close their environments
GRACE = 1.0  # seconds for a worker to close its environments after its parent died


class Workers(WorkerPool):
    """A `WorkerPool` of processes. Commands are short messages; rows and actions are in shared memory."""

    def __init__(self, makers: Sequence[EnvMaker], *, workers: int | None = None, timeout: float = 120.0) -> None:
        super().__init__(makers, workers=workers, timeout=timeout)
        self.context = mp.get_context("forkserver")
        self.context.set_forkserver_preload(["cairn.vector.processes"])
        self.memory = {
            name: self.context.RawArray("b", int(np.prod(shape)) * np.dtype(dtype).itemsize)
            for name, (shape, dtype) in _layout(self.spec, self.num_envs).items()
        }
        arrays = _views(self.memory, self.spec, self.num_envs)
        self.action = arrays.pop("action")
        self.buffers = StepBuffers(**arrays)
        self.processes: list[BaseProcess] = []
        self.pipes: list[Connection] = []
        for start, stop in self.spans:
            process, pipe = self._spawn(start, stop)
            self.processes.append(process)
            self.pipes.append(pipe)

    def _spawn(self, start: int, stop: int) -> tuple[BaseProcess, Connection]:
        ours, theirs = self.context.Pipe()
        args = (theirs, self.makers, start, stop, self.memory, self.spec, self.num_envs)
        process = self.context.Process(target=_run_worker, args=args, daemon=True)
        with hide_main():
            process.start()
        theirs.close()
        return process, ours

    def _replace(self, worker: int) -> None:
        self.processes[worker].kill()
        self.processes[worker].join()
        self.pipes[worker].close()
        self.processes[worker], self.pipes[worker] = self._spawn(*self.spans[worker])

    def _send(self, worker: int, command: Command | Literal["close"], *args: Any) -> None:
        try:
            self.pipes[worker].send((command, args))
        except (BrokenPipeError, ConnectionResetError):
            pass

    def _send_step(self, action: Array) -> None:
        self.action[:] = action
        for worker in range(len(self.pipes)):
            self._send(worker, "step")

    def _wait(self, worker: int, timeout: float) -> None:
        first = self.spans[worker][0]
        try:
            if not self.pipes[worker].poll(timeout or None):
                raise EnvError(first, f"did not answer within {timeout:g} s")
            failure = self.pipes[worker].recv()
        except (EOFError, ConnectionResetError, BrokenPipeError):
            raise EnvError(first, "lost its worker process") from None
        if failure is not None:
            raise EnvError(*failure)

    def close(self) -> None:
        for worker in range(len(self.pipes)):
            self._send(worker, "close")
        for pipe in self.pipes:
            self._warn_of_close_fault(pipe)
        for process in self.processes:
            process.join(CLOSES_WITHIN)
            if process.is_alive():
                process.kill()
                process.join()

    def _warn_of_close_fault(self, pipe: Connection) -> None:
        """Print the last message of a worker, a str with the fault at closing; drop earlier messages."""
        with contextlib.suppress(EOFError, OSError):
            while pipe.poll(CLOSES_WITHIN):
                message = pipe.recv()
                if isinstance(message, str):
                    return warn_once(message)


@contextmanager
def hide_main() -> Iterator[None]:
    """Context to start processes that do not import the user's script: it needs no `if __name__ == "__main__"`.

    cloudpickle sends by value what a worker needs of that script.
    """
    main = vars(sys.modules["__main__"])
    saved: dict[str, Any] = {name: main[name] for name in ("__file__", "__spec__") if name in main}
    try:
        main.update(dict.fromkeys(saved))
        yield
    finally:
        main.update(saved)


def _layout(spec: Spec, n: int) -> dict[str, tuple[tuple[int, ...], str]]:
    action = spec.action.to_env(np.zeros((n, *spec.action_shape), spec.action_dtype))
    return {**StepBuffers.fields(spec, n), "action": (action.shape, str(action.dtype))}


def _views(memory: dict[str, Any], spec: Spec, n: int) -> dict[str, Array]:
    layout = _layout(spec, n)
    return {k: np.frombuffer(memory[k], dtype).reshape(shape) for k, (shape, dtype) in layout.items()}


def _run_worker(
    pipe: Connection, makers: bytes, start: int, stop: int, memory: dict[str, Any], spec: Spec, num_envs: int
) -> None:
    """The main function of a worker. It answers each command with None or (environment, fault)."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the parent handles signals; when its pipe closes, the worker ends
    threading.Thread(target=_exit_with_parent, args=(pipe.fileno(),), daemon=True).start()
    arrays = _views(memory, spec, num_envs)
    action = arrays.pop("action")[start:stop]
    batch: EnvBatch | None = None
    try:
        while True:
            command, args = pipe.recv()
            if command == "close":
                break
            failure = None
            try:
                if batch is None:
                    batch = unpack_batch(makers, start, stop)
                    batch.buffers = StepBuffers(**arrays).rows(start, stop)
                run_command(batch, command, *((action,) if command == "step" else args))
            except EnvError as error:
                failure = error.index, error.what
            except KeyboardInterrupt:  # SIGINT is ignored here, so an environment raised it
                failure = start, "raised KeyboardInterrupt"
            pipe.send(failure)
    except (EOFError, OSError):
        pass  # the parent is gone
    fault = batch.close() if batch is not None else ""
    with contextlib.suppress(OSError):
        pipe.send(fault)


def _exit_with_parent(pipe: int) -> None:
    """Exit some seconds after the other end of the pipe was closed; until then environments can close."""
    waiting = select.poll()
    waiting.register(pipe, 0)  # only the hang-up
    waiting.poll()
    time.sleep(GRACE)
    os._exit(0)
