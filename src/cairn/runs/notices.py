"""Messages before a run begins, about settings that are valid but hardly intended."""

from __future__ import annotations

from cairn.algorithms.registry import algorithm_of
from cairn.algorithms.settings import horizon
from cairn.core.calls import option
from cairn.core.errors import CairnError
from cairn.recipes.recipe import Recipe

FAR = 10  # a run may take this many times its steps because of one rollout,
SOON = 1_000_000  # or this many steps
UNTOLD = 10  # episodes without a reported success after which a task counts as reporting none


def notices(recipe: Recipe) -> list[str]:
    """Sentences about settings with which nothing, or not everything, is learned."""
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
    if recipe.make is not None and recipe.make.shared:
        said.append(
            f"evaluations play in the environments of the training, because no others of {recipe.env} can be made; they"
            " are reset after each."
        )
    taken = rollout(recipe)
    if taken > recipe.steps:
        said.append(f"{_one_rollout(recipe)} and the run has {recipe.steps:,}: it ends after {taken:,} steps.")
    return said


def check_rollout(recipe: Recipe) -> None:
    """Raise CairnError where one rollout is far longer than the run."""
    if rollout(recipe) > max(FAR * recipe.steps, SOON):
        raise CairnError(
            f"{_one_rollout(recipe)} and the run has {recipe.steps:,}; lower {option('agent.horizon')} or"
            f" {option('envs')}, or raise {option('steps')}."
        )


def rollout(recipe: Recipe) -> int:
    """Steps of one rollout if its length is a setting; nothing is learned before it ends."""
    return horizon(recipe.agent) * recipe.envs


def _one_rollout(recipe: Recipe) -> str:
    count = f"{recipe.envs:,} environment{'s' * (recipe.envs > 1)}"
    told = f"{option('agent.horizon')} {rollout(recipe) // recipe.envs:,} in {count}"
    return f"one rollout takes {rollout(recipe):,} steps ({told})"


def no_success(recipe: Recipe) -> str:
    """The message for a run that is judged by success although the task reports none."""
    return (
        f"{recipe.env} has not told of any success, so the score is 0: it must put is_success into info, or use"
        f" {option('metric', 'return')}."
    )
