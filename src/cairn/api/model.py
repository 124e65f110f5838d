"""`SAC(env, **config).learn(steps)`, `.predict`, `.save`, `.load`, as users of Stable-Baselines3 know them."""

from __future__ import annotations

import functools
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from cairn.algorithms.imitation.expert import is_agent
from cairn.algorithms.registry import ALGORITHMS, agent_name, config_type
from cairn.api.arguments import changed, disk_errors, folder_path, run_folder, unknown_setting
from cairn.core.agent import Agent
from cairn.core.calls import called
from cairn.core.checks import Count, Envs, Episodes, EpisodeSeed, Natural, Parallel, fit, short, validated
from cairn.core.device import resolve_device
from cairn.core.errors import CairnError
from cairn.core.sb3_names import WITHOUT
from cairn.core.seeding import derive
from cairn.core.types import Array, Box
from cairn.doctor.watchers import watching
from cairn.envs.task import Task, as_task
from cairn.recipes.recipe import Recipe
from cairn.runs.checkpoint import load_agent, load_policy, save_policy
from cairn.runs.config import CONFIG, stored
from cairn.runs.evaluation import Score, as_policy, evaluate
from cairn.runs.owned_files import check_output
from cairn.runs.policy_card import build_fitting, check_task
from cairn.runs.train import train as run_recipe
from cairn.vector.checks import close_env
from cairn.vector.choose import scoring_vector
from cairn.vector.observations import rows_of
from cairn.vector.protocol import spec_of_env

OF_THE_TASK = ("time_limit", "env_args", "time_feature", "history", "reward_floor", "resets")  # fields of a recipe


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
            raise CairnError("Model has no algorithm; use a class such as cairn.PPO or cairn.SAC.")
        self.task = as_task(env)
        self.seed, self.envs = fit("seed", seed, Natural), fit("envs", envs, Envs)
        self.device, self.threads = resolve_device(device), fit("threads", threads, Parallel)
        cls = config_type(self.kind)
        known = {f.name for f in fields(cls)}
        for name in config:
            if name not in known:
                raise unknown_setting(self.kind, name, ("seed", "envs", "device", "threads"))
        self.config = validated(cls(**config), "")
        probe = self.task()
        try:
            self.spec, self.layout = spec_of_env(probe)
            self.space = probe.observation_space
        finally:
            close_env(probe)
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
                raise CairnError(f"learn takes no {one}: the model already has one; make another {name}.")
            if one in OF_THE_TASK:
                raise CairnError(
                    f"learn takes no {one}: it would change the task, which the model was made for; write"
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
        expert, changes = split_expert(recipe)
        folder, resume = run_folder(out), fit("resume", resume, bool)
        trust, typed = fit("trust", trust, bool), Recipe(**own, eval_every=steps, name=f"{self.kind}-{self.task.id}")
        begun = replace(stored(folder)[0], **own) if resume and folder is not None else typed
        plan = changed(begun, changes, model=name)
        if resume and folder is not None and "eval_args" not in changes:  # what its file adds to the model's own task
            check_task(plan.judged_task, folder / CONFIG, trust=trust, typed=typed.judged_task)
        with disk_errors():
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
            raise CairnError("state must be the one that predict returned before, for the same number of observations.")
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
        folder = folder_path("path", path)
        check_output(folder, "path")
        save_policy(folder, self.agent, self.task, about)

    @classmethod
    @called()
    def load(cls, path: str | Path, *, device: str | None = None, trust: bool = False) -> Self:
        """A saved policy, its settings and the task it is judged on; to train a recipe's further, resume its run.

        `device` is where it was saved from, where nothing else is said and there is such a device here.
        A task that is named as module:id is refused unless that module was imported before, or with `trust`.
        """
        folder = folder_path("path", path)
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
                f"{path} was trained on another version of {saved.task.id}: its observation or action space differs."
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
    if ALGORITHMS[kind].trained:
        return f"load it with cairn.{ALGORITHMS[kind].label}.load"
    return "play it with `cairn eval`, or use it as an expert"


def split_expert(changes: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """An expert that is an agent, a model or a function, and the other keywords; one by name stays among these."""
    expert = changes.get("expert", "")
    if isinstance(expert, (str, Path)):
        return None, changes
    rest = {name: value for name, value in changes.items() if name != "expert"}
    if isinstance(expert, Model):
        return expert.agent, rest
    if not callable(expert) and not is_agent(expert):
        raise CairnError(f"expert is {short(expert)}; it must be a folder, a model or a function of an observation.")
    return expert, rest


@called()
def model(name: str) -> type[Model]:
    """The class of an algorithm in the registry: model("ppo") is cairn.PPO."""
    name = fit("name", name, str)
    config_type(name)  # or CairnError
    return _made(name, ALGORITHMS[name].label)


@functools.cache
def _made(name: str, label: str) -> type[Model]:
    return type(label, (Model,), {"kind": name, "__module__": "cairn.api", "__doc__": f"A {name} agent with its task."})
