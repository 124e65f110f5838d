"""Environments and wrappers that are given instead of being named: classes, functions, instances, vectors."""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Protocol

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from cairn.core.calls import must_take_one, option
from cairn.core.checks import short
from cairn.core.errors import CairnError
from cairn.core.old_gym import OLD, is_old
from cairn.core.unstored import Unstored

Env = gym.Env[Any, Any]
Kind = Literal["function", "functions", "instance", "vector", "wrapper", "unknown"]
ACCEPTED = (
    'an id such as "CartPole-v1", a class or a function that makes an environment, an environment, a vector of'
    " environments, or a list of functions"
)


class VecEnvLike(Protocol):
    """A VecEnv of Stable-Baselines3, which need not be installed."""

    num_envs: int

    def step_async(self, actions: Any) -> None:
        """Begin a step."""

    def step_wait(self) -> Any:
        """Its observations, rewards, ends and infos."""


EnvLike = str | type[Env] | Callable[..., Env] | Env | gym.vector.VectorEnv[Any, Any, Any] | VecEnvLike
EnvLikes = EnvLike | Sequence[Callable[..., Env]]


class Given(Unstored):
    """What makes or wraps environments. After reading a file only `what` is known, and the kind is "unknown".

    Args:
        what: Description, such as "the class MyEnv"; "" if the id and the arguments of the task tell everything.
        name: Id of the task.
        value: The class, function, environment, vector or list.
    """

    def __init__(self, what: str, name: str = "", value: Any = None, kind: Kind = "unknown") -> None:
        super().__init__(what)
        self.name, self.value, self.kind = name, value, kind
        self.spec: EnvSpec | None = _spec(value) if kind == "instance" else None
        self.told: dict[str, bool] = {}  # of tasks made with it, whether their masks come in `info`
        self.in_use = False  # the environments are being trained in, and nothing else may play in them

    def named(self, name: str) -> Given:
        """The same under another name."""
        return Given(self.what, name, self.value, self.kind)

    def __getstate__(self) -> dict[str, Any]:
        """An instance stays in its process; others make a copy from its spec."""
        state = {key: value for key, value in self.__dict__.items() if key != "uncopied"}
        return {**state, "value": None} if self.kind in ("instance", "vector") else state

    # -- how many there are

    @property
    def count(self) -> int | None:
        """Number of environments if it is fixed."""
        if self.kind == "vector" and self.value is not None:
            return int(self.value.num_envs)
        return len(self.value) if self.kind == "functions" else None

    @functools.cached_property
    def uncopied(self) -> str:
        """Why an instance cannot be made again, as a clause; "" if it can."""
        if self.kind != "instance" or self.value is None:
            return ""
        if self.spec is None:
            return "it has no spec, as gymnasium.make sets it, from which another could be made"
        try:
            copy = self._copy(None)
        except CairnError as error:
            return str(error).rstrip(".")
        same = _layers(copy) == _layers(self.value) and copy.observation_space == self.value.observation_space
        copy.close()
        return "" if same else "what its spec makes has other wrappers or observations"

    @property
    def shared(self) -> bool:
        """Whether evaluation must play in the environments that are trained in: there are no others."""
        return self.kind == "vector" or bool(self.uncopied)

    # -- making them

    def new(self, task: str, args: Mapping[str, Any], render_mode: str | None) -> Env:
        """A new environment. Raises CairnError."""
        if self.kind == "unknown":
            raise CairnError(
                f"{task} is {self.what}, which no file holds; give it again in Python: load(path, env=...), or"
                " learn(..., resume=True) of a model that is made with it."
            )
        if self.kind == "vector":
            raise CairnError(f"{task} is a vector of environments, and a single one is needed here.")
        if self.kind == "instance":
            if self.uncopied:
                raise CairnError(
                    f"{task} is an environment that is made already, and another one is needed: {self.uncopied}; give"
                    " its class, or a function that makes one."
                )
            return self._copy(render_mode)
        make = self.value[0] if self.kind == "functions" else self.value
        return call(make, task, args, render_mode)

    def _copy(self, render_mode: str | None) -> Env:
        """What `gymnasium.make` makes from the spec of the instance."""
        assert self.spec is not None
        more: dict[str, Any] = {} if render_mode is None else {"render_mode": render_mode}
        try:
            return gym.make(replace(self.spec, disable_env_checker=True), **more)
        except Exception as error:  # of the user's environment, or a wrapper that does not tell its arguments
            raise CairnError(f"its spec makes none ({type(error).__name__}: {_line(error)}).") from error


class Lent(gym.Wrapper[Any, Any, Any, Any]):
    """An environment of the user's, which Cairn does not close."""

    def close(self) -> None:
        """Leave it open."""


def call(make: Callable[..., Any], task: str, args: Mapping[str, Any], render_mode: str | None) -> Env:
    """The environment that a class or function makes. Raises CairnError."""
    given = dict(args)
    if render_mode is not None:
        given["render_mode"] = render_mode
    try:
        inspect.signature(make).bind(**given)
    except TypeError as error:
        wanted = f"Task({task}, args={{...}})" if isinstance(make, type) else "a function without arguments"
        raise CairnError(f"{task} cannot be made so: {error}; give {wanted}, or a lambda.") from None
    except ValueError:  # no signature: not written in Python
        pass
    try:
        env = make(**given)
    except CairnError:
        raise
    except Exception as error:  # of the user's own code
        raise CairnError(f"environment {task} could not be made: {type(error).__name__}: {_line(error)}") from error
    return must_be_env(env, task)


def must_be_env(env: Any, task: str) -> Env:
    """`env` if it is an environment of Gymnasium. Raises CairnError."""
    if isinstance(env, gym.Env):
        return env
    if is_old(type(env)):
        raise CairnError(f"environment {task}: {OLD}.")
    told = "a vector of environments; give that vector itself" if _is_vector(env) else _no_env(env)
    raise CairnError(f"{task} makes {told}.")


def _no_env(env: Any) -> str:
    if hasattr(env, "step") and hasattr(env, "reset"):
        name = type(env).__name__
        return f"an object of {name}, which is no environment of Gymnasium; let it inherit from gymnasium.Env"
    return f"{short(env)}; it must make an environment of Gymnasium"


def given_env(env: Any) -> Given:
    """What was given in place of an id. Raises CairnError."""
    if isinstance(env, type):
        return _class(env)
    if isinstance(env, gym.Env):
        spec = _spec(env)
        name = spec.id if spec is not None else type(env.unwrapped).__name__
        return Given("" if _named(env) else f"an environment of {name} that was made already", name, env, "instance")
    if is_old(type(env)):
        raise CairnError(f"environment {type(env).__name__}: {OLD}.")
    if _is_vector(env):
        kind = type(env).__name__
        return Given(f"a {kind} of {env.num_envs} environments", kind, env, "vector")
    if isinstance(env, (list, tuple)):
        return _functions(env)
    if hasattr(env, "step") and hasattr(env, "reset"):
        raise CairnError(f"env is {_no_env(env)}.")
    if not callable(env):
        raise CairnError(f"env is {short(env)}; it must be {ACCEPTED}.")
    name = name_of(env)
    return Given("a lambda" if name == "lambda" else f"the function {name}", name, env, "function")


def _class(cls: type[Any]) -> Given:
    if is_old(cls):
        raise CairnError(f"environment {cls.__name__}: {OLD}.")
    if not issubclass(cls, gym.Env):
        raise CairnError(f"env is the class {cls.__name__}, which does not inherit from gymnasium.Env.")
    return Given(f"the class {cls.__name__}", cls.__name__, cls, "function")


def _functions(some: Sequence[Any]) -> Given:
    """One function for each environment."""
    wrong = [one for one in some if not callable(one) or (isinstance(one, type) and not issubclass(one, gym.Env))]
    if not some or wrong:
        told = short(wrong[0]) if wrong else "nothing"
        raise CairnError(
            f"env is a list with {told}; it must hold a class or a function for each environment. For copies of one"
            f" environment use {option('envs', '8')}."
        )
    names = [name_of(one) for one in some]
    return Given(f"{len(some)} functions ({', '.join(dict.fromkeys(names))})", names[0], tuple(some), "functions")


def given_wrappers(given: Any) -> tuple[Given, ...]:
    """Wrappers as a tuple, the innermost first. Raises CairnError."""
    some = () if given is None else given if isinstance(given, (list, tuple)) else (given,)
    out = []
    for one in some:
        if isinstance(one, Given):
            out.append(one)
            continue
        if not callable(one) or (isinstance(one, type) and not issubclass(one, gym.Wrapper)):
            raise CairnError(
                f"wrappers has {short(one)}; it must hold wrappers of Gymnasium, or functions of an environment that"
                " return one."
            )
        must_take_one(one, "a wrapper", "the environment")
        out.append(Given(name_of(one), name_of(one), one, "wrapper"))
    return tuple(out)


def wrap(env: Env, wrappers: Sequence[Given], task: str) -> Env:
    """The environment in the user's wrappers. Raises CairnError."""
    for one in wrappers:
        if one.value is None:
            raise CairnError(
                f"{task} was wrapped in {one.what}, which no file holds; give it again in Python: wrappers=[...]."
            )
        try:
            env = one.value(env)
        except CairnError:
            raise
        except Exception as error:  # of the user's own code
            told = f"{type(error).__name__}: {_line(error)}"
            raise CairnError(f"wrapper {one.name} could not be put around {task}: {told}") from error
        env = must_be_env(env, f"wrapper {one.name}")
    return env


def settings_of(given: Given) -> dict[str, Any]:
    """The arguments and the time limit by which an instance differs from the registered task of its id."""
    return _named(given.value) or {} if given.kind == "instance" else {}


def _named(env: Env) -> dict[str, Any] | None:
    """The fields of a `Task` of its id that describe an instance completely; None if none do."""
    spec = _spec(env)
    entry = gym.registry.get(spec.id) if spec is not None else None
    if spec is None or entry is None or spec.id.startswith("ALE/"):  # as a task, a game of Atari is preprocessed
        return None
    if spec.entry_point != entry.entry_point or spec.additional_wrappers != entry.additional_wrappers:
        return None
    args = {key: value for key, value in spec.kwargs.items() if key != "render_mode" and entry.kwargs.get(key) != value}
    try:
        if json.loads(json.dumps(args)) != args:
            return None
    except (TypeError, ValueError):
        return None
    steps = spec.max_episode_steps
    return {"args": args, "time_limit": None if steps == entry.max_episode_steps else steps or 0}


def _spec(env: Any) -> EnvSpec | None:
    try:
        spec = env.spec
    except Exception:  # of a wrapper that does not tell its arguments
        return None
    return spec if isinstance(spec, EnvSpec) else None


def _layers(env: Any) -> list[type]:
    """The wrappers of an environment and its own class, without the checks that `gymnasium.make` adds."""
    found = [type(env)]
    while isinstance(env, gym.Wrapper):
        env = env.env
        found.append(type(env))
    return [layer for layer in found if layer.__name__ not in ("PassiveEnvChecker", "OrderEnforcing")]


def _is_vector(env: Any) -> bool:
    return isinstance(env, gym.vector.VectorEnv) or is_sb3_vector(env)


def is_sb3_vector(env: Any) -> bool:
    """Whether it is a VecEnv of Stable-Baselines3; if it is, that package was imported."""
    module = sys.modules.get("stable_baselines3.common.vec_env")
    return module is not None and isinstance(env, module.VecEnv)


def name_of(function: Any) -> str:
    """The name of a class, a function or a callable object."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", type(function).__name__)
    return "lambda" if name == "<lambda>" else str(name)


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0]
