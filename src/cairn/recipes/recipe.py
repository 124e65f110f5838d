"""A recipe: everything that decides how a run goes, as one typed value."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from cairn.algorithms.registry import AgentConfig
from cairn.core.calls import keywords
from cairn.core.checks import Count, Envs, Episodes, Natural, NonNegative, Parallel
from cairn.envs.task import Task
from cairn.vector.choose import Backend


@keywords
@dataclass(frozen=True)
class Recipe:
    """One training run: the task, the algorithm with its settings, the steps and how it is evaluated."""

    env: str  # Gymnasium id of the task, or module:id
    agent: AgentConfig  # config of the algorithm, such as PPOConfig()
    steps: Count  # total environment steps of the run (SB3: total_timesteps)
    target: float | None = None  # score that counts as solved; None: no target, all steps are run
    metric: Literal["return", "success"] = "return"  # score: mean episode return, or success rate from 0 to 1
    hold: Count = 2  # consecutive evaluations at the target before the run stops early
    # which later goals the replay buffer relabels with, or off (SB3: HerReplayBuffer goal_selection_strategy)
    hindsight: Literal["off", "future", "final", "episode", "random"] = "off"
    hindsight_k: Natural = 4  # relabelled transitions per original one (SB3: n_sampled_goal)
    envs: Envs = 1  # number of parallel environments (SB3: n_envs)
    vector: Backend = "sync"  # how environments are stepped: sync in one process, async in several (SB3: vec_env_cls)
    workers: Parallel = 0  # processes of async or samplers of ray; 0: one per CPU core
    ray_address: str = ""  # address of a Ray cluster; "": start a local one
    env_timeout: NonNegative = 120.0  # seconds an environment may take for one step; 0: no limit
    time_limit: Natural | None = None  # steps after which an episode is truncated; None: the task's own limit, 0: none
    time_feature: bool = False  # append the remaining share of the time limit to the observation
    history: Count = 1  # number of stacked observations, newest last (SB3: VecFrameStack n_stack)
    reward_floor: float | None = None  # clip rewards below this in training; evaluation uses the true rewards
    resets: Count = 1  # most resets, drawn at random, before a training episode, for simulators whose reset keeps state
    env_args: dict[str, Any] = field(default_factory=dict)  # environment arguments as JSON (SB3: env_kwargs)
    eval_args: dict[str, Any] = field(default_factory=dict)  # further arguments for evaluation, as JSON
    eval_every: Count = 10_000  # environment steps between evaluations (SB3: EvalCallback eval_freq)
    eval_episodes: Episodes = 20  # episodes per evaluation (SB3: n_eval_episodes)
    result_episodes: Episodes = 100  # episodes of the final evaluation that --record writes
    # steps between checkpoints; environments are reset there, so that resuming is exact
    checkpoint_every: Count = 50_000
    log_every: Count = 1_000  # environment steps between log entries (SB3: log_interval, in rollouts)
    expert: str = ""  # expert to imitate: a policy folder, a zoo entry or the recipe of a finished run
    demos: str = ""  # recorded episodes to imitate: a file of `cairn demos` or a Minari folder
    start: str = ""  # saved policy that training starts from: a folder, a zoo entry or the recipe of a finished run
    levels: dict[str, str] = field(default_factory=dict)  # saved policies of hiro levels: {"low": "FOLDER"}
    seed: Natural = 0  # random seed of weights, exploration and environments (SB3: seed)
    device: str = "cpu"  # device of the networks: cpu, cuda or auto (a GPU if there is one) (SB3: device)
    threads: Parallel = 1  # CPU threads of PyTorch; 0: PyTorch's own choice
    name: str = ""  # name of the run and of its folder, runs/NAME-sSEED
    about: str = ""  # one line about the recipe, shown in tables

    @property
    def judged_task(self) -> Task:
        """The task a policy is scored on, filmed at and saved with; nothing that is there for learners alone."""
        return replace(self.task, args={**self.env_args, **self.eval_args}, reward_floor=None, resets=1)

    @property
    def task(self) -> Task:
        return Task(
            self.env,
            self.time_limit,
            self.env_args,
            time_feature=self.time_feature,
            history=self.history,
            reward_floor=self.reward_floor,
            resets=self.resets,
        )


def on_its_task(recipe: Recipe, base: Recipe, given: Collection[str]) -> tuple[Recipe, str]:
    """A recipe made from `base` by changing the fields `given`, and a sentence where they change what it aims at.

    A target belongs to a task: where the task is another, there is none but one that is given with it.
    """
    if recipe.env == base.env:
        return recipe, ""
    target = recipe.target if "target" in given else None
    said = ""
    if base.target is not None and target is None:
        said = f"{base.name}'s target of {base.target:g} is for {base.env}; on {recipe.env} there is none."
    return replace(recipe, target=target, about=recipe.about if "about" in given else ""), said
