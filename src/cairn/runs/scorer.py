"""Evaluation during a run, with its own environments and seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cairn.core.agent import Agent
from cairn.core.seeding import derive_many
from cairn.core.turns import shared
from cairn.core.types import Episode
from cairn.envs.task import Task
from cairn.recipes.recipe import Recipe
from cairn.runs.early import hopeless
from cairn.runs.evaluation import Score, as_policy, evaluate
from cairn.vector.choose import Backend, make_vector
from cairn.vector.in_turns import in_turns
from cairn.vector.protocol import Vector


class Scorer:
    """Evaluates agents in its own environments, made on first use, always on the same seeds.

    `bar` gives the score below which an evaluation may end early; None: it is played to its end.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.envs: Vector | None = None
        self.bar: Callable[[], float | None] = lambda: None
        self.seeds = derive_many(recipe.seed, recipe.eval_episodes, "evaluation")

    def __call__(self, agent: Agent, stop: Callable[[], bool]) -> Score | None:
        task = self.recipe.judged_task.for_scoring()
        if self.envs is None:
            self.envs = vector_of(self.recipe, task.at_most(min(self.recipe.eval_episodes, 20)), task)
        policy = as_policy(agent, device=self.recipe.device)
        bar, count, metric = self.bar(), len(self.seeds), self.recipe.metric

        def clear(played: Sequence[Episode]) -> bool:
            return bar is not None and hopeless(played, count, bar, metric)

        return evaluate(policy, self.envs, self.seeds, stop, longest=task.longest, clear=clear)

    def close(self) -> None:
        """Close the environments."""
        if self.envs is not None:
            self.envs.close()


def vector_of(recipe: Recipe, count: int, task: Task | None = None) -> Vector:
    """`count` environments of the recipe's task with its backend. Evaluation uses Gymnasium's tasks, locally."""
    task = task or recipe.task
    judged = task.scoring and recipe.vector in ("envpool", "ray")  # Gymnasium's own physics, and local
    backend: Backend = "async" if judged else recipe.vector
    envs = make_vector(task, count, backend=backend, workers=recipe.workers, timeout=recipe.env_timeout)
    turns = shared()
    return envs if turns is None else in_turns(envs, turns, meet=not task.scoring)
