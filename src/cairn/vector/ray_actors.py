"""Environments in Ray actors, on this machine or on a cluster."""

from __future__ import annotations

import importlib.util
import logging
import os
import secrets
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cairn.core.calls import option
from cairn.core.errors import CairnError, EnvError
from cairn.core.types import Array
from cairn.vector.env_batch import EnvBatch
from cairn.vector.protocol import EnvMaker
from cairn.vector.step_buffers import StepBuffers
from cairn.vector.worker_pool import Command, WorkerPool, run_command, unpack_batch

LONGEST = 300  # characters of what Ray says
ANSWERS_WITHIN = 5.0  # seconds for a cluster to accept a connection


class Ray(WorkerPool):
    """A `WorkerPool` of actors, each on a node with a free core. Rows travel through the object store.

    An actor that dies, also with its node, is replaced like any worker; Ray places the new one elsewhere.
    """

    def __init__(
        self, makers: Sequence[EnvMaker], *, workers: int | None = None, timeout: float = 120.0, address: str = ""
    ) -> None:
        super().__init__(makers, workers=workers, timeout=timeout)
        self.ray = connect(len(self.spans), address)
        self.buffers = StepBuffers.allocate(self.spec, self.num_envs)
        self.actor_class = self.ray.remote(num_cpus=1, max_restarts=0)(EnvActor)
        self.actors = [self.actor_class.remote(self.makers, *span) for span in self.spans]
        self.pending: list[Any] = [None] * len(self.spans)

    def _replace(self, worker: int) -> None:
        self.ray.kill(self.actors[worker])
        self.actors[worker] = self.actor_class.remote(self.makers, *self.spans[worker])

    def _send(self, worker: int, command: Command, *args: Any) -> None:
        self.pending[worker] = self.actors[worker].run.remote(command, *args)

    def _send_step(self, action: Array) -> None:
        for worker, (start, stop) in enumerate(self.spans):
            self._send(worker, "step", action[start:stop])

    def _wait(self, worker: int, timeout: float) -> None:
        start = self.spans[worker][0]
        failure, rows = answer_of(self.ray, self.pending[worker], start, timeout)
        if failure is not None:
            raise EnvError(*failure)
        self.buffers.write(start, rows)

    def close(self) -> None:
        for actor in self.actors:
            self.ray.kill(actor)


class EnvActor:
    """A batch of environments in an actor. It is made at the first command, so that errors can be answered."""

    def __init__(self, makers: bytes, start: int, stop: int) -> None:
        self.makers, self.span = makers, (start, stop)
        self.batch: EnvBatch | None = None

    def run(self, command: Command, *args: Any) -> tuple[tuple[int, str] | None, StepBuffers | None]:
        """Run a command: (None, the rows of its environments), or ((environment, fault), None)."""
        try:
            if self.batch is None:
                self.batch = unpack_batch(self.makers, *self.span)
            run_command(self.batch, command, *args)
            return None, self.batch.buffers
        except EnvError as error:
            return (error.index, error.what), None


def answer_of(
    ray: Any, reference: Any, env: int, timeout: float, *, actor: str = "actor", late: str = "did not answer"
) -> Any:
    """What an actor returns, within `timeout` seconds (0: no limit).

    Raises EnvError for its first environment `env` where it failed, died or was too late.
    """
    try:
        return ray.get(reference, timeout=timeout or None)
    except ray.exceptions.GetTimeoutError:
        raise EnvError(env, f"{late} within {timeout:g} s") from None
    except ray.exceptions.RayActorError:
        raise EnvError(env, f"lost its {actor}") from None
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None) or error
        why = (str(cause).splitlines() or [""])[0]
        raise EnvError(env, f"failed in its {actor} ({type(cause).__name__}: {why})") from None


def must_have_ray() -> None:
    """Raise CairnError if Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise CairnError("the ray vector needs an extra: pip install 'cairn-rl[ray]'.")


def connect(workers: int, address: str = "") -> Any:
    """Ray, connected to the cluster at `address`, or to a new private one on this machine. Raises CairnError."""
    must_have_ray()
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # otherwise Ray hides GPUs from the learner
    import ray

    if not ray.is_initialized():
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address:
            _check_reachable(address)
            try:
                ray.init(address=address, **quiet)
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise CairnError(f"no Ray cluster at {address!r}: {_one_line(error)}") from error
        else:
            cores = max(workers, os.cpu_count() or 1)
            _token_without_home()
            ray.init("local", num_cpus=cores, include_dashboard=False, _node_ip_address="127.0.0.1", **quiet)
    # `Restarts` reports a lost worker in one sentence. Ray's own long message has no public switch.
    ray._private.worker._worker_logs_enabled = False
    room = int(ray.cluster_resources().get("CPU", 0))
    if workers > room:
        raise CairnError(f"{workers} workers need a core each, and the cluster has {room}; lower {option('workers')}.")
    return ray


def _one_line(error: Exception) -> str:
    """What Ray says, on one line: of versions that differ, its first line names none."""
    said = " ".join(str(error).split())
    return said if len(said) <= LONGEST else f"{said[:LONGEST]} ..."


def _token_without_home() -> None:
    """Set a token for a local cluster if the user's home, where Ray keeps one, is read-only."""
    folder = Path.home() / ".ray"
    has_token = {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys() or (folder / "auth_token").exists()
    if not has_token and not os.access(folder if folder.exists() else folder.parent, os.W_OK):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


def _check_reachable(address: str) -> None:
    """Raise CairnError where nothing listens at the address: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():  # "auto", or another form that Ray resolves
        return
    try:
        socket.create_connection((host, int(port)), ANSWERS_WITHIN).close()
    except OSError as error:
        reason = error.strerror or "no answer"
        raise CairnError(f"no Ray cluster answers at {address!r} within {ANSWERS_WITHIN:g} s ({reason}).") from None
