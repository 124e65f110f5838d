"""The process group of a run with several learners: torch.distributed, with gloo on CPUs and NCCL between GPUs."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from cairn.core.errors import CairnError

ANSWERS_WITHIN = datetime.timedelta(hours=2)  # the others wait while learner 0 evaluates and saves


STARTS_WITHIN = 300.0  # seconds for all learners to answer first


def file_store(path: str, count: int) -> Any:
    """Where `count` learners of one machine find each other."""
    return dist.FileStore(path, count)  # type: ignore[attr-defined]


def tcp_store(host: str, port: int, count: int, *, first: bool) -> Any:
    """Where `count` learners of several machines find each other: on that of the first one. Port 0 takes a free one."""
    within: Any = {"wait_for_workers": False, "timeout": datetime.timedelta(seconds=STARTS_WITHIN)}
    return dist.TCPStore(host, port, count, is_master=first, **within)  # type: ignore[attr-defined]


class LostLearner(CairnError):
    """The connection to another learner broke."""


class Group:
    """Implements `cairn.core.learners.Learners`. A context: the connections last as long."""

    def __init__(self, store: Any, rank: int, count: int, *, device: str, local: bool) -> None:
        self.store, self.rank, self.count, self.local = store, rank, count, local
        self.on_gpu = torch.device(device).type == "cuda"

    def __enter__(self) -> Group:
        if self.local:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # not reachable from other machines
        backend = "cpu:gloo,cuda:nccl" if self.on_gpu else "gloo"
        where: Any = {"rank": self.rank, "world_size": self.count, "timeout": ANSWERS_WITHIN}
        _told(lambda: dist.init_process_group(backend, store=self.store, **where))
        return self

    def __exit__(self, *error: object) -> None:
        dist.destroy_process_group()

    def sum_(self, x: Tensor) -> None:
        """See `Learners`."""
        _told(lambda: dist.all_reduce(x))

    def gathered(self, x: Tensor) -> Tensor:
        """See `Learners`."""
        found = [torch.empty_like(x) for _ in range(self.count)]
        _told(lambda: dist.all_gather(found, x.contiguous()))
        return torch.stack(found)

    def exchange(self, value: Any) -> list[Any]:
        """See `Learners`."""
        found: list[Any] = [None] * self.count
        _told(lambda: dist.all_gather_object(found, value))  # over CPUs, also where gradients go between GPUs
        return found

    def broadcast_(self, x: Tensor) -> None:
        """See `Learners`."""
        _told(lambda: dist.broadcast(x, 0))


def _told(ask: Callable[[], Any]) -> None:
    """Ask the other learners something. Raises LostLearner where one does not answer."""
    try:
        ask()
    except RuntimeError as error:
        raise LostLearner(str(error).splitlines()[0]) from error
