"""The other learners of a run as tasks of a Ray cluster, one each."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import cloudpickle

from cairn.core.errors import CairnError
from cairn.core.untrusted import printable
from cairn.runs.learner import Work, learn
from cairn.runs.process_group import LostLearner, tcp_store
from cairn.vector.ray_actors import connect


class Task:
    """A learner on a node of the cluster."""

    def __init__(self, ray: Any, rank: int, reference: Any) -> None:
        self.ray, self.rank, self.reference = ray, rank, reference

    def ended(self, seconds: float) -> str | None:
        """How it ended, see `cairn.runs.team.Other`."""
        done, _ = self.ray.wait([self.reference], timeout=seconds)
        if not done:
            return None
        try:
            said: str = self.ray.get(self.reference)
        except self.ray.exceptions.RayTaskError as error:
            return f"learner {self.rank} failed: {(str(error.cause).splitlines() or [''])[0]}"
        except self.ray.exceptions.RayError as error:
            return f"learner {self.rank} was lost with its node or its process ({type(error).__name__})."
        return said and f"learner {self.rank} stopped: {said}"

    def stop(self) -> None:
        """End it if it still works."""
        self.ray.cancel(self.reference, force=True)


def on_cluster(work: Work) -> tuple[Any, list[Any]]:
    """Start learners 1, 2, ... on the cluster; returns the store through which all find each other, and them."""
    recipe = work.recipe
    ray, count = connect(0, recipe.ray_address), recipe.learners
    wanted = {"CPU": max(recipe.threads, 1), "GPU": int(recipe.device.startswith("cuda"))}
    room = ray.cluster_resources()
    for kind, each in wanted.items():
        if each * (count - 1) > room.get(kind, 0):
            raise CairnError(
                f"{count - 1} further learners need {each * (count - 1)} {kind}s, and the cluster has"
                f" {room.get(kind, 0):g}."
            )
    host = ray.util.get_node_ip_address()
    store = tcp_store(host, 0, count, first=True)
    folder = work.folder.resolve() if work.folder is not None else None
    packed, where = cloudpickle.dumps(replace(work, folder=folder)), (host, store.port, count)
    task = ray.remote(num_cpus=wanted["CPU"], num_gpus=wanted["GPU"], max_retries=0, max_calls=1)(_on_node)
    about = _version(), os.getcwd(), None if folder is None else str(folder)
    return store, [Task(ray, rank, task.remote(rank, packed, where, *about)) for rank in range(1, count)]


def _on_node(rank: int, packed: bytes, where: tuple[str, int, int], version: str, cwd: str, folder: str | None) -> str:
    """Work as a learner on this node; returns what went wrong, or "" ."""
    host = socket.gethostname()
    if _version() != version:
        return f"the node {host} has Cairn {_version()}, and learner 0 has {version}; install one version on all."
    for path in (cwd, folder):
        if path is not None and not Path(path).is_dir():
            return f"the node {host} does not see {path}; use a folder that all nodes share."
    os.chdir(cwd)
    try:
        store = tcp_store(*where, first=False)
        learn(cloudpickle.loads(packed), rank, store, local=False)
    except LostLearner:
        return ""  # another one says why
    except CairnError as error:
        return printable(error)
    return ""


def _version() -> str:
    try:
        return metadata.version("cairn-rl")
    except metadata.PackageNotFoundError:
        return "of a checkout"
