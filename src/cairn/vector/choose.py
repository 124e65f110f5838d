"""Makes a vector from the name of a backend, or with the fastest backend that is right for the task."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Sequence
from typing import Literal

import gymnasium as gym

from cairn.core.calls import option
from cairn.core.checks import Envs, NonNegative, Parallel, fit, short
from cairn.core.errors import CairnError
from cairn.core.game import Game
from cairn.envs.task import Task
from cairn.vector.atari import Atari
from cairn.vector.checks import close_env
from cairn.vector.envpool import EnvPool, envpool_fault
from cairn.vector.given import check_alike, given_vector, is_given_vector
from cairn.vector.history import HistoryVector
from cairn.vector.in_process import Sync
from cairn.vector.mujoco.fits import bare, mujoco_fault
from cairn.vector.processes import Workers
from cairn.vector.protocol import EnvMaker, Vector
from cairn.vector.ray_actors import Ray
from cairn.vector.spaces import spec_of_env

Backend = Literal["auto", "sync", "async", "atari", "envpool", "mujoco", "sb3", "ray"]
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
    """Make a vector of `num_envs` copies of one task.

    Backends:
    auto     the fastest of the following that is installed and right for the task
    sync     one environment after the other, in this process
    async    `workers` processes (0: one per core)
    atari    Atari games, in `workers` threads of ALE
    envpool  tasks that EnvPool has, in `workers` threads of EnvPool
    mujoco   Gymnasium's MuJoCo tasks, Fetch and Cairn's ants: physics in `workers` threads, steps equal to sync's
    sb3      Stable-Baselines3's SubprocVecEnv, one process per environment
    ray      `workers` Ray actors, on the cluster at `address` or on this machine

    Args:
        task: A `Task`, or a function that makes an environment; atari, envpool and mujoco need a `Task`.
        num_envs: Number of environments.
        backend: One of the backends above.
        workers: Number of processes, threads or actors; 0: one per core.
        timeout: Seconds that a step or a reset may take; 0: no limit. Not used by atari, envpool, mujoco and sb3.
        address: Address of a Ray cluster; "": one on this machine.

    Returns:
        A `Vector`. One that the user gave as the task is stepped as it is, and not closed.

    Raises:
        CairnError: The backend does not support this task, or an extra is not installed.
    """
    if not callable(task):
        raise CairnError(f"a vector is made of a cairn.envs.task.Task, or of a function, not of {short(task)}.")
    num_envs, backend = fit("envs", num_envs, Envs), fit("vector", backend, Backend)
    workers, timeout = fit("workers", workers, Parallel), fit("timeout", timeout, NonNegative)
    if isinstance(task, Task) and is_given_vector(task):
        return given_vector(task, num_envs, backend)
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
    if backend == "mujoco":
        return _mujoco(task, num_envs, threads=workers)
    if backend == "sb3":
        if importlib.util.find_spec("stable_baselines3") is None:
            raise CairnError("the sb3 vector needs an extra: pip install 'cairn-rl[sb3]'.")
        from cairn.vector.sb3 import of_task

        if isinstance(task, Task) and task.count is not None:
            raise CairnError(
                f"the sb3 vector takes copies of one environment; use {option('vector', 'sync')} or async."
            )
        return of_task(task, num_envs)
    makers = task.makers(num_envs, here=backend != "ray") if isinstance(task, Task) else [task] * num_envs
    if isinstance(task, Task) and task.count is not None:
        check_alike(makers, task.id)
    if backend == "ray":
        return Ray(makers, workers=workers or None, timeout=timeout, address=address)
    if backend == "async" and num_envs > 1:
        return Workers(makers, workers=workers or None, timeout=timeout)
    return Sync(makers, timeout=timeout)


def scoring_vector(task: Task | EnvMaker, episodes: int) -> Vector:
    """A vector to score `episodes` episodes: ALE's for an Atari game, else environments in this process."""
    if suitable_backends(task, 1) == ["atari"]:
        return make_vector(task, min(episodes, 50), backend="atari")  # more at once: all wait for the longest game
    if isinstance(task, Task) and task.make is not None and task.make.in_use:
        raise CairnError(f"{task.id} is being trained in, and no other can be made to play in meanwhile.")
    wanted = min(episodes, 20)
    return make_vector(task, task.at_most(wanted) if isinstance(task, Task) else wanted, backend="sync")


def choose(task: Task | EnvMaker, num_envs: int, workers: int = 0) -> Backend:
    """The backend that "auto" stands for: the fastest one here that is right for the task."""
    suitable = suitable_backends(task, num_envs)
    if len(suitable) == 1:
        return suitable[0]
    speed = {backend: throughput(task, num_envs, backend, workers=workers) for backend in suitable}
    return max(speed, key=lambda backend: speed[backend])


def speeds(task: Task | EnvMaker, counts: Sequence[int], *, workers: int = 0, seconds: float = 1.0) -> Speeds:
    """(backend, environments) -> steps per second, for every backend that is installed and right for the task."""
    return {
        (backend, count): throughput(task, count, backend, workers=workers, seconds=seconds)
        for count in counts
        for backend in suitable_backends(task, count)
    }


def suitable_backends(task: Task | EnvMaker, num_envs: int) -> list[Backend]:
    """The backends worth measuring."""
    game = _game(task)
    if game is not None:
        return ["atari"] if game.mode is None and game.difficulty is None else ["async"]
    suitable: list[Backend] = ["sync"]
    if is_given_vector(task):
        return suitable
    if num_envs > 1 and (os.cpu_count() or 1) > 1:
        suitable.append("async")
    if num_envs > 1 and isinstance(task, Task) and envpool_mismatch(task) is None:
        suitable.append("envpool")
    if mujoco_fault(task) is None:
        suitable.append("mujoco")
    return suitable


def throughput(
    task: Task | EnvMaker, num_envs: int, backend: Backend, *, workers: int = 0, seconds: float = 0.3
) -> float:
    """Environment steps per second with random actions, measured for `seconds`."""
    from torch import Generator  # workers import this file and should not import torch

    from cairn.core.random_actions import random_actions

    envs = make_vector(task, num_envs, backend=backend, workers=workers)
    try:
        obs = envs.reset(range(num_envs))
        generator = Generator().manual_seed(0)
        actions = [random_actions(envs.spec, obs, generator) for _ in range(16)]
        obs = envs.step(actions[0]).obs  # the first step may allocate: it is not timed
        start, rounds, steps = time.perf_counter(), 0, 0
        while (elapsed := time.perf_counter() - start) < seconds:
            # what a mask allows changes from step to step
            action = random_actions(envs.spec, obs, generator) if envs.spec.masked else actions[rounds % 16]
            step = envs.step(action)
            obs, steps = step.obs, steps + int(step.valid.sum())
            rounds += 1
        return steps / elapsed
    finally:
        envs.close()


def envpool_mismatch(task: Task) -> str | None:
    """Why EnvPool's task of this id is not the task that was asked for, in one sentence; None if it is."""
    if task.game is not None:
        return f"Atari games are played by {option('vector', 'atari')}."
    if task.make is not None or task.wrappers:
        return f"EnvPool has tasks of its own, without wrappers; use {option('vector', 'sync')} or async."
    if task.args or task.time_feature or task.resets > 1:
        reason = "supports neither env_args nor time_feature nor resets"
        return f"EnvPool's {task.id} {reason}; use {option('vector', 'sync')} or async."
    fault = envpool_fault(task.id)
    if fault is not None:
        return fault
    close_env(task())  # wrappers raise CairnError if they do not fit the task
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
    """EnvPool's vector, with the history and the reward floor of the task."""
    if not isinstance(task, Task):
        sentence = "the envpool vector takes a task by its id, not a function"
        raise CairnError(f"{sentence}; use {option('vector', 'sync')} or async.")
    fault = envpool_mismatch(task)
    if fault is not None:
        raise CairnError(fault)

    limit = task.time_limit if task.time_limit is not None else gym.spec(task.id).max_episode_steps or 0
    return _with_history(EnvPool(task.id, num_envs, limit=limit, threads=threads), task)


def _mujoco(task: Task | EnvMaker, num_envs: int, *, threads: int) -> Vector:
    """The vector of MuJoCo tasks, with the history and the reward floor of the task."""
    fault = mujoco_fault(task)
    if fault is not None or not isinstance(task, Task):
        raise CairnError(fault or "")
    from cairn.vector.mujoco.vector import MuJoCo  # imports mujoco, which is an extra

    return _with_history(MuJoCo(bare(task), num_envs, threads=threads), task)


def _with_history(envs: Vector, task: Task) -> Vector:
    """A vector with the history and the reward floor of its task."""
    floor = None if task.scoring else task.reward_floor
    return envs if task.history == 1 and floor is None else HistoryVector(envs, history=task.history, floor=floor)


def _game(task: Task | EnvMaker) -> Game | None:
    """The Atari game of a task; None for other tasks and for functions."""
    return task.game if isinstance(task, Task) else None
