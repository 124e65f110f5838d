"""A backend by its name."""

from __future__ import annotations

from typing import Literal

from cairn.vector.base import EnvMaker, Vector
from cairn.vector.sync import Sync
from cairn.vector.workers import Workers

Backend = Literal["sync", "async"]


def make_vector(task: EnvMaker, num_envs: int, *, backend: Backend, workers: int = 0, timeout: float = 120.0) -> Vector:
    """`num_envs` copies of one task; async spreads them over `workers` processes (0: one a core)."""
    makers = [task] * num_envs
    if backend == "async" and num_envs > 1:
        return Workers(makers, workers=workers or None, timeout=timeout)
    return Sync(makers, timeout=timeout)
