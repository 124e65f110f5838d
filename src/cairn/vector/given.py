"""Vectors of environments that the user made: the user's own vectors, and different environments side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from cairn.core.calls import option
from cairn.core.errors import CairnError
from cairn.core.types import Array, Spec
from cairn.envs.given import is_sb3_vector
from cairn.envs.task import Task
from cairn.vector.checks import close_env, make_env
from cairn.vector.gymnasium import Gymnasium
from cairn.vector.protocol import EnvMaker
from cairn.vector.spaces import spec_of_env

if TYPE_CHECKING:
    from cairn.vector.sb3 import SB3


def is_given_vector(task: Task | EnvMaker) -> bool:
    """Whether the user gave a vector of environments as the task."""
    return isinstance(task, Task) and task.make is not None and task.make.kind == "vector"


def given_vector(task: Task, num_envs: int, backend: str) -> Gymnasium | SB3:
    """The user's own vector, which is not closed. Raises CairnError."""
    assert task.make is not None
    if task.make.value is None:
        raise CairnError(f"{task.id} is a vector of environments, which stays in its process.")
    if num_envs != task.count:
        raise CairnError(f"{task.id} is {task.make.what}, and {option('envs')} is {num_envs}; leave it out.")
    if backend not in ("auto", "sync"):
        raise CairnError(f"{task.id} is a vector of environments, which steps itself; leave out {option('vector')}.")
    if is_sb3_vector(task.make.value):
        from cairn.vector.sb3 import SB3

        return SB3(task.make.value, ours=False, masks=task.action_masks)
    return Gymnasium(task.make.value, ours=False, masks=task.action_masks)


def look(task: Task) -> tuple[Spec, Callable[[Any], Array], gym.Space[Any]]:
    """The spec of a task, the layout of its observations and their space. Raises CairnError."""
    if is_given_vector(task):
        assert task.make is not None and task.count is not None
        envs = given_vector(task, task.count, "sync")
        return envs.spec, envs.layout, envs.space
    if task.count is not None:
        check_alike(task.makers(task.count), task.id)
    env = task.one()
    try:
        return *spec_of_env(env), env.observation_space
    finally:
        close_env(env)


def check_alike(makers: Sequence[EnvMaker], name: str) -> None:
    """CairnError if environments side by side differ in their observations or actions."""
    found: list[Spec] = []
    for k, make in enumerate(makers):
        env = make_env(k, make)
        try:
            found.append(spec_of_env(env)[0])
        finally:
            close_env(env)
        first, other = found[0], found[-1]
        if not first.alike(other):
            raise CairnError(
                f"{name} is a list of environments that differ: environment 0 has {first.brief}, environment {k} has"
                f" {other.brief}."
            )
