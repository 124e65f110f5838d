"""A backend by its name, or the fastest that is right for the task."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Sequence
from typing import Any, Literal

import gymnasium as gym
import numpy as np

from cairn.core.calls import option
from cairn.core.checks import Envs, NonNegative, Parallel, fit, short
from cairn.core.errors import CairnError
from cairn.core.game import Game
from cairn.core.types import Box
from cairn.vector.atari import Atari
from cairn.vector.checks import shut
from cairn.vector.envpool import EnvPool, why_not
from cairn.vector.history import HistoryVector
from cairn.vector.in_process import Sync
from cairn.vector.processes import Workers
from cairn.vector.protocol import EnvMaker, Vector, spec_of_env
from cairn.vector.ray_actors import Ray

Backend = Literal["auto", "sync", "async", "atari", "envpool", "sb3", "ray"]
Speeds = dict[tuple[Backend, int], float]


def make_vector(
    task: EnvMaker, num_envs: int, *, backend: Backend, workers: int = 0, timeout: float = 120.0, address: str = ""
) -> Vector:
    """`num_envs` copies of one task.

    auto     the fastest of the following that is installed and right for the task
    sync     one after the other, in this process
    async    spread over `workers` processes (0: one a core)
    atari    Atari games, in as many threads of ALE's
    envpool  tasks that EnvPool has, in as many threads of its own
    sb3      Stable-Baselines3's SubprocVecEnv, a process each
    ray      spread over `workers` actors of Ray, on the cluster at `address` or else on this machine
    """
    if not callable(task):
        raise CairnError(f"a vector is made of a cairn.envs.task.Task, or of a function, not of {short(task)}.")
    num_envs, backend = fit("envs", num_envs, Envs), fit("vector", backend, Backend)
    workers, timeout = fit("workers", workers, Parallel), fit("timeout", timeout, NonNegative)
    if backend == "auto":
        backend = choose(task, num_envs)
    if backend == "atari":
        game: Game | None = getattr(task, "game", None)
        if game is None:
            raise CairnError(
                f"the atari vector plays Atari games only (ALE/...); use {option('vector', 'sync')} or async."
            )
        return Atari(game, num_envs, threads=workers)
    if backend == "envpool":
        fault = unlike(task)
        if fault is not None:
            raise CairnError(fault)
        pool = EnvPool(getattr(task, "id", ""), num_envs, limit=_limit(task), threads=workers)
        return _shown(pool, task)
    if backend == "sb3":
        if importlib.util.find_spec("stable_baselines3") is None:
            raise CairnError("the sb3 vector needs an extra: pip install 'cairn-rl[sb3]'.")
        from cairn.vector.sb3 import of_task

        return of_task(task, num_envs)
    makers = [task] * num_envs
    if backend == "ray":
        return Ray(makers, workers=workers or None, timeout=timeout, address=address)
    if backend == "async" and num_envs > 1:
        return Workers(makers, workers=workers or None, timeout=timeout)
    return Sync(makers, timeout=timeout)


def scoring_vector(task: EnvMaker, episodes: int) -> Vector:
    """Environments in which that many episodes are scored: a game's own vector, else the original, here."""
    if fitting(task, 1) == ["atari"]:
        return make_vector(task, min(episodes, 50), backend="atari")  # together: all wait for the longest game
    return make_vector(task, min(episodes, 20), backend="sync")


def choose(task: EnvMaker, num_envs: int, workers: int = 0) -> Backend:
    """What "auto" stands for: of those that are right for the task, the one that steps it the fastest here."""
    found = {backend: throughput(task, num_envs, backend, workers=workers) for backend in fitting(task, num_envs)}
    return max(found, key=lambda backend: found[backend])


def speeds(task: EnvMaker, counts: Sequence[int], *, workers: int = 0, seconds: float = 1.0) -> Speeds:
    """(backend, environments) -> steps a second, for every backend that is installed and right for the task."""
    found: Speeds = {}
    for count in counts:
        for backend in fitting(task, count):
            found[backend, count] = throughput(task, count, backend, workers=workers, seconds=seconds)
    return found


def fitting(task: EnvMaker, num_envs: int) -> list[Backend]:
    """The backends worth a trial."""
    game: Game | None = getattr(task, "game", None)
    if game is not None:
        return ["atari"] if game.mode is None and game.difficulty is None else ["async"]
    found: list[Backend] = ["sync"]
    if num_envs > 1 and (os.cpu_count() or 1) > 1:
        found.append("async")
    if num_envs > 1 and unlike(task) is None:
        found.append("envpool")
    return found


def throughput(task: EnvMaker, num_envs: int, backend: Backend, *, workers: int = 0, seconds: float = 0.3) -> float:
    """Environment steps a second under random actions."""
    envs = make_vector(task, num_envs, backend=backend, workers=workers)
    try:
        envs.reset(range(num_envs))
        spec, rng = envs.spec.action, np.random.default_rng(0)
        actions = [
            rng.uniform(-1, 1, (num_envs, spec.dim)).astype(np.float32)
            if isinstance(spec, Box)
            else rng.integers(0, spec.n, num_envs)
            for _ in range(16)
        ]
        envs.step(actions[0])  # what is made at the first step is no part of it
        begun, rounds, steps = time.perf_counter(), 0, 0
        while (taken := time.perf_counter() - begun) < seconds:
            steps += int(envs.step(actions[rounds % 16]).valid.sum())
            rounds += 1
        return steps / taken
    finally:
        envs.close()


def unlike(task: EnvMaker) -> str | None:
    """Why EnvPool's task of this name is not the one that was asked for, in one sentence; None where it is."""
    name = getattr(task, "id", "")
    if getattr(task, "game", None) is not None:
        return f"Atari games are played by {option('vector', 'atari')}."
    if getattr(task, "args", None) or getattr(task, "time_feature", False) or getattr(task, "resets", 1) > 1:
        told = "takes no arguments of Gymnasium's, and neither time_feature nor resets"
        return f"EnvPool's {name} {told}; use {option('vector', 'sync')} or async."
    fault = why_not(name)
    if fault is not None:
        return fault
    shut(task())  # so that what we would put around it is refused where it does not fit
    env = getattr(task, "plain", task)()
    try:
        ours = spec_of_env(env)[0]
    finally:
        shut(env)
    pool = EnvPool(name, 1)
    theirs = pool.spec
    pool.close()
    if (ours.obs_shape, ours.obs_dtype, ours.action, ours.goal) != (
        theirs.obs_shape,
        theirs.obs_dtype,
        theirs.action,
        theirs.goal,
    ):
        told = "has other observations or actions than Gymnasium's"
        return f"EnvPool's {name} {told}; use {option('vector', 'sync')} or async."
    return None


def _shown(envs: Vector, task: Any) -> Vector:
    """A vector of a task's own environments, with the wrappers that were asked for."""
    history: int = getattr(task, "history", 1)
    floor: float | None = None if getattr(task, "scoring", False) else getattr(task, "reward_floor", None)
    return envs if history == 1 and floor is None else HistoryVector(envs, history=history, floor=floor)


def _limit(task: Any) -> int | None:
    """The steps of an episode as Gymnasium counts them; 0 is without end."""
    asked: int | None = getattr(task, "time_limit", None)
    return asked if asked is not None else gym.spec(task.id).max_episode_steps or 0
