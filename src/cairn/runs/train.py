"""Assembles a run: a recipe becomes a collector, an agent, a replay, a run folder and a loop."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from cairn.algorithms.imitation.lesson import Source, check_unchanged, checksums
from cairn.algorithms.registry import AgentConfig, Algorithm, able_by_hand, algorithm_of
from cairn.algorithms.settings import capped_capacity, most_useful
from cairn.collect.local import LocalCollector
from cairn.collect.protocol import Collector
from cairn.core.agent import Agent
from cairn.core.calls import option
from cairn.core.checks import validated
from cairn.core.device import resolve_device
from cairn.core.errors import CairnError, EnvError
from cairn.core.memory import enough, keep_freed_memory
from cairn.core.seeding import derive
from cairn.core.types import Spec
from cairn.native.use import Form, by_hand, changed_form, resolved
from cairn.nets.own import Own
from cairn.recipes.recipe import Recipe
from cairn.replay.protocol import Checkpointable
from cairn.runs.callbacks import Callbacks
from cairn.runs.config import last_note
from cairn.runs.disk import DiskError
from cairn.runs.evaluation import Score
from cairn.runs.folder import in_use
from cairn.runs.lock import Lock
from cairn.runs.notices import check_rollout
from cairn.runs.parts import (
    check_judged,
    check_replay,
    collector_of,
    expert_of,
    in_training,
    own_of,
    question,
    replay_plan,
    start_from,
)
from cairn.runs.policy_card import build_fitting
from cairn.runs.policy_files import checkpoints
from cairn.runs.restore import resume as restore
from cairn.runs.restore import taken_up
from cairn.runs.run import Run
from cairn.runs.scorer import Scorer
from cairn.runs.shared_run import kept, own_streams, run_of, same_state
from cairn.runs.team import check_learners, team
from cairn.runs.trackers import check_installed
from cairn.runs.watching import Watcher
from cairn.vector.choose import choose

Watch = Callable[[AgentConfig, Spec, Sequence[str]], Watcher]


@dataclass(frozen=True)
class Outcome:
    """The result of a training run."""

    agent: Agent
    folder: Path | None
    step: int
    seconds: float
    score: Score | None
    best: float  # best evaluation, by the recipe's metric
    solved: bool
    interrupted: str | None
    restarts: int  # replaced environment workers
    saved: bool = False  # whether the folder has a checkpoint of this step
    checkpoint: Path | None = None  # the newest one, from which a resume continues


def train(
    recipe: Recipe,
    folder: Path | None = None,
    *,
    resume: bool = False,
    agent: Agent | None = None,
    expert: Source | None = None,
    watch: Watch | None = None,
    callbacks: Callbacks | None = None,
) -> Outcome:
    """Run a recipe. `folder` gets all files and can be resumed; without one nothing is written.

    `expert`, an agent or a function of an observation, teaches imitation algorithms if the recipe names no expert.
    `watch` makes the watcher of the run; it is passed the remarks that were made before a resume.
    `callbacks` are called at each log and evaluation. CallbackError if one raised, after the run was saved.
    """
    recipe = validated(recipe)
    recipe = replace(recipe, device=resolve_device(recipe.device))
    check_replay(recipe)
    check_rollout(recipe)
    check_installed(recipe)
    with enough(), in_use(folder, resume=resume) as lock, in_training(recipe.make):
        if resume:
            assert folder is not None
            recipe = taken_up(recipe, folder)
        else:
            most = most_useful(recipe.agent, recipe.steps)
            recipe = replace(recipe, agent=capped_capacity(recipe.agent, most))
        if recipe.vector == "auto":
            recipe = replace(recipe, vector=choose(recipe.task, max(recipe.envs // recipe.learners, 1), recipe.workers))
            print(f"cairn: the environments are stepped with {option('vector', recipe.vector)}.", file=sys.stderr)
        check_learners(recipe)
        with team(recipe, folder, resume=resume, own=own_of(agent)):
            return assemble(recipe, folder, lock, resume, agent, own_of(agent), expert, watch, callbacks)


def assemble(
    recipe: Recipe,
    folder: Path | None,
    lock: Lock | None,
    resume: bool,
    agent: Agent | None,
    own: Own,
    expert: Source | None,
    watch: Watch | None,
    callbacks: Callbacks | None,
) -> Outcome:
    """Put the run of this process together, which may be one of several learners, and do it."""
    algorithm = algorithm_of(recipe.agent)
    begun = folder is not None and bool(checkpoints(folder / "checkpoints"))
    given, expert = expert is not None, expert_of(recipe, expert, folder)
    keep_freed_memory()
    if recipe.threads:
        torch.set_num_threads(recipe.threads)
    collector = collector_of(recipe, algorithm, own)
    scorer, lesson = Scorer(recipe), None
    try:
        check_judged(recipe, collector.spec)
        if agent is None or (resume and not begun):  # `agent` may have been trained since the run began
            made: Any = {"device": recipe.device, "own": own}
            agent = build_fitting(recipe.agent, collector.spec, seed=derive(recipe.seed, "agent"), **made)
            own_streams(agent, recipe.seed)
        if agent.spec != collector.spec:
            raise CairnError(
                f"this agent was made for another task: {agent.spec.brief}; {recipe.env} has {collector.spec.brief}."
            )
        able = able_by_hand(agent)
        form: Form = "off" if recipe.learners > 1 else recipe.native
        recipe = replace(recipe, native=resolved(form, able)) if not resume else recipe
        if resume and (said := changed_form(recipe.native)):
            print(f"cairn: {said}", file=sys.stderr)
        started = "" if begun else start_from(recipe, agent, folder)
        run = run_of(recipe, folder, scorer, lock=lock, callbacks=callbacks)
        scorer.bar = run.bar
        if algorithm.prepare is not None:
            assert isinstance(collector, LocalCollector)
            ask = question(recipe, algorithm)
            lesson = run.lesson = algorithm.prepare(ask, expert, collector.envs)
            run.taught = checksums(ask, lesson, given=given)
            if begun and folder is not None:
                check_unchanged(ask, last_note(folder).get("taught"), run.taught, folder)
        replay = _begin(run, agent, algorithm, resume)
        same_state(agent)
        if watch is not None:
            run.watcher = watch(recipe.agent, collector.spec, run.warned)
        if started:
            print(f"cairn: training starts from the policy in {started}.", file=sys.stderr)
        if not (resume and run.over):
            with run, by_hand(recipe.native, able):
                _loop(run, algorithm, agent, collector, replay)
            run.callbacks.raise_error(run.newest if run.saved else None)
    finally:
        scorer.close()
        collector.close()
        if lesson is not None:
            lesson.close()
    ended: Any = {"interrupted": run.interrupted, "restarts": collector.restarts}
    ended |= {"saved": run.saved, "checkpoint": run.newest}
    return Outcome(agent, folder, run.step, run.seconds, run.score, run.best, run.solved, **ended)


def _begin(run: Run, agent: Agent, algorithm: Algorithm, resume: bool) -> Checkpointable | None:
    """Start a run, or restore it from its last checkpoint; return its replay, if it has one."""

    def replay() -> Checkpointable | None:
        return algorithm.replay(agent, replay_plan(run.recipe, agent.spec, run.folder))

    if resume:
        return restore(run, kept(agent), replay)
    made = replay()
    run.start()
    return made


def _loop(run: Run, algorithm: Algorithm, agent: Agent, collector: Collector, replay: Checkpointable | None) -> None:
    """Run the algorithm's loop and the last evaluation and checkpoint. Errors name the last checkpoint."""
    try:
        algorithm.loop(agent, collector, replay, run)
        run.finish(agent, replay)
    except EnvError as error:
        where = f"at step {run.step} of {run.recipe.env}; {run.last_checkpoint()}"
        raise EnvError(error.index, f"{error.what}, {where}.") from error
    except DiskError as error:
        after = "make room and resume the run" if error.full else "mend that and resume the run"
        raise DiskError(f"{error.what}; {run.last_checkpoint()}. To go on, {after}", full=error.full) from error
