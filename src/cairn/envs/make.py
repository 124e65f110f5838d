"""One way to make an environment: by id, with one meaning of a time limit and kind errors."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from cairn.core.errors import CairnError, closest

# Families that register themselves when their package is imported: prefix of the id, package, extra that brings it.
_PLUGINS = (
    ("ALE/", "ale_py", "atari"),
    ("Fetch", "gymnasium_robotics", "robotics"),
    ("PointMaze", "gymnasium_robotics", "robotics"),
    ("AntMaze", "gymnasium_robotics", "robotics"),
    ("Hand", "gymnasium_robotics", "robotics"),
    ("Adroit", "gymnasium_robotics", "robotics"),
)
# which extra brings what an environment family needs
_EXTRAS = {
    "box2d": "box2d",
    "mujoco": "mujoco",
    "robotics": "robotics",
    "ale": "atari",
    "atari": "atari",
    "pygame": "box2d",
}


@dataclass(frozen=True)
class Task:
    """An environment to be made. Picklable, so that workers can make it too.

    time_limit: None keeps the task's own limit, 0 lifts it, n truncates after n steps.
    """

    id: str
    time_limit: int | None = None
    args: dict[str, Any] = field(default_factory=dict)
    render_mode: str | None = None

    def __call__(self) -> gym.Env[Any, Any]:
        limit = {None: {}, 0: {"max_episode_steps": -1}}.get(self.time_limit, {"max_episode_steps": self.time_limit})
        args = dict(self.args) if self.render_mode is None else {**self.args, "render_mode": self.render_mode}
        for prefix, package, extra in _PLUGINS:
            if self.id.startswith(prefix):
                if importlib.util.find_spec(package) is None:
                    raise CairnError(f"environment {self.id} needs an extra: pip install 'cairn-rl[{extra}]'.")
                gym.register_envs(importlib.import_module(package))
        try:
            return gym.make(self.id, disable_env_checker=True, **limit, **args)
        except (gym.error.UnregisteredEnv, gym.error.Error, ModuleNotFoundError) as error:
            raise self._explain(error) from error
        except TypeError as error:
            raise CairnError(f"environment {self.id} does not take these arguments ({error}).") from error

    def _explain(self, error: Exception) -> CairnError:
        if isinstance(error, gym.error.UnregisteredEnv):
            return CairnError(f"there is no environment {self.id!r}.{closest(self.id, gym.registry)}")
        text = str(error).lower()
        missing = isinstance(error, (gym.error.DependencyNotInstalled, ModuleNotFoundError))
        for word, extra in _EXTRAS.items():
            if missing and word in text:
                return CairnError(f"environment {self.id} needs an extra: pip install 'cairn-rl[{extra}]'.")
        return CairnError(f"environment {self.id} could not be made: {str(error).splitlines()[0]}")
