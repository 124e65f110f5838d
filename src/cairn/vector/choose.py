"""A backend by its name, or the fastest that is right for the task."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Sequence
from typing import Literal

import gymnasium as gym
import numpy as np

from cairn.core.calls import option
from cairn.core.checks import Envs, NonNegative, Parallel, fit, short
from cairn.core.errors import CairnError
from cairn.core.game import Game
from cairn.core.types import Box
from cairn.envs.task import Task
from cairn.vector.atari import Atari
from cairn.vector.checks import close_env
from cairn.vector.envpool import EnvPool, envpool_fault
from cairn.vector.history import HistoryVector
from cairn.vector.in_process import Sync
from cairn.vector.processes import Workers
from cairn.vector.protocol import EnvMaker, Vector, spec_of_env
from cairn.vector.ray_actors import Ray

Backend = Literal["auto", "sync", "async", "atari", "envpool", "sb3", "ray"]
Speeds = dict[tuple[Backend, int], float]


def make_vector(
    task: Task | EnvMaker,
    num_envs: int,
    *,
    backend: Backend,
    workers: int = 0,
    timeout: float = 120.0,
    address: str = "",
) -> Vector:
    """`num_envs` copies of one task. A plain function that makes an environment works with every backend but atari and
    envpool, which need a task's id.

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
        game = _game(task)
        if game is None:
            raise CairnError(
                f"the atari vector plays Atari games only (ALE/...); use {option('vector', 'sync')} or async."
            )
        return Atari(game, num_envs, threads=workers)
    if backend == "envpool":
        return _envpool(task, num_envs, threads=workers)
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


def scoring_vector(task: Task | EnvMaker, episodes: int) -> Vector:
    """Environments for scoring that many episodes: ALE's vector for an Atari game, else the task in this process."""
    if suitable_backends(task, 1) == ["atari"]:
        return make_vector(task, min(episodes, 50), backend="atari")  # together: all wait for the longest game
    return make_vector(task, min(episodes, 20), backend="sync")


def choose(task: Task | EnvMaker, num_envs: int, workers: int = 0) -> Backend:
    """What "auto" stands for: of those that are right for the task, the one that steps it the fastest here."""
    suitable = suitable_backends(task, num_envs)
    speed = {backend: throughput(task, num_envs, backend, workers=workers) for backend in suitable}
    return max(speed, key=lambda backend: speed[backend])


def speeds(task: Task | EnvMaker, counts: Sequence[int], *, workers: int = 0, seconds: float = 1.0) -> Speeds:
    """(backend, environments) -> steps a second, for every backend that is installed and right for the task."""
    return {
        (backend, count): throughput(task, count, backend, workers=workers, seconds=seconds)
        for count in counts
        for backend in suitable_backends(task, count)
    }


def suitable_backends(task: Task | EnvMaker, num_envs: int) -> list[Backend]:
    """The backends worth a trial."""
    game = _game(task)
    if game is not None:
        return ["atari"] if game.mode is None and game.difficulty is None else ["async"]
    suitable: list[Backend] = ["sync"]
    if num_envs > 1 and (os.cpu_count() or 1) > 1:
        suitable.append("async")
    if num_envs > 1 and isinstance(task, Task) and envpool_mismatch(task) is None:
        suitable.append("envpool")
    return suitable


def throughput(
    task: Task | EnvMaker, num_envs: int, backend: Backend, *, workers: int = 0, seconds: float = 0.3
) -> float:
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
        envs.step(actions[0])  # the first step may allocate: it is not timed
        start, rounds, steps = time.perf_counter(), 0, 0
        while (elapsed := time.perf_counter() - start) < seconds:
            steps += int(envs.step(actions[rounds % 16]).valid.sum())
            rounds += 1
        return steps / elapsed
    finally:
        envs.close()


def envpool_mismatch(task: Task) -> str | None:
    """Why EnvPool's task of this id is not the one that was asked for, in one sentence; None where it is."""
    if task.game is not None:
        return f"Atari games are played by {option('vector', 'atari')}."
    if task.args or task.time_feature or task.resets > 1:
        reason = "supports neither env_args nor time_feature nor resets"
        return f"EnvPool's {task.id} {reason}; use {option('vector', 'sync')} or async."
    fault = envpool_fault(task.id)
    if fault is not None:
        return fault
    close_env(task())  # our own wrappers refuse here what they do not fit
    env = task.plain()
    try:
        ours = spec_of_env(env)[0]
    finally:
        close_env(env)
    pool = EnvPool(task.id, 1)
    theirs = pool.spec
    pool.close()
    if (ours.obs_shape, ours.obs_dtype, ours.action, ours.goal) != (
        theirs.obs_shape,
        theirs.obs_dtype,
        theirs.action,
        theirs.goal,
    ):
        reason = "has other observations or actions than Gymnasium's"
        return f"EnvPool's {task.id} {reason}; use {option('vector', 'sync')} or async."
    return None


def _envpool(task: Task | EnvMaker, num_envs: int, *, threads: int) -> Vector:
    """EnvPool's vector, with the history and the reward floor that the task asks for."""
    if not isinstance(task, Task):
        sentence = "the envpool vector takes a task by its id, not a function"
        raise CairnError(f"{sentence}; use {option('vector', 'sync')} or async.")
    fault = envpool_mismatch(task)
    if fault is not None:
        raise CairnError(fault)

    limit = task.time_limit if task.time_limit is not None else gym.spec(task.id).max_episode_steps or 0
    envs = EnvPool(task.id, num_envs, limit=limit, threads=threads)
    floor = None if task.scoring else task.reward_floor
    return envs if task.history == 1 and floor is None else HistoryVector(envs, history=task.history, floor=floor)


def _game(task: Task | EnvMaker) -> Game | None:
    """The Atari game that a task is; None for another task, and for a function."""
    return task.game if isinstance(task, Task) else None
