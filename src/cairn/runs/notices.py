"""What a run should say before it begins: settings that are allowed and yet cannot be meant."""

from __future__ import annotations

from cairn.algorithms.registry import algorithm_of, horizon
from cairn.core.calls import option
from cairn.core.errors import CairnError
from cairn.recipes.recipe import Recipe

FAR = 10  # times its steps that a run may take because of one rollout,
SOON = 1_000_000  # or so many steps
UNTOLD = 10  # episodes after which a task that tells of no success is taken to have none


def notices(recipe: Recipe) -> list[str]:
    """Sentences about a recipe under which nothing, or not everything, is learned."""
    said = []
    for name, learner in algorithm_of(recipe.agent).learners(recipe.agent).items():
        starts = learner.config.learning_starts
        if not learner.frozen and int((recipe.steps - starts) * learner.config.updates_per_step) < 1:
            field = f"agent.{name}.learning_starts" if name else "agent.learning_starts"
            who = f"the {name} level learns nothing" if name else "nothing is learned"
            said.append(
                f"{who}: {option(field)} is {starts:,} and the run has {recipe.steps:,} steps; lower the one or raise"
                " the other."
            )
    taken = rollout(recipe)
    if taken > recipe.steps:
        said.append(f"{_one_rollout(recipe)} and the run has {recipe.steps:,}: it ends after {taken:,} steps.")
    return said


def check_rollout(recipe: Recipe) -> None:
    """CairnError where one rollout is so long that a run of these steps would hardly end."""
    if rollout(recipe) > max(FAR * recipe.steps, SOON):
        raise CairnError(
            f"{_one_rollout(recipe)} and the run has {recipe.steps:,}; lower {option('agent.horizon')} or"
            f" {option('envs')}, or raise {option('steps')}."
        )


def rollout(recipe: Recipe) -> int:
    """Steps of one rollout, where its length is a setting; nothing is learned before it ends."""
    return horizon(recipe.agent) * recipe.envs


def _one_rollout(recipe: Recipe) -> str:
    count = f"{recipe.envs:,} environment{'s' * (recipe.envs > 1)}"
    told = f"{option('agent.horizon')} {rollout(recipe) // recipe.envs:,} in {count}"
    return f"one rollout takes {rollout(recipe):,} steps ({told})"


def no_success(recipe: Recipe) -> str:
    """What is said where a run is judged by success and the task tells of none."""
    return (
        f"{recipe.env} has not told of any success, so the score is 0: it must put is_success into info, or use"
        f" {option('metric', 'return')}."
    )
