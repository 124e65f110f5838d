"""One way to make an environment: by id, with one meaning of a time limit and kind errors."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import io
import os
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, get_type_hints

import gymnasium as gym

from cairn.core.calls import keywords, option
from cairn.core.checks import Count, Natural, fit, short, validated
from cairn.core.errors import CairnError, closest
from cairn.core.game import FRAMES, Game
from cairn.envs import rendering
from cairn.envs.broken import known_fault
from cairn.envs.wrappers import History, Resets, RewardFloor, TimeFeature

# Families that register themselves when their package is imported: prefix of the id, package, extra that brings it.
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
# which extra brings what an environment family needs
_EXTRAS = {
    "box2d": "box2d",
    "mujoco": "mujoco",
    "robotics": "robotics",
    "ale": "atari",
    "atari": "atari",
    "pygame": "box2d",
}


MOST = 2**31 - 1  # frames that ALE can count
LONGEST = 10_000  # steps of an episode that is scored, filmed or recorded, where the task has no time limit


@functools.cache
def say_cut(longest: int) -> None:
    """Said once where an episode was cut."""
    print(
        f"cairn: an episode was truncated after {longest:,} steps; train with {option('time_limit')} to set"
        " another limit.",
        file=sys.stderr,
    )


def _import_quietly(package: str) -> None:
    """Import a family so that it registers its tasks; some greet, or advise about tasks that were not asked for."""
    if package not in sys.modules:
        with _silence(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module(package)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Nothing reaches the terminal, not from Python and not from C."""
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


_OLD_ATARI = re.compile(r"([A-Za-z0-9]+?)(?:-ram)?(NoFrameskip|Deterministic)?-v[04]")  # PongNoFrameskip-v4

_BY_ID = (
    "names an environment by its id, and is given {}: register yours with gymnasium.register(id, entry_point=...) and"
    " name it by that id; Cairn makes its own copies."
)


def _kind_of(env: Any) -> str:
    """What was given in place of an id, in words."""
    if isinstance(env, type):
        return f"the class {env.__name__}"
    if isinstance(env, (gym.Env, gym.vector.VectorEnv)) or hasattr(env, "reset"):
        return f"a {type(env).__name__} itself"
    return short(env)


@functools.cache
def _hints() -> dict[str, Any]:
    return get_type_hints(Task, include_extras=True)


def as_task(env: Any) -> Task:
    """A task from its id, or itself; CairnError for an environment, a class or anything else."""
    return env if isinstance(env, Task) else Task(env)


@keywords
@dataclass(frozen=True)
class Task:
    """An environment to be made. Picklable, so that workers can make it too.

    time_limit: None keeps the task's own limit, 0 lifts it, n truncates after n steps.
    """

    id: str
    time_limit: Natural | None = None
    args: dict[str, Any] = field(default_factory=dict)
    render_mode: str | None = None
    time_feature: bool = False  # see `TimeFeature`
    history: Count = 1  # see `History`
    reward_floor: float | None = None  # see `RewardFloor`; not where it is scored
    resets: Count = 1  # see `Resets`; not where it is scored
    scoring: bool = False  # whole Atari games and their true score

    def __post_init__(self) -> None:
        """CairnError where a value is not what its field states."""
        if not isinstance(self.id, str):
            raise CairnError(f"a Task {_BY_ID.format(_kind_of(self.id))}")
        if not self.id.strip():
            raise CairnError("the id of an environment is empty; name one, such as CartPole-v1.")
        for name, hint in _hints().items():
            object.__setattr__(self, name, fit(name, getattr(self, name), hint))

    def for_scoring(self) -> Task:
        """The task to be judged on: where a limit was lifted, the task's own, or an episode might never end."""
        return replace(self, time_limit=self.time_limit or None, scoring=True)

    @property
    def longest(self) -> int:
        """Steps after which an episode is cut that is scored, filmed or recorded: its time limit, or LONGEST."""
        game = self.game
        if game is not None:
            return game.limit // game.skip
        entry = gym.registry.get(self.id.rpartition(":")[2])
        return self.time_limit or (entry.max_episode_steps if entry is not None else None) or LONGEST

    @property
    def plain(self) -> Task:
        """The task with none of our wrappers around it."""
        return replace(self, time_feature=False, history=1, reward_floor=None, resets=1)

    @property
    def game(self) -> Game | None:
        """The Atari game it is, with `args` as its settings; None where it is none."""
        if not self.id.startswith("ALE/"):
            return None
        self._import_family()
        if self.id not in gym.registry:
            raise self._explain(gym.error.UnregisteredEnv())
        if replace(self.plain, scoring=self.scoring) != self:
            raise CairnError(
                "Atari games stack frames and clip rewards through env_args; leave out history, reward_floor, resets"
                " and time_feature."
            )
        for name, said in {
            "limit": "use time_limit",
            "rom": "it follows from the task",
            "learning": "it follows from the task",
        }.items():
            if name in self.args:
                raise CairnError(f"env_args.{name} cannot be set: {said}.")
        try:
            game = Game(gym.spec(self.id).kwargs["game"], learning=not self.scoring, **self.args)
        except TypeError as error:
            raise CairnError(f"environment {self.id} does not take these arguments ({error}).") from error
        game = validated(game, "env_args.")
        limit = {None: FRAMES, 0: MOST}.get(self.time_limit, (self.time_limit or 0) * game.skip)
        return replace(game, limit=min(limit, MOST))

    def __getstate__(self) -> dict[str, Any]:
        """A task that a user's own script registered travels with its registration: a worker never ran that script."""
        entry = gym.registry.get(self.id)
        ours = entry is not None and not isinstance(entry.entry_point, str)
        return {**self.__dict__, "registration": entry if ours else None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        entry = state.pop("registration")
        if entry is not None:
            gym.registry.setdefault(state["id"], entry)
        self.__dict__.update(state)

    def __call__(self) -> gym.Env[Any, Any]:
        limit = {None: {}, 0: {"max_episode_steps": -1}}.get(self.time_limit, {"max_episode_steps": self.time_limit})
        args = dict(self.args) if self.render_mode is None else {**self.args, "render_mode": self.render_mode}
        with rendering.not_needed():
            env = self._made(limit, args)
        drawn = env.render_mode not in (None, "human")
        if drawn and rendering.uses_mujoco(env) and not rendering.choose():
            env.close()
            raise CairnError(f"{self.id} cannot be drawn here: {rendering.MISSING}.")
        return env

    def _made(self, limit: dict[str, Any], args: dict[str, Any]) -> gym.Env[Any, Any]:
        self._import_family()
        fault = known_fault(self.id) or self._old_atari()
        if fault is not None:
            raise CairnError(fault)
        try:
            game = self.game
            if game is not None:
                from cairn.envs.atari import Atari

                return Atari(game, self.render_mode)
            env = gym.make(self.id, disable_env_checker=True, **limit, **args)
            return self._wrapped(env)
        except CairnError:
            raise
        except (gym.error.UnregisteredEnv, gym.error.Error, ModuleNotFoundError) as error:
            raise self._explain(error) from error
        except TypeError as error:
            raise CairnError(f"environment {self.id} does not take these arguments ({error}).") from error
        except Exception as error:  # a task may refuse its arguments in any way it likes
            raise CairnError(f"environment {self.id} could not be made: {type(error).__name__}: {error}") from error

    def _wrapped(self, env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
        if self.resets > 1 and not self.scoring:
            env = Resets(env, self.resets)
        if self.time_feature:
            env = TimeFeature(env)
        if self.history > 1:
            env = History(env, self.history)
        if self.reward_floor is not None and not self.scoring:
            env = RewardFloor(env, self.reward_floor)
        return env

    def _import_family(self) -> None:
        """Some tasks are there only once their package was imported; CairnError where it is missing."""
        for prefix, package, extra in _PLUGINS:
            ours = prefix.startswith("cairn/")  # registered, whether or not it can be made
            if self.id.startswith(prefix) and (ours or self.id not in gym.registry):
                if importlib.util.find_spec(package) is None:
                    raise CairnError(f"environment {self.id} needs an extra: pip install 'cairn-rl[{extra}]'.")
                _import_quietly(package)

    def _old_atari(self) -> str | None:
        """What to use in place of an Atari task of old, which is there only once some package imported ALE; or None."""
        named, entry = _OLD_ATARI.fullmatch(self.id), gym.registry.get(self.id)
        if named is None or (entry is not None and "ale_py" not in str(entry.entry_point)):
            return None
        if importlib.util.find_spec("ale_py") is None:
            return f"environment {self.id} needs an extra: pip install 'cairn-rl[atari]'." if named[2] else None
        _import_quietly("ale_py")
        game = f"ALE/{named[1]}-v5"
        if game not in gym.registry:
            return None
        return f"{self.id} is an old name; use {game}, whose frames Cairn skips, shrinks and stacks itself."

    def _explain(self, error: Exception) -> CairnError:
        if isinstance(error, gym.error.UnregisteredEnv):
            hint = closest(self.id, gym.registry) or " Name a registered id, such as CartPole-v1, or module:id."
            return CairnError(f"there is no environment {self.id!r}.{hint}")
        text = str(error).lower()
        missing = isinstance(error, (gym.error.DependencyNotInstalled, ModuleNotFoundError))
        for word, extra in _EXTRAS.items():
            if missing and word in text:
                return CairnError(f"environment {self.id} needs an extra: pip install 'cairn-rl[{extra}]'.")
        return CairnError(f"environment {self.id} could not be made: {str(error).splitlines()[0]}")
