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
    """What `cairn train NAME` runs."""

    env: str  # a Gymnasium id
    agent: AgentConfig
    steps: Count  # environment steps in all
    target: float | None = None  # the score that counts as solved
    metric: Literal["return", "success"] = "return"  # what the score is
    hold: Count = 2  # evaluations in a row at the target before the run stops early
    hindsight: Literal["off", "future", "final", "episode", "random"] = "off"  # which goals replay is relabelled with
    hindsight_k: Natural = 4  # k relabelled transitions for each as it was
    envs: Envs = 1  # N, environments stepped together
    vector: Backend = "sync"
    workers: Parallel = 0  # processes of an async vector, samplers of ray; 0 is one a core
    ray_address: str = ""  # of a Ray cluster; "" is one of our own on this machine
    env_timeout: NonNegative = 120.0  # seconds an environment may take to answer; 0 waits for ever
    time_limit: Natural | None = None  # None: the task's own; 0: none; n: truncate after n steps
    time_feature: bool = False  # show the share of the time limit that is left
    history: Count = 1  # observations shown at once, the newest last
    reward_floor: float | None = None  # learners are told of no reward below it; scores are
    resets: Count = 1  # times, at most, that a task is reset before a training episode: for simulators that remember
    env_args: dict[str, Any] = field(default_factory=dict)
    eval_args: dict[str, Any] = field(default_factory=dict)  # what else the task is given when a policy is judged
    eval_every: Count = 10_000  # steps
    eval_episodes: Episodes = 20
    result_episodes: Episodes = 100  # whose mean is recorded as the result
    checkpoint_every: Count = 50_000  # steps; every environment is reset there, so that resuming is exact
    log_every: Count = 1_000  # steps
    expert: str = ""  # who imitators learn from: a policy's folder, a zoo entry or a recipe that was run
    demos: str = ""  # its recorded episodes: a file of `cairn demos`, or a folder of Minari's
    start: str = ""  # a saved policy that training starts from: a folder, a zoo entry or a recipe that was run
    levels: dict[str, str] = field(default_factory=dict)  # hiro: {"low": FOLDER}, a saved policy a level starts from
    seed: Natural = 0
    device: str = "cpu"  # auto: a GPU, where there is one
    threads: Parallel = 1  # torch's CPU threads; 0 is torch's own choice
    name: str = ""
    about: str = ""

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
