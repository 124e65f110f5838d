"""Families of environments: the packages that register them, the extras that install these, and old ids."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import os
import re
import sys
import warnings
from collections.abc import Iterator
from types import ModuleType

import gymnasium as gym

from cairn.core.errors import CairnError
from cairn.envs.packages import installed, package_of, why_unknown

# Tasks that need a package: prefix of the id, package, extra that installs it. Importing the package registers them.
_PLUGINS = (
    ("ALE/", "ale_py", "atari"),
    ("cairn/BasicMath", "ale_py", "atari"),
    ("cairn/RaceCar", "pybullet", "bullet"),
    ("cairn/Bullet", "pybullet", "bullet"),
    ("cairn/BalancingPlate", "pybullet", "bullet"),
    ("cairn/FetchReachFar", "gymnasium_robotics", "robotics"),
    ("cairn/Ant", "mujoco", "mujoco"),
    ("Fetch", "gymnasium_robotics", "robotics"),
    ("PointMaze", "gymnasium_robotics", "robotics"),
    ("AntMaze", "gymnasium_robotics", "robotics"),
    ("Hand", "gymnasium_robotics", "robotics"),
    ("Adroit", "gymnasium_robotics", "robotics"),
)
# word in an error about a missing package -> extra that installs it
_EXTRAS = {
    "box2d": "box2d",
    "mujoco": "mujoco",
    "robotics": "robotics",
    "ale": "atari",
    "atari": "atari",
    "pygame": "box2d",
}
_OLD_ATARI = re.compile(r"([A-Za-z0-9]+?)(?:-ram)?(NoFrameskip|Deterministic)?-v[04]")  # PongNoFrameskip-v4


def _import_quietly(package: str) -> ModuleType:
    """Import a package so that it registers its tasks, without its messages."""
    if package in sys.modules:
        return importlib.import_module(package)
    with _silence(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(package)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Context in which nothing reaches the terminal, neither from Python nor from C."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        kept = [os.dup(n) for n in (1, 2)]
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            for n in (1, 2):
                os.dup2(nowhere, n)
            yield
        finally:
            for n, old in zip((1, 2), kept, strict=True):
                os.dup2(old, n)
                os.close(old)
            os.close(nowhere)


def import_family(task: str) -> None:
    """Import the package that registers a task. Raises CairnError if it is not installed."""
    for prefix, package, extra in _PLUGINS:
        ours = prefix.startswith("cairn/")  # registered even if the package is missing
        if task.startswith(prefix) and (ours or task not in gym.registry):
            if importlib.util.find_spec(package) is None:
                raise CairnError(f"environment {task} needs an extra: pip install 'cairn-rl[{extra}]'.")
            _import_quietly(package)


def import_package(task: str) -> None:
    """Import the known package of other people that an id `module:name` names, and let it register its tasks."""
    package, (module, _, name) = package_of(task), task.rpartition(":")
    if package is None or package.module != module or name in gym.registry or not installed(module):
        return
    imported = _import_quietly(module)
    if package.function and name not in gym.registry:
        getattr(imported, package.function)()


def old_atari(task: str) -> str | None:
    """What to use instead of an old Atari id, in one sentence; None for other ids."""
    named, entry = _OLD_ATARI.fullmatch(task), gym.registry.get(task)
    if named is None or (entry is not None and "ale_py" not in str(entry.entry_point)):
        return None
    if importlib.util.find_spec("ale_py") is None:
        return f"environment {task} needs an extra: pip install 'cairn-rl[atari]'." if named[2] else None
    _import_quietly("ale_py")
    game = f"ALE/{named[1]}-v5"
    if game not in gym.registry:
        return None
    return f"{task} is an old name; use {game}, whose frames Cairn skips, shrinks and stacks itself."


def explain(task: str, error: Exception) -> CairnError:
    """Why Gymnasium could not make a task, as a sentence."""
    if isinstance(error, gym.error.UnregisteredEnv):
        return CairnError(why_unknown(task))
    module = task.rpartition(":")[0]
    if isinstance(error, ModuleNotFoundError) and module and not installed(module):
        return CairnError(why_unknown(task))
    text = str(error).lower()
    missing = isinstance(error, (gym.error.DependencyNotInstalled, ModuleNotFoundError))
    for word, extra in _EXTRAS.items():
        if missing and word in text:
            return CairnError(f"environment {task} needs an extra: pip install 'cairn-rl[{extra}]'.")
    return CairnError(f"environment {task} could not be made: {str(error).splitlines()[0]}")
