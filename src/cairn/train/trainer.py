"""Parts put together where one can see it: a recipe becomes environments, an agent, a replay, a loop and a folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from cairn.agents import build
from cairn.agents.base import Agent
from cairn.core.checks import validated
from cairn.core.errors import CairnError, EnvError
from cairn.core.seeding import derive, derive_many
from cairn.envs.goals import goal_rule
from cairn.envs.make import Task
from cairn.replay.base import Replay
from cairn.replay.hindsight import Hindsight
from cairn.replay.ring import Ring
from cairn.train.evaluate import Score, as_policy, evaluate
from cairn.train.loops import off_policy, on_policy
from cairn.train.memory import keep_freed_memory
from cairn.train.recipe import Recipe
from cairn.train.run import Run, read_recipe
from cairn.vector.base import Vector
from cairn.vector.make import make_vector


@dataclass(frozen=True)
class Outcome:
    """How a training ended."""

    agent: Agent
    folder: Path | None
    step: int
    seconds: float
    score: Score | None
    best: float
    solved: bool
    interrupted: str | None
    restarts: int


def train(recipe: Recipe, folder: Path | None = None, *, resume: bool = False, agent: Agent | None = None) -> Outcome:
    """Run a recipe. With a folder everything is written there and can be resumed; without one nothing is written."""
    validated(recipe)
    if recipe.hindsight != "off" and not hasattr(recipe.agent, "capacity"):
        raise CairnError("hindsight is a kind of replay; use it with an agent that has one: dqn, sac or td3.")
    if hasattr(recipe.agent, "capacity"):  # a ring larger than the run would only take up room
        room: Any = {"capacity": min(recipe.agent.capacity, _stored_capacity(folder) if resume else recipe.steps)}
        recipe = replace(recipe, agent=replace(recipe.agent, **room))
    keep_freed_memory()
    if recipe.threads:
        torch.set_num_threads(recipe.threads)
    envs = _vector(recipe, recipe.envs)
    scorer = Scorer(recipe)
    try:
        if agent is None:
            agent = build(recipe.agent, envs.spec, seed=derive(recipe.seed, "agent"), device=recipe.device)
        if agent.spec != envs.spec:
            raise CairnError(f"this agent was made for another task than {recipe.env} as asked for here.")
        run = Run(recipe, folder, scorer)
        replay = _replay(recipe, envs, folder) if hasattr(recipe.agent, "capacity") else None
        run.resume(agent, replay) if resume else run.start()
        with run:
            try:
                on_policy(agent, envs, run) if replay is None else off_policy(agent, envs, replay, run)  # type: ignore[arg-type]
            except EnvError as error:
                where = f"at step {run.step} of {recipe.env}; {run.last_checkpoint()}"
                raise EnvError(error.index, f"{error.what}, {where}.") from error
            run.finish(agent, replay)
    finally:
        scorer.close()
        envs.close()
    return Outcome(
        agent, folder, run.step, run.seconds, run.score, run.best, run.solved, run.interrupted, envs.restarts
    )


def _stored_capacity(folder: Path | None) -> int:
    """The size of the ring a run was started with."""
    if folder is None:
        raise CairnError("a run without a folder cannot be resumed; name its folder.")
    return int(getattr(read_recipe(folder).agent, "capacity", 0))


class Scorer:
    """Evaluates on environments of its own, made when first needed, always on the same seeds apart from training's."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.envs: Vector | None = None
        self.seeds = derive_many(recipe.seed, recipe.eval_episodes, "evaluation")

    def __call__(self, agent: Agent, stop: Callable[[], bool]) -> Score | None:
        if self.envs is None:
            self.envs = _vector(self.recipe, min(self.recipe.eval_episodes, 20), self.recipe.judged_task.for_scoring())
        return evaluate(as_policy(agent, device=self.recipe.device), self.envs, self.seeds, stop)

    def close(self) -> None:
        if self.envs is not None:
            self.envs.close()


def _vector(recipe: Recipe, count: int, task: Task | None = None) -> Vector:
    return make_vector(
        task or recipe.task, count, backend=recipe.vector, workers=recipe.workers, timeout=recipe.env_timeout
    )


def _replay(recipe: Recipe, envs: Vector, folder: Path | None) -> Replay:
    cfg = recipe.agent
    folder = None if folder is None else folder / "replay"
    rule = None if recipe.hindsight == "off" else goal_rule(recipe.task)
    ring = Ring(
        cfg.capacity,  # type: ignore[union-attr]
        recipe.envs,
        envs.spec,
        generator=torch.Generator().manual_seed(derive(recipe.seed, "replay")),
        gamma=cfg.gamma,
        n=cfg.n_step,  # type: ignore[union-attr]
        slack=0 if folder is None else 2 * (recipe.checkpoint_every // recipe.envs + 1),
        folder=folder,
    )
    if recipe.hindsight == "off" or rule is None:
        return ring
    assert envs.spec.goal is not None  # as the rule's finder has seen
    return Hindsight(ring, envs.spec.goal, rule, strategy=recipe.hindsight, k=recipe.hindsight_k, folder=folder)
