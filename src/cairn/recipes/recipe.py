"""A recipe: everything that determines a run, as one typed value."""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from cairn.algorithms.registry import AgentConfig, algorithm_of
from cairn.core.calls import keywords
from cairn.core.checks import Count, Envs, Episodes, Learning, Natural, NonNegative, Parallel
from cairn.envs.given import Given, given_env, given_wrappers
from cairn.envs.task import Task, as_task
from cairn.native.use import Form
from cairn.vector.choose import Backend

# fields of a recipe and of its task
OF_A_TASK = ("time_limit", "time_feature", "history", "reward_floor", "resets", "action_masks", "make", "wrappers")
TrackerName = Literal["wandb", "mlflow"]


@keywords
@dataclass(frozen=True)
class Recipe:
    """One training run: the task, the algorithm with its settings, the steps and how it is evaluated."""

    env: str  # Gymnasium id of the task, or module:id
    agent: AgentConfig  # settings of the algorithm, such as PPOConfig()
    steps: Count  # total environment steps of the run (SB3: total_timesteps)
    target: float | None = None  # score that counts as solved; None: no target, all steps are run
    metric: Literal["return", "success"] = "return"  # score: mean episode return, or success rate from 0 to 1
    hold: Count = 2  # consecutive evaluations at the target before the run stops early
    # where hindsight takes its new goals from; off: no hindsight (SB3: HerReplayBuffer goal_selection_strategy)
    hindsight: Literal["off", "future", "final", "episode", "random"] = "off"
    hindsight_k: Natural = 4  # relabelled transitions per original one (SB3: n_sampled_goal)
    envs: Envs = 1  # number of parallel environments (SB3: n_envs)
    vector: Backend = "sync"  # how environments are stepped: sync in one process, async in several (SB3: vec_env_cls)
    workers: Parallel = 0  # processes of async or samplers of ray; 0: one per CPU core
    # processes that train one run together; each takes its share of --envs, of every batch and of the replay buffer
    learners: Learning = 1
    ray_address: str = ""  # address of a Ray cluster; "": start a local one
    env_timeout: NonNegative = 120.0  # seconds an environment may take for one step; 0: no limit
    time_limit: Natural | None = None  # steps after which an episode is truncated; None: the task's own limit, 0: none
    time_feature: bool = False  # append the remaining share of the time limit to the observation
    history: Count = 1  # number of stacked observations, newest last (SB3: VecFrameStack n_stack)
    reward_floor: float | None = None  # clip rewards below this in training; evaluation uses the true rewards
    # resets before a training episode, at random from 1 to this many; for simulators whose reset keeps old state
    resets: Count = 1
    # use the action masks of a task that has them, with algorithms that can (sb3-contrib: MaskablePPO)
    action_masks: bool = True
    make: Given | None = None  # what was given in place of an id, in Python: a class, a function, an environment, ...
    wrappers: tuple[Given, ...] = ()  # functions of an environment that return one, in Python (SB3: wrapper_class)
    env_args: dict[str, Any] = field(default_factory=dict)  # environment arguments as JSON (SB3: env_kwargs)
    eval_args: dict[str, Any] = field(default_factory=dict)  # environment arguments that differ in evaluations, as JSON
    eval_every: Count = 10_000  # environment steps between evaluations (SB3: EvalCallback eval_freq)
    eval_episodes: Episodes = 20  # episodes per evaluation (SB3: n_eval_episodes)
    # end an evaluation once it is clear that it is neither the best one nor at the target; it then counts as no score
    eval_early_stop: bool = False
    result_episodes: Episodes = 100  # episodes of the final evaluation that --record writes
    # steps between checkpoints; environments are reset there, so that resuming is exact
    checkpoint_every: Count = 50_000
    log_every: Count = 1_000  # environment steps between log entries (SB3: log_interval, in rollouts)
    log: tuple[TrackerName, ...] = ()  # experiment trackers to log to as well: wandb, mlflow or both
    expert: str = ""  # expert to imitate: a policy folder, a zoo entry or the recipe of a finished run
    demos: str = ""  # recorded episodes to imitate: a file of `cairn demos` or a Minari folder
    start: str = ""  # policy that training starts from: a folder, zoo entry, recipe of a finished run or zip of SB3
    levels: dict[str, str] = field(default_factory=dict)  # saved policies of hiro levels: {"low": "FOLDER"}
    seed: Natural = 0  # random seed of weights, exploration and environments (SB3: seed)
    device: str = "cpu"  # device of the networks: cpu, cuda or auto (a GPU if there is one) (SB3: device)
    threads: Parallel = 1  # CPU threads of PyTorch; 0: PyTorch's own choice
    # updates with gradients written by hand: compiled (C++, see `cairn native`), python (the same in torch), off
    # (autograd), or auto: compiled if it was built and the networks are plain
    native: Form = "auto"
    name: str = ""  # name of the run and of its folder, runs/NAME-sSEED
    about: str = ""  # one line about the recipe, shown in tables

    def __post_init__(self) -> None:
        """Take an environment that is given in place of an id, a `Task` with all its settings, and wrappers."""
        fill = functools.partial(object.__setattr__, self)
        if not isinstance(self.env, str):
            task = as_task(self.env)
            settings = of_task(task)
            settings["wrappers"] += given_wrappers(self.wrappers)
            for name, value in settings.items():
                if isinstance(self.env, Task) or name in ("env", "make", "wrappers") or value:
                    fill(name, value)
        fill("wrappers", given_wrappers(self.wrappers))
        if self.make is not None and not isinstance(self.make, Given):
            fill("make", given_env(self.make).named(self.env))
        if self.make is not None and self.make.name not in ("", self.env):
            fill("make", None)  # the environment was replaced by its id

    @property
    def judged_task(self) -> Task:
        """The task for evaluation, films and saved policies, without what serves only the learner."""
        return replace(self.task, args={**self.env_args, **self.eval_args}, reward_floor=None, resets=1)

    @property
    def task(self) -> Task:
        """The task for training."""
        return Task(
            self.env,
            self.time_limit,
            self.env_args,
            time_feature=self.time_feature,
            history=self.history,
            reward_floor=self.reward_floor,
            resets=self.resets,
            action_masks=self.action_masks and algorithm_of(self.agent).masks,
            make=self.make,
            wrappers=self.wrappers,
        )


def of_task(task: Task) -> dict[str, Any]:
    """A task as fields of a recipe."""
    return {**{name: getattr(task, name) for name in OF_A_TASK}, "env_args": task.args, "env": task.id}


def on_its_task(recipe: Recipe, base: Recipe, given: Collection[str]) -> tuple[Recipe, str]:
    """A recipe made from `base` by changing the fields `given`, and a sentence if it loses its target.

    A target belongs to a task: on another task there is none, unless one is given.
    """
    if recipe.env == base.env:
        return recipe, ""
    target = recipe.target if "target" in given else None
    said = ""
    if base.target is not None and target is None:
        said = f"{base.name}'s target of {base.target:g} is for {base.env}; on {recipe.env} there is none."
    return replace(recipe, target=target, about=recipe.about if "about" in given else ""), said
