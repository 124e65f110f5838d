"""EnvPool's environments, stepped by C++ threads without Python in between."""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import metadata
from typing import Any

from cairn.core.calls import option
from cairn.core.errors import CairnError, closest
from cairn.core.seeding import derive_many
from cairn.core.types import Array, Step
from cairn.vector.gymnasium import Gymnasium

OLDEST = (1, 2, 5)  # in earlier versions all copies of a task could be equal
FOREVER = 2**31 - 1
BOX2D = ("BipedalWalker", "LunarLander")  # their physics depends on bodies destroyed before
RENEW_EVERY = 4096  # steps after which Box2D worlds are made anew


class EnvPool(Gymnasium):
    """N copies of a task of EnvPool. Its seeds are fixed when it is made, so a reset makes it anew.

    It resets in the step after an end (NEXT_STEP); that step is not valid. EnvPool has its own port of Gymnasium's
    physics,
    but evaluation uses Gymnasium's. An end on the last step of the time limit is reported as a truncation only.

    A Box2D world changes slightly with every reset, and a policy that was trained only in worlds after many resets
    falls in
    more than half of the new ones. So all worlds are made anew every `RENEW_EVERY` steps. Open episodes are then
    truncated,
    and do not count in the statistics.
    """

    def __init__(self, name: str, num_envs: int, *, limit: int | None = None, threads: int = 0) -> None:
        """`limit`: steps per episode; 0 means no limit, None keeps the task's own."""
        self.name, self.threads = name, min(threads or os.cpu_count() or 1, num_envs)
        self.limit = {} if limit is None else {"max_episode_steps": limit or FOREVER}
        self.renews, self.age, self.seeds, self.renewals = name.startswith(BOX2D), 0, [0], 0
        fault = envpool_fault(name)
        if fault is not None:
            raise CairnError(fault)
        with _quiet():
            super().__init__(self._make(range(num_envs)), masks=False)

    def _make(self, seeds: Sequence[int]) -> Any:
        import envpool

        return envpool.make(
            self.name,
            env_type="gymnasium",
            num_envs=len(seeds),
            seed=[int(s) % FOREVER for s in seeds],
            num_threads=self.threads,
            **self.limit,
        )

    def reset(self, seeds: Sequence[int]) -> Array:
        self.seeds, self.renewals = list(seeds), 0
        return self._renew(seeds)

    def _renew(self, seeds: Sequence[int]) -> Array:
        self.env.close()
        self.age = 0
        self.stats.reset()
        self.resetting[:] = False
        with _quiet():
            self.env = self._make(seeds)
            return self._rows(self.env.reset()[0])

    def send(self, action: Array) -> None:
        super().send(action)
        self.env.send(self.action)

    def recv(self) -> Step:
        step = super().recv()
        self.age += 1
        if not self.renews or self.age < RENEW_EVERY:
            return step
        self.renewals += 1
        obs = self._renew(derive_many(self.seeds[0], self.num_envs, "world", self.renewals))
        return replace(step, obs=obs, truncated=step.truncated | step.valid & ~step.terminated)

    def _step_envs(self) -> tuple[Any, Array, Array, Array, dict[str, Any]]:
        out: tuple[Any, Array, Array, Array, dict[str, Any]] = self.env.recv()
        return out


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide Gymnasium's warnings about bounds that float32 rounds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def envpool_fault(name: str) -> str | None:
    """Why EnvPool cannot step this task here, in one sentence; None if it can."""
    if importlib.util.find_spec("envpool") is None:
        return "the envpool vector needs an extra: pip install 'cairn-rl[envpool]'."
    version = metadata.version("envpool")
    if tuple(int(part) for part in version.split(".")[:3] if part.isdigit()) < OLDEST:
        least = ".".join(map(str, OLDEST))
        return f"EnvPool {version} may step the same environment N times over: pip install 'envpool>={least}'."
    import envpool

    if name not in envpool.list_all_envs():
        known = closest(name, envpool.list_all_envs())
        return f"EnvPool has no task {name!r}.{known} Use {option('vector', 'sync')} or async."
    return None
