"""The familiar face: `SAC(env, **config).learn(steps)`, `.predict`, `.save`, `.load`, as users of SB3 know it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from gymnasium import spaces

from cairn.agents import agent_name, build, config_type
from cairn.agents.base import Agent
from cairn.core.checks import validated
from cairn.core.device import usable
from cairn.core.errors import CairnError
from cairn.core.sb3_names import hint
from cairn.core.seeding import derive, derive_many
from cairn.core.types import Array, Box, Step
from cairn.doctor.watch import watching
from cairn.envs.make import Task
from cairn.recipes import find
from cairn.train.checkpoint import load_policy, save_policy
from cairn.train.evaluate import Score, as_policy, evaluate
from cairn.train.recipe import Recipe
from cairn.train.trainer import Outcome
from cairn.train.trainer import train as run_recipe
from cairn.vector.base import spec_of_env
from cairn.vector.make import Backend, judging, make_vector


@dataclass(frozen=True)
class Sampled:
    """What N environments did: `obs` [N, ...] was seen, `action` [N, ...] taken, and `step` came of it.

    Rows that are not `step.valid` are no steps: an environment was only restarting.
    """

    obs: Array
    action: Array
    step: Step


def train(recipe: str | Recipe, *, out: str | Path | None = None, resume: bool = False, **changes: Any) -> Outcome:
    """Run a recipe by name: `train("cartpole-ppo", seed=3, out="runs/mine")`. Keywords change its fields.

    The expert of an imitator may also be a model or any function of an observation.
    """
    base = find(recipe) if isinstance(recipe, str) else recipe
    expert = _taken_expert(changes)
    folder = None if out is None else Path(out)
    return run_recipe(_changed(base, changes), folder, resume=resume, expert=expert, watch=watching)


def sample(
    env: str | Task,
    policy: Callable[[Array], Any],
    *,
    envs: int = 1,
    vector: Backend = "auto",
    workers: int = 0,
    seed: int = 0,
    steps: int | None = None,
) -> Iterator[Sampled]:
    """Steps of a task under a policy of your own, and no training: `for one in sample("CartPole-v1", act, envs=64)`.

    `policy` maps observations [N, ...] to actions [N] or [N, ...] in the task's own units: any function, or the
    `predict` of a model. Ends after `steps` environment steps; None goes on until the caller stops.
    """
    task = env if isinstance(env, Task) else Task(env)
    vec = make_vector(task, envs, backend=vector, workers=workers)
    space, taken = vec.spec.action, 0
    shape = (envs, *space.shape) if isinstance(space, Box) else (envs,)
    try:
        obs = vec.reset(derive_many(seed, envs, "sample"))
        while steps is None or taken < steps:
            found = policy(obs)
            action = np.asarray(found[0] if isinstance(found, tuple) else found)
            if action.shape != shape:
                raise CairnError(f"the policy returned actions of shape {action.shape}; this task asks for {shape}.")
            step = vec.step(space.from_env(action))
            yield Sampled(obs, action, step)
            taken += int(step.valid.sum())
            obs = step.obs
    finally:
        vec.close()


def _taken_expert(changes: dict[str, Any]) -> Any:
    """An expert that is an agent, a model or a function, taken out of the keywords; one by name stays there."""
    expert = changes.get("expert")
    if expert is None or isinstance(expert, str):
        return None
    del changes["expert"]
    return expert.agent if isinstance(expert, Model) else expert


def _changed(recipe: Recipe, changes: dict[str, Any]) -> Recipe:
    known = {f.name for f in fields(recipe)}
    for name in changes:
        if name not in known:
            raise CairnError(f"a recipe has no field {name!r}.{hint(name, known)}")
    return replace(recipe, **changes)


class Model:
    """An agent with the task it plays. Subclasses only name the agent."""

    kind: ClassVar[str] = ""

    def __init__(
        self, env: str | Task, *, seed: int = 0, envs: int = 1, device: str = "cpu", threads: int = 1, **config: Any
    ) -> None:
        if not isinstance(env, (str, Task)):
            raise CairnError(
                "name the environment by its id, or as a cairn.envs.make.Task; Cairn makes its own copies."
            )
        self.task = env if isinstance(env, Task) else Task(env)
        self.seed, self.envs, self.device, self.threads = seed, envs, usable(device), threads
        cls = config_type(self.kind)
        known = {f.name: f for f in fields(cls)}
        for name in config:
            if name not in known:
                raise CairnError(f"{cls.__name__} has no field {name!r}.{hint(name, known)}")
        self.config = validated(cls(**config), "")
        probe = self.task()
        self.spec, self.layout = spec_of_env(probe)
        space = probe.observation_space
        self.shapes = {k: s.shape for k, s in space.items()} if isinstance(space, spaces.Dict) else {}
        probe.close()
        self.agent: Agent = build(self.config, self.spec, seed=derive(seed, "agent"), device=self.device)

    def learn(self, steps: int, *, out: str | Path | None = None, resume: bool = False, **recipe: Any) -> Self:
        """Train for `steps` environment steps. With `out` the run is logged, saved and resumable there."""
        plan = Recipe(
            env=self.task.id,
            time_limit=self.task.time_limit,
            env_args=self.task.args,
            time_feature=self.task.time_feature,
            history=self.task.history,
            reward_floor=self.task.reward_floor,
            resets=self.task.resets,
            agent=self.config,
            steps=steps,
            envs=self.envs,
            seed=self.seed,
            device=self.device,
            threads=self.threads,
            eval_every=steps,
            name=f"{self.kind}-{self.task.id}",
        )
        folder, expert = None if out is None else Path(out), _taken_expert(recipe)
        run_recipe(_changed(plan, recipe), folder, resume=resume, agent=self.agent, expert=expert, watch=watching)
        return self

    def predict(
        self, obs: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[Array, Any]:
        """One observation or a batch -> action(s) in the environment's own units, and the state for the next call.

        Only an agent that remembers has a state (hiro: its subgoals); `episode_start` says which rows begin anew.
        """
        rows = np.asarray(self._rows(obs), self.spec.obs_dtype)
        single = rows.shape == self.spec.obs_shape
        if not single and rows.shape[1:] != self.spec.obs_shape:
            raise CairnError(f"an observation of this task has shape {self.spec.obs_shape}, not {rows.shape}.")
        batch = rows[None] if single else rows
        player = as_policy(self.agent, explore=not deterministic, device=self.device)
        player.memory = state
        if episode_start is not None:
            player.forget(np.atleast_1d(np.asarray(episode_start, bool)))
        out = self.spec.action.to_env(player(batch))
        return (out[0] if single else out), player.memory

    def _rows(self, obs: Any) -> Any:
        """An observation, or a batch of them, as the spec lays it out."""
        if isinstance(obs, dict):
            values = {k: np.asarray(v) for k, v in obs.items()}
            key = next(iter(values))
            single = np.shape(values[key]) == self.shapes[key]
            rows = [values] if single else [{k: v[i] for k, v in values.items()} for i in range(len(values[key]))]
            laid = np.stack([self.layout(row) for row in rows])
            return laid[0] if single else laid
        if np.ndim(obs) < len(self.spec.obs_shape):  # a discrete observation, to be spread out
            return self.layout(obs)
        return obs

    def evaluate(self, episodes: int = 100, seed: int = 1000) -> Score:
        """Mean return and success over fresh seeds."""
        envs = judging(self.task.for_scoring(), episodes)
        try:
            score = evaluate(as_policy(self.agent, device=self.device), envs, range(seed, seed + episodes))
            assert score is not None  # nobody stops it
            return score
        finally:
            envs.close()

    def save(self, path: str | Path) -> None:
        """A folder of safetensors and JSON, which `load`, `cairn eval` and `cairn watch` take."""
        save_policy(Path(path), self.agent, self.task, {"seed": self.seed})

    @classmethod
    def load(cls, path: str | Path, *, device: str = "cpu") -> Self:
        """A saved policy and the task it is judged on; to train a recipe's further, resume its run instead."""
        saved = load_policy(Path(path), device=device)
        kind = agent_name(saved.agent.cfg)
        if kind != cls.kind:
            raise CairnError(f"{path} holds a {kind} policy, not {cls.kind}; load it with that class.")
        changed = {f.name: getattr(saved.agent.cfg, f.name) for f in fields(saved.agent.cfg)}
        model = cls(saved.task, seed=int(saved.about.get("seed", 0)), device=device, **changed)
        model.agent = saved.agent
        return model


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
