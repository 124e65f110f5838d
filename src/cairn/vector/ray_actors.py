"""Environments in Ray's actors: on this machine, or on every machine of a cluster."""

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
from cairn.vector.worker_pool import WorkerPool, env_batch_of

ANSWERS_WITHIN = 5.0  # s that a cluster is given to accept a connection


class Ray(WorkerPool):
    """A pool of actors, each on whatever node has a core for it. Rows travel through the object store.

    An actor or a node that dies is replaced like any worker; Ray finds the new one another place.
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

    def _order(self, worker: int, what: str, *given: Any) -> None:
        self.pending[worker] = self.actors[worker].do.remote(what, *given)

    def _order_step(self, action: Array) -> None:
        for worker, (start, stop) in enumerate(self.spans):
            self.pending[worker] = self.actors[worker].do.remote("step", action[start:stop])

    def _answer(self, worker: int, within: float) -> None:
        start, stop = self.spans[worker]
        try:
            failure, rows = self.ray.get(self.pending[worker], timeout=within or None)
        except self.ray.exceptions.GetTimeoutError:
            raise EnvError(start, f"did not answer within {within:g} s") from None
        except self.ray.exceptions.RayActorError:
            raise EnvError(start, "lost its actor") from None
        except self.ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None) or error
            why = (str(cause).splitlines() or [""])[0]
            raise EnvError(start, f"failed in its actor ({type(cause).__name__}: {why})") from None
        if failure is not None:
            raise EnvError(*failure)
        for name, value in rows.items():
            getattr(self.buffers, name)[start:stop] = value

    def close(self) -> None:
        for actor in self.actors:
            self.ray.kill(actor)


class EnvActor:
    """An actor's side: a batch of environments, made at the first order so that a fault in it can be told."""

    def __init__(self, makers: bytes, start: int, stop: int) -> None:
        self.makers, self.span = makers, (start, stop)
        self.batch: EnvBatch | None = None

    def do(self, what: str, *given: Any) -> tuple[tuple[int, str] | None, dict[str, Array]]:
        """(None, every buffer's rows), or (which environment and what went wrong, nothing)."""
        try:
            if self.batch is None:
                self.batch = env_batch_of(self.makers, *self.span)
            getattr(self.batch, what)(*given)
            return None, self.batch.buffers.__dict__
        except EnvError as error:
            return (error.index, error.what), {}


def must_have_ray() -> None:
    if importlib.util.find_spec("ray") is None:
        raise CairnError("the ray vector needs an extra: pip install 'cairn-rl[ray]'.")


def connect(workers: int, address: str = "") -> Any:
    """Ray, connected to the cluster at `address`, or to one of its own on this machine that nobody else can reach."""
    must_have_ray()
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or it hides GPUs from the learner
    import ray

    if not ray.is_initialized():
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address:
            _must_answer(address)
            try:
                ray.init(address=address, **quiet)
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise CairnError(f"no Ray cluster at {address!r}: {str(error).splitlines()[0]}") from error
        else:
            cores = max(workers, os.cpu_count() or 1)
            _token_without_home()
            ray.init("local", num_cpus=cores, include_dashboard=False, _node_ip_address="127.0.0.1", **quiet)
    room = int(ray.cluster_resources().get("CPU", 0))  # type: ignore[no-untyped-call]
    if workers > room:
        raise CairnError(f"{workers} workers need a core each, and the cluster has {room}; lower {option('workers')}.")
    return ray


def _token_without_home() -> None:
    """Ray keeps the token of a cluster of its own in the user's home. Where that is read-only, it is given one."""
    folder = Path.home() / ".ray"
    told = {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys() or (folder / "auth_token").exists()
    if not told and not os.access(folder if folder.exists() else folder.parent, os.W_OK):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


def _must_answer(address: str) -> None:
    """Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():  # "auto", or as Ray knows it
        return
    try:
        socket.create_connection((host, int(port)), ANSWERS_WITHIN).close()
    except OSError as error:
        reason = error.strerror or "no answer"
        raise CairnError(f"no Ray cluster answers at {address!r} within {ANSWERS_WITHIN:g} s ({reason}).") from None
