"""Whether the mujoco vector steps a task exactly as its environment does."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np

from cairn.core.calls import option
from cairn.core.errors import CairnError
from cairn.envs.families import import_family
from cairn.envs.task import Task

MODULES = ("gymnasium.envs.mujoco.", "gymnasium_robotics.envs.fetch.", "cairn.envs.ant_tasks:", "cairn.envs.reachfar:")
TRIED = 60  # steps that are compared with the environment's own
CLOSE = 1e-5  # largest difference of numbers that are only rounded otherwise
DIFFERENT = "{} steps otherwise here than the mujoco vector expects"
_found: dict[str, str | None] = {}  # answers by task


def mujoco_fault(task: Any) -> str | None:
    """Why the mujoco vector cannot step a task, in one sentence; None if it can."""
    instead = f"use {option('vector', 'sync')} or async"
    if not isinstance(task, Task):
        return f"the mujoco vector takes a task by its id, not a function; {instead}."
    if task.make is not None or task.wrappers or task.resets > 1:
        return f"the mujoco vector steps tasks as they are registered, without wrappers and resets; {instead}."
    import_family(task.id)
    entry = gym.registry.get(task.id)
    if entry is None or not str(entry.entry_point).startswith(MODULES):
        return f"the mujoco vector does not know {task.id}; {instead}."
    if importlib.util.find_spec("mujoco") is None:
        return "the mujoco vector needs an extra: pip install 'cairn-rl[mujoco]'."
    plain, key = bare(task), repr(bare(task))
    if key not in _found:
        try:
            _found[key] = _differs(plain)
        except CairnError as error:
            _found[key] = str(error).rstrip(".")
        except Exception as error:  # another version of the package lacks what is read, or names it otherwise
            _found[key] = f"{DIFFERENT.format(task.id)} ({type(error).__name__}: {error})"
    why = _found[key]
    return None if why is None else f"{why}; {instead}."


def bare(task: Task) -> Task:
    """The task without the wrappers that are applied to the whole vector."""
    return replace(task, history=1, reward_floor=None)


def _differs(task: Task) -> str | None:
    """Compare random steps with those of the environment, which other versions of a package may compute otherwise."""
    from cairn.vector.in_process import Sync
    from cairn.vector.mujoco.vector import MuJoCo

    ours, theirs = MuJoCo(task, 1), Sync([task])
    try:
        same = np.allclose(ours.reset([0]), theirs.reset([0]), CLOSE, CLOSE)
        draw = np.random.default_rng(0)
        for _ in range(TRIED):
            action = draw.uniform(-1, 1, (1, *ours.spec.action_shape)).astype(np.float32)
            a, b = ours.step(action), theirs.step(action)
            same = same and all(
                np.allclose(getattr(a, name), getattr(b, name), CLOSE, CLOSE)
                for name in ("next_obs", "obs", "reward", "terminated", "truncated")
            )
    finally:
        ours.close()
        theirs.close()
    return None if same else DIFFERENT.format(task.id)
