"""Makes any environment from its id: one meaning of time limits, and clear errors."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, get_type_hints

import gymnasium as gym

from cairn.core.calls import keywords, option
from cairn.core.checks import Count, Natural, fit, validated
from cairn.core.errors import CairnError
from cairn.core.game import FRAMES, Game
from cairn.envs import rendering
from cairn.envs.broken import known_fault
from cairn.envs.families import explain, import_family, import_package, old_atari
from cairn.envs.given import Given, Lent, call, given_env, given_wrappers, settings_of, wrap
from cairn.envs.masks import METHOD, ActionMasks, WithoutMask, maskable, may_tell_by_info, shows_mask, tells_by_info
from cairn.envs.packages import why_refused
from cairn.envs.wrappers import History, Resets, RewardFloor, TimeFeature

_TELLS: dict[str, bool] = {}  # task -> whether its masks come in `info`
MOST = 2**31 - 1  # the largest frame count of ALE
LONGEST = 10_000  # steps of an evaluated, filmed or recorded episode of a task without time limit


@functools.cache
def say_cut(longest: int) -> None:
    """Print, once, that an episode was cut."""
    print(
        f"cairn: an episode was truncated after {longest:,} steps; train with {option('time_limit')} to set"
        " another limit.",
        file=sys.stderr,
    )


@functools.cache
def _hints() -> dict[str, Any]:
    return get_type_hints(Task, include_extras=True)


def as_task(env: Any, wrappers: Any = ()) -> Task:
    """A task itself, or one of whatever names or makes environments, in more wrappers. Raises CairnError."""
    task = env if isinstance(env, Task) else Task(env)
    more = given_wrappers(wrappers)
    return replace(task, wrappers=(*task.wrappers, *more)) if more else task


@keywords
@dataclass(frozen=True)
class Task:
    """An environment to be made: call it to make one. It can be pickled, so that workers can make it too.

    Args:
        id: Gymnasium's id, such as CartPole-v1, or module:id. Or, in Python, a class or a function that makes an
            environment, an environment, a vector of environments, or a list of functions; `id` is then its name.
        time_limit: None keeps the task's own limit, 0 removes it, n truncates after n steps.
        args: Keyword arguments of the environment.
        render_mode: Gymnasium's render mode.
        time_feature: Append the remaining share of the time limit to observations.
        history: Number of last observations that are joined to one.
        reward_floor: Smallest reward in training; None: no limit.
        resets: Largest number of resets before a training episode, drawn anew for each.
        scoring: Make the environment for evaluation: true rewards, and whole games of Atari.
        action_masks: Whether observations show which actions are allowed, if the environment tells.
        make: What was given in place of an id.
        wrappers: Functions of an environment that return one, such as gymnasium's wrappers; the first is innermost.

    Raises:
        CairnError: An argument is invalid; when called, the environment cannot be made.
    """

    id: str
    time_limit: Natural | None = None
    args: dict[str, Any] = field(default_factory=dict)
    render_mode: str | None = None
    time_feature: bool = False  # see `TimeFeature`
    history: Count = 1  # see `History`
    reward_floor: float | None = None  # see `RewardFloor`; not for scoring
    resets: Count = 1  # see `Resets`; not for scoring
    scoring: bool = False  # whole Atari games and their true score
    action_masks: bool = True  # see `ActionMasks`
    make: Given | None = None
    wrappers: tuple[Given, ...] = ()

    def __post_init__(self) -> None:
        """Convert and check all fields. Raises CairnError."""
        self._take_given()
        if not self.id.strip():
            raise CairnError("the id of an environment is empty; name one, such as CartPole-v1.")
        for name, hint in _hints().items():
            object.__setattr__(self, name, fit(name, getattr(self, name), hint))

    def _take_given(self) -> None:
        """Put what was given in place of an id, or as wrappers, into `make` and `wrappers`."""
        fill: Any = functools.partial(object.__setattr__, self)
        fill("wrappers", given_wrappers(self.wrappers))
        if self.make is not None and not isinstance(self.make, Given):
            fill("make", given_env(self.make).named(str(self.id)))
        if not isinstance(self.id, str):
            made = given_env(self.id)
            fill("id", made.name)
            fill("make", made)
            if made.kind == "instance":
                known = settings_of(made)
                if self.args and self.args != known.get("args"):
                    raise CairnError(f"{made.name} is made already and takes no args; give its class or a function.")
                fill("args", known.get("args", {}))
                fill("time_limit", known.get("time_limit") if self.time_limit is None else self.time_limit)
        if self.make is not None and self.make.kind == "vector" and self.inside:
            raise CairnError(f"{self.id} is stepped as it is; put {self.inside} into its environments.")

    @property
    def inside(self) -> str:
        """The first setting that would change the environments of a vector; "" if there is none."""
        changed = {
            "args": self.args,
            "wrappers": self.wrappers,
            "time_limit": self.time_limit is not None and not self.scoring,
            "time_feature": self.time_feature,
            "history": self.history > 1,
            "reward_floor": self.reward_floor is not None,
            "resets": self.resets > 1,
        }
        return next((name for name, value in changed.items() if value), "")

    @property
    def count(self) -> int | None:
        """Number of environments if it is fixed: those of a vector, or one for each function of a list."""
        return None if self.make is None else self.make.count

    @property
    def shared(self) -> bool:
        """Whether evaluation plays in the environments of the training, because no others can be made."""
        return self.make is not None and self.make.shared

    def at_most(self, wanted: int) -> int:
        """Number of environments for evaluation, of which `wanted` are enough."""
        return self.count or (1 if self.shared else wanted)

    def makers(self, count: int, *, here: bool = True) -> list[Callable[[], gym.Env[Any, Any]]]:
        """A function for each of `count` environments. Raises CairnError if there cannot be so many.

        An instance is used itself if one environment is wanted in this process (`here`), and not for evaluation.
        """
        made = self.make
        if made is None or made.kind in ("function", "unknown"):
            return [self] * count
        if made.count not in (None, count):
            raise CairnError(f"{self.id} is {made.what}, and {option('envs')} is {count}; leave it out.")
        if made.kind == "functions":
            return [Member(self, k) for k in range(count)]
        if count == 1 and here and made.value is not None and (self.shared or not self.scoring):
            return [Member(self, 0)]
        if made.uncopied:
            raise CairnError(
                f"{self.id} is an environment that is made already, and cannot become {count}: {made.uncopied}; give"
                " its class, or a function that makes one."
            )
        return [self] * count

    def one(self) -> gym.Env[Any, Any]:
        """An environment to look at; of an instance that instance."""
        if self.make is not None and self.make.kind == "instance" and self.make.value is not None:
            return Member(self, 0)()
        return self()

    def for_scoring(self) -> Task:
        """The task for evaluation. A limit that was removed is the task's own again: episodes must end."""
        return replace(self, time_limit=self.time_limit or None, scoring=True)

    @property
    def longest(self) -> int:
        """Steps after which an episode is cut in evaluations, films and recordings."""
        game = self.game
        if game is not None:
            return game.limit // game.skip
        entry = gym.registry.get(self.id.rpartition(":")[2])
        return self.time_limit or (entry.max_episode_steps if entry is not None else None) or LONGEST

    @property
    def plain(self) -> Task:
        """The task without Cairn's wrappers."""
        return replace(self, time_feature=False, history=1, reward_floor=None, resets=1, wrappers=())

    @property
    def game(self) -> Game | None:
        """The config of an Atari game, with `args` as its settings; None for other tasks. Raises CairnError."""
        if not self.id.startswith("ALE/") or self.make is not None:
            return None
        import_family(self.id)
        if self.id not in gym.registry:
            raise explain(self.id, gym.error.UnregisteredEnv())
        if replace(self.plain, scoring=self.scoring) != self:
            raise CairnError(
                "Atari games stack frames and clip rewards through env_args; leave out history, reward_floor, resets,"
                " time_feature and wrappers."
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
        """Include the registration of a task from a user's script, which workers do not run."""
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
            if self.make is not None:
                env = self._wrapped(self._limited(self.make.new(self.id, self.args, self.render_mode)))
            else:
                env = self._made(limit, args)
        drawn = env.render_mode not in (None, "human")
        if drawn and rendering.uses_mujoco(env) and not rendering.choose():
            env.close()
            raise CairnError(f"{self.id} cannot be drawn here: {rendering.MISSING}.")
        return env

    def _made(self, limit: dict[str, Any], args: dict[str, Any]) -> gym.Env[Any, Any]:
        import_family(self.id)
        fault = known_fault(self.id) or old_atari(self.id)
        if fault is not None:
            raise CairnError(fault)
        try:
            game = self.game
            if game is not None:
                from cairn.envs.atari import Atari

                return Atari(game, self.render_mode)
            import_package(self.id)
            env = gym.make(self.id, disable_env_checker=True, **limit, **args)
            return self._wrapped(env)
        except CairnError:
            raise
        except (gym.error.UnregisteredEnv, gym.error.Error, ModuleNotFoundError) as error:
            raise explain(self.id, error) from error
        except TypeError as error:
            raise CairnError(why_refused(self.id, error)) from error
        except Exception as error:  # environments raise any type of error for bad arguments
            raise CairnError(f"environment {self.id} could not be made: {type(error).__name__}: {error}") from error

    def _limited(self, env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
        """Apply the time limit to an environment that the user makes."""
        if self.time_limit:
            return gym.wrappers.TimeLimit(env, self.time_limit)
        if self.time_limit == 0 and env.spec is not None and env.spec.max_episode_steps:
            raise CairnError(f"the time limit of {self.id} is part of what was given; make it without one.")
        return env

    def _wrapped(self, env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
        env = wrap(env, self.wrappers, self.id)
        if self.resets > 1 and not self.scoring:
            env = Resets(env, self.resets)
        if self.time_feature:
            env = TimeFeature(env)
        if self.history > 1:
            env = History(env, self.history)
        if self.reward_floor is not None and not self.scoring:
            env = RewardFloor(env, self.reward_floor)
        if maskable(getattr(env, "action_space", None)):
            if not self.action_masks:
                return WithoutMask(env) if shows_mask(env) else env
            if not shows_mask(env) and (env.has_wrapper_attr(METHOD) or self._tells_masks(env)):
                env = ActionMasks(env)
        return env

    def _tells_masks(self, env: gym.Env[Any, Any]) -> bool:
        """Whether masks come in `info`. Tests another environment, since a reset can leave traces in this one."""
        of_the_user = [one for one in (self.make, *self.wrappers) if one is not None]
        known, name = of_the_user[0].told if of_the_user else _TELLS, repr((self.id, self.args, self.wrappers))
        if name not in known:
            known[name] = may_tell_by_info(env) and tells_by_info(self._another())
        return known[name]

    def _another(self) -> gym.Env[Any, Any]:
        """Another environment without Cairn's wrappers; of an instance that cannot be copied, that instance."""
        made = self.make
        if made is None:
            return wrap(gym.make(self.id, disable_env_checker=True, **self.args), self.wrappers, self.id)
        return wrap(Lent(made.value) if made.uncopied else made.new(self.id, self.args, None), self.wrappers, self.id)


class Member:
    """Makes one environment of a task that was given as a list of functions, or lends the one that was given."""

    def __init__(self, task: Task, index: int) -> None:
        self.task, self.index = task, index

    @property
    def lends(self) -> bool:
        """Whether it returns the user's own environment each time."""
        return self.task.make is not None and self.task.make.kind == "instance"

    def __call__(self) -> gym.Env[Any, Any]:
        task, made = self.task, self.task.make
        assert made is not None
        with rendering.not_needed():
            if made.kind == "functions":
                return task._wrapped(task._limited(call(made.value[self.index], task.id, task.args, task.render_mode)))
            return task._wrapped(task._limited(Lent(made.value)))
