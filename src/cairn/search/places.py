"""Where the trainings of a sweep or a search run: processes of this machine, or tasks of a Ray cluster."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from cairn.core.calls import option
from cairn.core.errors import CairnError

LOOK_EVERY = 0.5  # seconds
LOSSES = 3  # times that one command may be lost with its node
TAIL = 2**20  # bytes of output that are read


@dataclass(frozen=True)
class Finished:
    """How a command ended. `lost` says why it has no exit code: its node or its process is gone."""

    code: int
    out: str = ""
    err: str = ""
    lost: str = ""


class Job(Protocol):
    """A command that runs."""

    def poll(self, seconds: float) -> Finished | None:
        """Wait for its end, up to so many seconds."""
        ...

    def stop(self) -> None:
        """Kill it if it still runs."""
        ...


class Place(Protocol):
    """Where commands run."""

    jobs: int  # that may be started at the same time

    def start(self, words: Sequence[str], log: Path | None = None) -> Job:
        """Start `cairn WORDS`; its output goes to `log`, or is part of what `poll` returns."""
        ...


class Process:
    """`cairn WORDS` in a process of this machine, which is killed with this one."""

    def __init__(self, words: Sequence[str], log: Path | None, environment: dict[str, str], cwd: str | None) -> None:
        self.files = ExitStack()
        opened: list[IO[bytes]] = [open(log, "ab")] * 2 if log else [tempfile.TemporaryFile() for _ in range(2)]
        self.out, self.err = (self.files.enter_context(file) for file in opened)
        self.logged = log is not None
        command = [sys.executable, "-m", "cairn", *words]
        where: Any = {"env": environment, "cwd": cwd, "stdin": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, stdout=self.out, stderr=self.err, preexec_fn=_die_with_parent, **where)

    def poll(self, seconds: float) -> Finished | None:
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        said = ("", "") if self.logged else (_tail(self.out), _tail(self.err))
        self.files.close()
        return Finished(code, *said)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        self.files.close()


class Here:
    """Processes of this machine, `jobs` at a time, which share its cores."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs

    def start(self, words: Sequence[str], log: Path | None = None) -> Job:
        """See `Place`."""
        threads = max((os.cpu_count() or 1) // self.jobs, 1)
        return Process(words, log, {**os.environ, "OMP_NUM_THREADS": str(threads)}, None)


class OnRay:
    """Tasks of a Ray cluster, each with `cpus` cores and `gpus` GPUs. All nodes share the folder of the runs."""

    def __init__(self, address: str, folder: Path, *, jobs: int, cpus: int = 1, gpus: float = 0.0) -> None:
        from cairn.vector.ray_actors import connect

        self.ray, self.jobs, self.cpus = connect(1, address), jobs, cpus
        self.folder = str(folder.resolve())
        room = self.ray.cluster_resources()
        for name, kind, wanted in (("cpus", "CPU", cpus), ("gpus", "GPU", gpus)):
            if wanted > room.get(kind, 0):
                raise CairnError(
                    f"a training needs {wanted:g} {kind}s, and the cluster has {room.get(kind, 0):g}; lower"
                    f" {option(name)}."
                )
        self.task = self.ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=0)(_on_node)

    def start(self, words: Sequence[str], log: Path | None = None) -> Job:
        """See `Place`."""
        told = log if log is None else log.resolve()
        return _Task(self.ray, self.task.remote(tuple(words), told, self.cpus, os.getcwd(), self.folder, _version()))


class _Task:
    """A command on a node of the cluster."""

    def __init__(self, ray: Any, reference: Any) -> None:
        self.ray, self.reference = ray, reference

    def poll(self, seconds: float) -> Finished | None:
        done, _ = self.ray.wait([self.reference], timeout=seconds)
        if not done:
            return None
        try:
            found: Finished = self.ray.get(self.reference)
        except self.ray.exceptions.RayTaskError as error:
            return Finished(1, err=f"cairn: a node failed: {(str(error.cause).splitlines() or [''])[0]}")
        except self.ray.exceptions.RayError as error:
            return Finished(1, lost=type(error).__name__)
        return found

    def stop(self) -> None:
        self.ray.cancel(self.reference, force=True)


def _on_node(words: tuple[str, ...], log: Path | None, cpus: int, cwd: str, folder: str, expected: str) -> Finished:
    """Run `cairn WORDS` on this node of a cluster."""
    host = socket.gethostname()
    if _version() != expected:
        wrong = f"the node {host} has Cairn {_version()}, and this machine {expected}; install one version on all."
        return Finished(2, err=f"cairn: {wrong}")
    for path in (folder, cwd):
        if not Path(path).is_dir():
            return Finished(2, err=f"cairn: the node {host} does not see {path}; use a folder that all nodes share.")
    job = Process(words, log, {**os.environ, "OMP_NUM_THREADS": str(cpus)}, cwd)
    try:
        return _end(job, lambda: None)
    finally:
        job.stop()


def run(
    place: Place,
    command: Callable[[], Sequence[str]],
    what: str,
    *,
    log: Path | None = None,
    watch: Callable[[], None] = lambda: None,
) -> Finished:
    """Run a command to its end, and again if it is lost with its node.

    Args:
        place: Where.
        command: Gives the words to run; asked again after a loss, so that a training can be resumed.
        what: Name of the command in messages.
        log: File of its output.
        watch: Called while it runs; if it raises, the command is killed.

    Returns:
        How it ended. A command that was lost too often has failed.
    """
    for losses in range(LOSSES + 1):
        job = place.start(command(), log)
        try:
            found = _end(job, watch)
        except BaseException:
            job.stop()
            raise
        if not found.lost:
            return found
        if losses < LOSSES:
            print(f"cairn: {what} lost its node ({found.lost}); it is continued on another.", file=sys.stderr)
    return Finished(1, err=f"cairn: {what} lost its node {LOSSES + 1} times; the last reason was {found.lost}.")


def _end(job: Job, watch: Callable[[], None]) -> Finished:
    while True:
        found = job.poll(LOOK_EVERY)
        if found is not None:
            return found
        watch()


def must_name_a_place(on: str) -> None:
    """Raise CairnError where `--on` cannot be the name of a place."""
    if on not in ("", "ray", "auto") and ":" not in on:
        raise CairnError(
            f"{option('on')} is {on}; write ray, or the address of a Ray cluster: auto, HOST:6379 or ray://HOST:10001."
        )


def place(on: str, folder: Path, *, jobs: int, trials: int, cpus: int, gpus: float) -> Place:
    """The place that `--on` names.

    Args:
        on: "" is this machine; "ray" a Ray of its own; else the address of a cluster.
        folder: Folder of the runs.
        jobs: Processes at a time on this machine; on a cluster it decides how many run.
        trials: Trainings in all.
        cpus: Cores of a training, on a cluster.
        gpus: GPUs of a training, on a cluster.

    Raises:
        CairnError: Ray is missing, no cluster answers, or it is too small.
    """
    if not on:
        return Here(jobs)
    must_name_a_place(on)
    return OnRay("" if on == "ray" else on, folder, jobs=trials, cpus=cpus, gpus=gpus)


def _version() -> str:
    from cairn import __version__

    return __version__


def _tail(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - TAIL, 0))
    return file.read().decode("utf-8", "replace")


def _die_with_parent() -> None:
    """End the process when its parent is killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
