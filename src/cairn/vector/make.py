"""A backend by its name."""

from __future__ import annotations

from typing import Literal

from cairn.core.errors import CairnError
from cairn.core.game import Game
from cairn.vector.atari import Atari
from cairn.vector.base import EnvMaker, Vector
from cairn.vector.sync import Sync
from cairn.vector.workers import Workers

Backend = Literal["sync", "async", "native"]


def make_vector(task: EnvMaker, num_envs: int, *, backend: Backend, workers: int = 0, timeout: float = 120.0) -> Vector:
    """`num_envs` copies of one task. async spreads them over `workers` processes (0: one a core), native, which is for
    Atari games, over as many threads."""
    if backend == "native":
        game: Game | None = getattr(task, "game", None)
        if game is None:
            raise CairnError("the native vector plays Atari games only (ALE/...); use --vector sync or async.")
        return Atari(game, num_envs, threads=workers)
    makers = [task] * num_envs
    if backend == "async" and num_envs > 1:
        return Workers(makers, workers=workers or None, timeout=timeout)
    return Sync(makers, timeout=timeout)
