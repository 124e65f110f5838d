"""Other people's packages of tasks: which module registers an id, what to install, what a message says about them."""

from __future__ import annotations

import importlib.util
import json
import re
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym

from cairn.core.calls import option
from cairn.core.errors import nearest


@dataclass(frozen=True)
class Package:
    """A package that registers tasks when a module of it is imported, or when a function of that module is called."""

    ids: str  # regular expression that the beginning of an id matches
    module: str
    install: str  # what pip installs
    function: str = ""  # registers the tasks, where the import alone does not
    args: str = ""  # an example of the arguments that its tasks need


_HIGHWAY = r"(highway|merge|roundabout|parking|intersection|racetrack|exit|u-turn|two-way|lane-keeping)(-[\w-]+)?-v\d+$"

PACKAGES = (
    Package(r"(MiniGrid|BabyAI)-", "minigrid", "minigrid"),
    Package(_HIGHWAY, "highway_env", "highway-env"),
    Package(r"bsuite/", "shimmy", "'shimmy[bsuite]'"),
    Package(r"dm_control/", "shimmy", "'shimmy[dm-control]'"),
    Package(r"popgym-", "popgym", "popgym"),
    Package(r"Meta-World/", "metaworld", "metaworld", args='{"env_name": "reach-v3"}'),
    Package(r"Vizdoom", "vizdoom.gymnasium_wrapper", "vizdoom"),
    Package(r"MinAtar/", "minatar.gym", "minatar", "register_envs"),
    Package(r"Panda(Reach|Slide|Push|PickAndPlace|Stack|Flip)", "panda_gym", "panda-gym"),
    Package(r"FlappyBird-", "flappy_bird_gymnasium", "flappy-bird-gymnasium"),
    Package(r"PyFlyt/", "PyFlyt.gym_envs", "pyflyt"),
    Package(r"MiniWorld-", "miniworld", "miniworld"),
    Package(r"gym_pusht/", "gym_pusht", "gym-pusht"),
    Package(r"gym_aloha/", "gym_aloha", "gym-aloha"),
)


def package_of(task: str) -> Package | None:
    """The package that is known to register a task, MiniGrid-Empty-5x5-v0 or minigrid:MiniGrid-Empty-5x5-v0."""
    name = task.rpartition(":")[2]
    return next((package for package in PACKAGES if re.match(package.ids, name)), None)


def installed(module: str) -> bool:
    """Whether a module's package can be imported; imports nothing."""
    return importlib.util.find_spec(module.partition(".")[0]) is not None


def _defines(module: str, name: str) -> bool:
    """Whether a module's file has a class of this name; imports nothing but the packages around the module."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return False
    return re.search(rf"^class {re.escape(name)}\b", Path(spec.origin).read_text(errors="replace"), re.M) is not None


def why_unknown(task: str) -> str:
    """Why no task of this id is registered and what to write instead, in one sentence."""
    package, (module, _, name) = package_of(task), task.rpartition(":")
    if package is not None and not installed(package.module):
        if module == package.module:
            return f"environment {task} needs a package: pip install {package.install}."
        right = f"{package.module}:{name}"
        return f"{name} is registered by {package.module}: pip install {package.install}, then write {right}."
    if package is not None and module != package.module:
        return f"{name} is registered by {package.module}: write {package.module}:{name}."
    if module and not installed(module):
        return f"environment {task} names a module {module!r}, which is neither installed nor in the current folder."
    if module and _defines(module, name):
        line = f'gymnasium.register("{name}-v0", {name})'
        return f"{name} in {module} is a class without an id: add {line} to {module}, then write {module}:{name}-v0."
    if task.endswith(".py"):
        return f"{task} is a file: write module:id, such as {Path(task).stem}:Mine-v0, where it registers Mine-v0."
    near = nearest(name, gym.registry)
    if near is not None:
        return f"there is no environment {task!r}. Did you mean {f'{module}:' * bool(module)}{near}?"
    if package is not None:
        return f"there is no environment {task!r}; if it needs a part of the package: pip install {package.install}."
    return f"there is no environment {task!r}. Name a registered id, such as CartPole-v1, or module:id."


def why_refused(task: str, error: TypeError) -> str:
    """What a task that raised TypeError when it was made needs, in one sentence."""
    missing = re.search(r"missing \d+ required [a-z -]*arguments?: (.+?)(?: was raised|$)", str(error))
    names = re.findall(r"'(\w+)'", missing[1]) if missing else []
    if not names:
        return f"environment {task} does not take these arguments ({error})."
    package = package_of(task)
    example = package.args if package is not None and package.args else json.dumps(dict.fromkeys(names, "..."))
    what = f"the argument{'s' * (len(names) > 1)} {' and '.join(names)}"
    return f"environment {task} needs {what}: give {option('env_args')}, such as '{example}'."
