"""The familiar face: `SAC(env, **config).learn(steps)`, `.predict`, `.save`, `.load`, as users of SB3 know it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from cairn.algorithms.registry import agent_name, config_type
from cairn.core.agent import Agent
from cairn.core.calls import called, must_take_one
from cairn.core.checks import Count, Envs, Episodes, EpisodeSeed, Natural, Parallel, fit, short, validated
from cairn.core.device import resolve_device
from cairn.core.errors import CairnError
from cairn.core.sb3_names import WITHOUT, hint
from cairn.core.seeding import derive, derive_many
from cairn.core.types import ActionSpec, Array, Box, Step
from cairn.doctor.watchers import watching
from cairn.envs.task import Task, as_task
from cairn.recipes import RECIPES, find
from cairn.recipes.recipe import Recipe, on_its_task
from cairn.runs.checkpoint import load_agent, load_policy, save_policy
from cairn.runs.config import CONFIG, read_recipe, read_to_resume, stored
from cairn.runs.evaluation import Score, as_policy, evaluate
from cairn.runs.folder import run_path
from cairn.runs.owned_files import check_output
from cairn.runs.policy_card import build_fitting, check_task
from cairn.runs.train import Outcome
from cairn.runs.train import train as run_recipe
from cairn.vector.checks import shut
from cairn.vector.choose import Backend, make_vector, scoring_vector
from cairn.vector.observations import rows_of
from cairn.vector.protocol import Vector, spec_of_env

OF_THE_TASK = ("time_limit", "env_args", "time_feature", "history", "reward_floor", "resets")  # fields of a recipe


@dataclass(frozen=True)
class Sampled:
    """What N environments did: `obs` [N, ...] was seen, `action` [N, ...] taken, and `step` came of it.

    Rows that are not `step.valid` are no steps: an environment was only restarting.
    """

    obs: Array
    action: Array
    step: Step


@called()
def train(
    recipe: str | Path | Recipe,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    trust: bool = False,
    **changes: Any,
) -> Outcome:
    """Run a recipe by name: `train("cartpole-ppo", seed=3, out="runs/mine")`. Keywords change its fields.

    A recipe may also be a file (.json); `trust` it where its task is named as module:id or is given a path, and a run
    that is resumed likewise. The expert of an imitator may be a model or any function of an observation.
    """
    trust, folder, resume = fit("trust", trust, bool), _folder(out), fit("resume", resume, bool)
    base = _recipe(recipe, trust)
    if resume and folder is not None and not isinstance(recipe, Recipe):
        base = read_to_resume(folder, base, RECIPES, trust=trust)
    expert, changes = _taken_expert(changes)
    meant, said = on_its_task(validated(_changed(base, changes)), base, changes)
    if said:
        print(f"cairn: {said}", file=sys.stderr)
    with _disk():
        return run_recipe(meant, folder, resume=resume, expert=expert, watch=watching)


def _recipe(recipe: Any, trust: bool) -> Recipe:
    """A recipe by its name, from its file, or itself."""
    if isinstance(recipe, Recipe):
        return recipe
    if isinstance(recipe, (str, Path)):
        return read_recipe(Path(recipe), trust=trust) if str(recipe).endswith(".json") else find(str(recipe))
    raise CairnError(f"train takes a recipe, its name or its file (.json), not {short(recipe)}.")


@contextmanager
def _disk() -> Iterator[None]:
    """CairnError where a file of a run cannot be read or written."""
    try:
        yield
    except OSError as error:
        raise CairnError(f"{error.filename or 'a file'}: {error.strerror or error}.") from error


def _folder(out: Any) -> Path | None:
    return None if out is None else run_path(_path("out", out))


def _path(name: str, path: Any) -> Path:
    text = fit(name, path, str)
    if not text.strip() or "\0" in text:
        raise CairnError(f"{name} is {short(text)}; it must name a folder.")
    return Path(text)


@called()
def sample(
    env: str | Task,
    policy: Callable[[Array], Any] | Model,
    *,
    envs: int = 1,
    vector: Backend = "auto",
    workers: int = 0,
    seed: int = 0,
    steps: int | None = None,
) -> Iterator[Sampled]:
    """Steps of a task under a policy of your own, and no training: `for one in sample("CartPole-v1", act, envs=64)`.

    `policy` maps observations [N, ...] to actions [N] or [N, ...] in the task's own units: any function, a model or
    its `predict`. Ends after `steps` environment steps; None goes on until the caller stops.
    """
    task, act = as_task(env), policy.predict if isinstance(policy, Model) else policy
    if not callable(act):
        raise CairnError(f"policy is {short(policy)}; it must be a model, or a function of observations.")
    must_take_one(act, "policy", "the observations of all environments")
    envs, workers = fit("envs", envs, Envs), fit("workers", workers, Parallel)
    seeds, steps = derive_many(fit("seed", seed, Natural), envs, "sample"), fit("steps", steps, Count | None)
    vec = make_vector(task, envs, backend=fit("vector", vector, Backend), workers=workers)
    return _sampled(vec, act, seeds, steps)


def _sampled(vec: Vector, policy: Callable[[Array], Any], seeds: list[int], steps: int | None) -> Iterator[Sampled]:
    taken = 0
    try:
        obs = vec.reset(seeds)
        while steps is None or taken < steps:
            found = policy(obs)
            action = _actions(found[0] if isinstance(found, tuple) and found else found, vec.spec.action, len(seeds))
            step = vec.step(vec.spec.action.from_env(action))
            yield Sampled(obs, action, step)
            taken += int(step.valid.sum())
            obs = step.obs
    finally:
        vec.close()


def _actions(found: Any, space: ActionSpec, count: int) -> Array:
    """What a policy returned, as actions that the task takes; CairnError where they are none."""
    try:
        action = np.asarray(found.detach().cpu() if hasattr(found, "detach") else found)
    except ValueError:
        raise CairnError(f"the policy returned {short(found)}, which is no array: its rows differ in length.") from None
    shape = (count, *space.shape) if isinstance(space, Box) else (count,)
    if action.shape != shape:
        raise CairnError(f"the policy returned actions of shape {action.shape}; this task asks for {shape}.")
    if action.dtype.kind not in "biuf" or not np.isfinite(action).all():
        raise CairnError(f"the policy returned {short(action)}; actions are finite numbers.")
    if isinstance(space, Box):
        return action
    inner = space.from_env(action)
    if not ((inner >= 0) & (inner < space.n) & (inner == np.floor(inner))).all():
        raise CairnError(
            f"the policy returned {short(action)}; actions of this task are whole numbers"
            f" from {space.start} to {space.start + space.n - 1}."
        )
    return action.astype(np.int64)


def _taken_expert(changes: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """An expert that is an agent, a model or a function, and the other keywords; one by name stays among these."""
    expert = changes.get("expert", "")
    if isinstance(expert, (str, Path)):
        return None, changes
    rest = {name: value for name, value in changes.items() if name != "expert"}
    if isinstance(expert, Model):
        return expert.agent, rest
    if not callable(expert) and not hasattr(expert, "act"):
        raise CairnError(f"expert is {short(expert)}; it must be a folder, a model or a function of an observation.")
    return expert, rest


def _changed(recipe: Recipe, changes: dict[str, Any]) -> Recipe:
    known = {f.name for f in fields(recipe)}
    for name in changes:
        if name in known:
            continue
        if name in {f.name for f in fields(recipe.agent)}:
            kind = type(recipe.agent).__name__
            raise CairnError(
                f"{name} is a setting of the agent, not of the recipe; write agent=cairn.{kind}({name}=...)."
            )
        raise CairnError(f"a recipe has no field {name!r}.{hint(name, known)}")
    return replace(recipe, **changes)


def _sb3_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """A better sentence for `PPO("MlpPolicy", env)`; "" where it is something else."""
    name = type(args[0]).__name__
    if len(args) > 1 and isinstance(args[1], str) and args[1].endswith("Policy"):
        env = short(args[2] if len(args) > 2 else kwargs.get("env"))
        return f"{name} takes no policy ({args[1]!r}): {WITHOUT['policy']}. Write {name}({env})."
    if len(args) > 2:
        return f"{name} takes one environment; settings are given by name, such as {name}(env, lr=3e-4)."
    if "env" not in kwargs and len(args) == 1:
        return f'{name} needs an environment: {name}("CartPole-v1").'
    return ""


def _sb3_learn(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """A better sentence for `learn(total_timesteps=...)` and for callbacks."""
    if len(args) > 2:
        return f"learn takes the number of steps; all else is given by name, and {WITHOUT['callback']}."
    told = "it is called steps: " if "total_timesteps" in kwargs else ""
    return f"learn needs the number of steps; {told}write learn(10_000)." if "steps" not in kwargs else ""


class Model:
    """An agent with the task it plays. Subclasses only name the agent."""

    kind: ClassVar[str] = ""

    @called(_sb3_call)
    def __init__(
        self, env: str | Task, *, seed: int = 0, envs: int = 1, device: str = "cpu", threads: int = 1, **config: Any
    ) -> None:
        if not self.kind:
            raise CairnError("Model has no algorithm; use one of its kinds, such as cairn.PPO or cairn.SAC.")
        self.task = as_task(env)
        self.seed, self.envs = fit("seed", seed, Natural), fit("envs", envs, Envs)
        self.device, self.threads = resolve_device(device), fit("threads", threads, Parallel)
        cls = config_type(self.kind)
        known = {f.name: f for f in fields(cls)}
        for name in config:
            if name not in known:
                here = [*known, "seed", "envs", "device", "threads"]
                raise CairnError(f"{cls.__name__} has no field {name!r}.{hint(name, here)}")
        self.config = validated(cls(**config), "")
        probe = self.task()
        try:
            self.spec, self.layout = spec_of_env(probe)
            self.space = probe.observation_space
        finally:
            shut(probe)
        try:
            self.agent: Agent = build_fitting(
                self.config, self.spec, seed=derive(self.seed, "agent"), device=self.device
            )
        except CairnError as error:
            raise CairnError(str(error).replace("agent.", "")) from None  # here they are keywords

    @called(_sb3_learn)
    def learn(
        self, steps: int, *, out: str | Path | None = None, resume: bool = False, trust: bool = False, **recipe: Any
    ) -> Self:
        """Train for `steps` environment steps. With `out` the run is logged, saved and resumable there.

        A run that is resumed and scored with the path of a file (`eval_args`) is refused unless you `trust` it.
        """
        steps, name = fit("steps", steps, Count), type(self).__name__
        for one in recipe:
            if one in ("env", "agent", "device"):
                raise CairnError(f"learn takes no {one}: this model has its own; make another {name} for that.")
            if one in OF_THE_TASK:
                raise CairnError(
                    f"learn takes no {one}: the agent was made for another task than that; write"
                    f" {name}(cairn.envs.task.Task({self.task.id!r}, {one.removeprefix('env_')}=...))."
                )
        own: dict[str, Any] = {
            "env": self.task.id,
            "time_limit": self.task.time_limit,
            "env_args": self.task.args,
            "time_feature": self.task.time_feature,
            "history": self.task.history,
            "reward_floor": self.task.reward_floor,
            "resets": self.task.resets,
            "agent": self.config,
            "steps": steps,
            "envs": self.envs,
            "seed": self.seed,
            "device": self.device,
            "threads": self.threads,
        }
        expert, changes = _taken_expert(recipe)
        folder, resume = _folder(out), fit("resume", resume, bool)
        trust, typed = fit("trust", trust, bool), Recipe(**own, eval_every=steps, name=f"{self.kind}-{self.task.id}")
        plan = _changed(replace(stored(folder)[0], **own) if resume and folder is not None else typed, changes)
        if resume and folder is not None and "eval_args" not in changes:  # what its file adds to the model's own task
            check_task(plan.judged_task, folder / CONFIG, trust=trust, typed=typed.judged_task)
        with _disk():
            outcome = run_recipe(plan, folder, resume=resume, agent=self.agent, expert=expert, watch=watching)
        self.agent = outcome.agent  # another one where the run was begun anew
        return self

    @called()
    def predict(
        self, obs: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[Array, Any]:
        """One observation or a batch -> action(s) in the environment's own units, and the state for the next call.

        Only an agent that remembers has a state (hiro: its subgoals); `episode_start` says which rows begin anew.
        """
        rows, single = rows_of(obs, self.space, self.spec, self.layout)
        player = as_policy(self.agent, explore=not fit("deterministic", deterministic, bool), device=self.device)
        player.memory = self._memory(state, len(rows))
        if episode_start is not None:
            player.forget(_starts(episode_start, len(rows)))
        out = self.spec.action.to_env(player(rows)) if len(rows) else self._no_action()
        return (out[0] if single else out), player.memory

    def _memory(self, state: Any, count: int) -> Any:
        """The state of an earlier call; CairnError where it is none, or of another number of observations."""
        fresh = self.agent.memory(count)
        if state is None or fresh is None:
            return state
        same = type(state) is type(fresh) and all(
            getattr(state, name).shape == part.shape for name, part in vars(fresh).items()
        )
        if not same:
            raise CairnError("state must be what predict returned before, for as many observations as now.")
        return state

    def _no_action(self) -> Array:
        """Actions for no observation at all."""
        space = self.spec.action
        return np.zeros((0, *space.shape), np.float32) if isinstance(space, Box) else np.zeros(0, np.int64)

    @called()
    def evaluate(self, episodes: int = 100, seed: int = 1000) -> Score:
        """Mean return and success over fresh seeds."""
        episodes, seed = fit("episodes", episodes, Episodes), fit("seed", seed, EpisodeSeed)
        fit("the last seed", seed + episodes - 1, EpisodeSeed)
        envs = scoring_vector(self.task.for_scoring(), episodes)
        try:
            policy, longest = as_policy(self.agent, device=self.device), self.task.for_scoring().longest
            score = evaluate(policy, envs, range(seed, seed + episodes), longest=longest)
            assert score is not None  # nobody stops it
            return score
        finally:
            envs.close()

    @called()
    def save(self, path: str | Path) -> None:
        """A folder of safetensors and JSON, which `load`, `cairn eval` and `cairn watch` take."""
        about = {"seed": self.seed, "envs": self.envs, "threads": self.threads, "device": self.device}
        folder = _path("path", path)
        check_output(folder, "path")
        save_policy(folder, self.agent, self.task, about)

    @classmethod
    @called()
    def load(cls, path: str | Path, *, device: str | None = None, trust: bool = False) -> Self:
        """A saved policy, its settings and the task it is judged on; to train a recipe's further, resume its run.

        `device` is where it was saved from, where nothing else is said and there is such a device here.
        A task that is named as module:id is refused unless that module was imported before, or with `trust`.
        """
        folder = _path("path", path)
        saved = load_policy(folder, device="cpu" if device is None else resolve_device(device), trust=trust)
        kind = agent_name(saved.agent.cfg)
        if kind != cls.kind:
            raise CairnError(f"{path} holds a {kind} policy, not {cls.kind or 'any'}; {_instead(kind)}.")
        about = saved.about if device is None else {**saved.about, "device": device}
        settings = {
            "seed": fit(f"the seed in {folder}", about.get("seed", 0), Natural),
            "envs": fit(f"the envs in {folder}", about.get("envs", 1), Envs),
            "threads": fit(f"the threads in {folder}", about.get("threads", 1), Parallel),
            "device": _there(fit(f"the device in {folder}", about.get("device", "cpu"), str)),
        }
        changed = {f.name: getattr(saved.agent.cfg, f.name) for f in fields(saved.agent.cfg)}
        model = cls(saved.task, **settings, **changed)
        mine, theirs = ((one.obs_shape, one.obs_dtype, one.action) for one in (model.spec, saved.agent.spec))
        if mine != theirs:
            raise CairnError(
                f"{path} was trained on another {saved.task.id}: it saw or did other things than this one."
            )
        model.agent = saved.agent if model.device == "cpu" else load_agent(folder, device=model.device)[0]
        return model


def _starts(episode_start: Any, count: int) -> Array:
    """[N] bool of `predict`'s episode_start."""
    try:
        starts = np.atleast_1d(np.asarray(episode_start))
    except ValueError:
        starts = np.zeros(0)
    if starts.shape != (count,) or not np.isin(starts, (0, 1)).all():
        raise CairnError(f"episode_start is {short(episode_start)}; it must be true or false for each of {count}.")
    return starts.astype(bool)


def _there(device: str) -> str:
    """A device that a policy was saved from, or the CPU where there is none such here."""
    try:
        return resolve_device(device)
    except CairnError:
        return "cpu"


def _instead(kind: str) -> str:
    """How a policy of another kind is loaded."""
    for cls in Model.__subclasses__():
        if cls.kind == kind:
            return f"load it with cairn.{cls.__name__}.load"
    return "it is played by `cairn eval`, and learned from as an expert"


class A2C(Model):
    kind = "a2c"


class AggreVaTe(Model):
    kind = "aggrevate"


class AggreVaTeD(Model):
    kind = "aggrevated"


class BC(Model):
    kind = "bc"


class DAgger(Model):
    kind = "dagger"


class DQN(Model):
    kind = "dqn"


class HIRO(Model):
    kind = "hiro"


class PPO(Model):
    kind = "ppo"


class Reinforce(Model):
    kind = "reinforce"


class SAC(Model):
    kind = "sac"


class TD3(Model):
    kind = "td3"
