"""Several seeds of a recipe in one process (`lockstep.py`), each with the folder and the result it would have alone."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cairn.core.calls import option
from cairn.core.errors import CairnError
from cairn.core.format import writer
from cairn.core.memory import divided
from cairn.core.metric import figure
from cairn.recipes.recipe import Recipe
from cairn.runs.callbacks import Callbacks, TrainingProgress
from cairn.runs.lockstep import Lockstep, must_have_greenlets
from cairn.runs.parts import check_memory
from cairn.runs.train import Outcome, Watch, train
from cairn.vector.choose import choose


@dataclass(frozen=True)
class Seed:
    """One run: its recipe with its seed, its folder, and whether it was begun before."""

    recipe: Recipe
    folder: Path
    resume: bool


def must_go_together(recipe: Recipe, count: int) -> None:
    """Raise CairnError where so many seeds of a recipe cannot be trained in one process. Writes nothing."""
    must_have_greenlets()
    if recipe.vector == "ray":
        raise CairnError(
            f"seeds that are trained together share one process, and Ray's samplers serve one run; leave out"
            f" {option('together')}, or use {option('vector', 'async')}."
        )
    if recipe.learners > 1:
        raise CairnError(
            f"seeds that are trained together share one process, and {option('learners', str(recipe.learners))} takes"
            f" several for each; leave one of them out."
        )
    with divided(count):
        check_memory(recipe)


def train_together(seeds: Sequence[Seed], *, watch: Watch | None = None) -> list[Outcome | Exception]:
    """Train all in this process; the exception of a seed that failed is its result, and the others go on.

    On a CPU the runs take turns. On a GPU the updates that are due in all of them are one CUDA graph.
    """
    recipe = seeds[0].recipe
    must_go_together(recipe, len(seeds))
    if recipe.vector == "auto":
        backend = choose(recipe.task, recipe.envs, recipe.workers)
        print(f"cairn: the environments are stepped with {option('vector', backend)}.", file=sys.stderr)
        seeds = [one if one.resume else replace(one, recipe=replace(one.recipe, vector=backend)) for one in seeds]

    def job(one: Seed) -> Outcome:
        callbacks = Callbacks((functools.partial(_say, one.recipe),))
        return train(one.recipe, one.folder, resume=one.resume, watch=watch, callbacks=callbacks)

    with divided(len(seeds)):
        return Lockstep[Outcome]().run([functools.partial(job, one) for one in seeds])


def _say(recipe: Recipe, progress: TrainingProgress) -> None:
    """Print an evaluation: with several runs there is no progress line."""
    if progress.event == "evaluation":
        values = progress.metrics
        score = figure(recipe.metric, values["eval/mean_reward"], values.get("eval/success_rate"))
        done = f"{progress.step:,} of {progress.steps:,} steps"
        print(f"seed {recipe.seed}: {done}, evaluation {writer(recipe.metric)(score)}", file=sys.stderr)
