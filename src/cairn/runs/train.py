"""Assembles a run: a recipe becomes a collector, an agent, a replay, a run folder and a loop."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from cairn.algorithms.imitation.lesson import Question, Source, check_unchanged, checksums
from cairn.algorithms.registry import AgentConfig, Algorithm, able_by_hand, algorithm_of, maker
from cairn.algorithms.settings import capped_capacity, most_useful, no_hindsight, relabels_goals
from cairn.collect.local import LocalCollector
from cairn.collect.protocol import Collector
from cairn.collect.ray import SamplerPool
from cairn.core.agent import Agent
from cairn.core.calls import option
from cairn.core.checks import validated
from cairn.core.device import resolve_device
from cairn.core.errors import CairnError, EnvError
from cairn.core.memory import enough, keep_freed_memory
from cairn.core.seeding import derive
from cairn.core.types import Spec
from cairn.core.untrusted import shown
from cairn.envs.given import Given
from cairn.envs.goals import goal_rule
from cairn.native.use import by_hand, changed_form, resolved
from cairn.nets.own import NONE, Own
from cairn.recipes.recipe import Recipe
from cairn.replay.protocol import Checkpointable, ReplayPlan
from cairn.runs.callbacks import Callbacks
from cairn.runs.checkpoint import load_agent, load_level, load_start
from cairn.runs.config import CONFIG, first_steps, last_note, stored, write_config
from cairn.runs.disk import DiskError
from cairn.runs.evaluation import Score
from cairn.runs.folder import in_use
from cairn.runs.locate import find_source
from cairn.runs.lock import Lock
from cairn.runs.logs import set_aside
from cairn.runs.notices import check_rollout
from cairn.runs.policy_card import build_fitting
from cairn.runs.policy_files import checkpoints
from cairn.runs.restore import resume as restore
from cairn.runs.resume import continued, kept_small
from cairn.runs.run import Run
from cairn.runs.scorer import Scorer, vector_of
from cairn.runs.trackers import check_installed
from cairn.runs.watching import Watcher
from cairn.vector.checks import close_env
from cairn.vector.choose import Backend, choose, make_vector
from cairn.vector.ray_actors import must_have_ray
from cairn.vector.spaces import spec_of_env

RARE = 1_000_000  # steps between checkpoints; a longer interval means that there are to be none
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
    _check_replay(recipe)
    check_rollout(recipe)
    check_installed(recipe)
    with enough(), in_use(folder, resume=resume) as lock, _in_training(recipe.make):
        if resume:
            assert folder is not None
            recipe = _continued(recipe, folder)
        else:
            most = most_useful(recipe.agent, recipe.steps)
            recipe = replace(recipe, agent=capped_capacity(recipe.agent, most))
        return _train(recipe, folder, lock, resume, agent, expert, watch, callbacks)


@contextlib.contextmanager
def _in_training(made: Given | None) -> Iterator[None]:
    """While it lasts, nothing but the run may play in environments of which there are no others."""
    if made is None or not made.shared:
        yield
        return
    made.in_use = True
    try:
        yield
    finally:
        made.in_use = False


def _continued(recipe: Recipe, folder: Path) -> Recipe:
    """The recipe with which the run in `folder` continues."""
    found, fault = stored(folder)
    first = first_steps(folder, found)
    asked, recipe = recipe, continued(found, recipe, folder, first)
    for said in kept_small(asked, recipe, found.steps if first is None else first):
        print(f"cairn: {said}", file=sys.stderr)
    if fault:
        if os.path.lexists(folder / CONFIG):
            fault += f" It is kept as {set_aside(folder / CONFIG).name}."
        print(f"cairn: {fault} The settings are taken from the last checkpoint.", file=sys.stderr)
        write_config(folder, found)
    return recipe


def _train(
    recipe: Recipe,
    folder: Path | None,
    lock: Lock | None,
    resume: bool,
    agent: Agent | None,
    expert: Source | None,
    watch: Watch | None,
    callbacks: Callbacks | None,
) -> Outcome:
    algorithm = algorithm_of(recipe.agent)
    begun = folder is not None and bool(checkpoints(folder / "checkpoints"))
    given, expert = expert is not None, _expert(recipe, expert, folder)
    if recipe.vector == "auto":
        recipe = replace(recipe, vector=choose(recipe.task, recipe.envs, recipe.workers))
        print(f"cairn: the environments are stepped with {option('vector', recipe.vector)}.", file=sys.stderr)
    keep_freed_memory()
    if recipe.threads:
        torch.set_num_threads(recipe.threads)
    collector = _collector(recipe, algorithm, _own(agent))
    scorer, lesson = Scorer(recipe), None
    try:
        _check_judged(recipe, collector.spec)
        if agent is None or (resume and not begun):  # `agent` may have been trained since the run began
            made: Any = {"device": recipe.device, "own": _own(agent)}
            agent = build_fitting(recipe.agent, collector.spec, seed=derive(recipe.seed, "agent"), **made)
        if agent.spec != collector.spec:
            raise CairnError(
                f"this agent was made for another task: {agent.spec.brief}; {recipe.env} has {collector.spec.brief}."
            )
        able = able_by_hand(agent)
        recipe = replace(recipe, native=resolved(recipe.native, able)) if not resume else recipe
        if resume and (said := changed_form(recipe.native)):
            print(f"cairn: {said}", file=sys.stderr)
        started = "" if begun else _start(recipe, agent, folder)
        run = Run(recipe, folder, scorer, lock=lock, callbacks=callbacks)
        if algorithm.prepare is not None:
            assert isinstance(collector, LocalCollector)
            ask = _question(recipe, algorithm)
            lesson = run.lesson = algorithm.prepare(ask, expert, collector.envs)
            run.taught = checksums(ask, lesson, given=given)
            if begun and folder is not None:
                check_unchanged(ask, last_note(folder).get("taught"), run.taught, folder)
        replay = _begin(run, agent, algorithm, resume)
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
    return Outcome(
        agent,
        folder,
        run.step,
        run.seconds,
        run.score,
        run.best,
        run.solved,
        run.interrupted,
        collector.restarts,
        run.saved,
        run.newest,
    )


def _start(recipe: Recipe, agent: Agent, folder: Path | None) -> str:
    """Load the policies that the recipe starts from into a new agent; returns a message about it, or ""."""
    said = ""
    if recipe.start:
        source = find_source(recipe.start, "start from", own=folder, runs_first=True, zips=True)
        said = f"{source}{load_start(source, agent, recipe.task)}"
    for level, path in recipe.levels.items():
        load_level(find_source(path, "start a level from", own=folder), agent, level)
    return said


def _begin(run: Run, agent: Agent, algorithm: Algorithm, resume: bool) -> Checkpointable | None:
    """Start a run, or restore it from its last checkpoint; return its replay, if it has one."""

    def replay() -> Checkpointable | None:
        return algorithm.replay(agent, _replay_plan(run.recipe, agent.spec, run.folder))

    if resume:
        return restore(run, agent, replay)
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


def check(recipe: Recipe) -> None:
    """Raise CairnError where `train` would refuse this recipe before its first step. Writes nothing."""
    recipe = replace(validated(recipe), device=resolve_device(recipe.device))
    _check_replay(recipe)
    check_rollout(recipe)
    check_installed(recipe)
    algorithm, expert = algorithm_of(recipe.agent), _expert(recipe, None)
    if recipe.vector == "ray":
        must_have_ray()
    here: Backend = recipe.vector if recipe.vector in ("atari", "envpool", "mujoco", "sb3") else "sync"
    envs = make_vector(recipe.task, 1, backend=here, timeout=recipe.env_timeout)
    try:
        _check_judged(recipe, envs.spec)
        agent = build_fitting(recipe.agent, envs.spec, seed=0, device=recipe.device)
        _start(recipe, agent, None)
        if algorithm.prepare is not None:
            algorithm.prepare(_question(recipe, algorithm), expert, envs, fit=False).close()
        if recipe.hindsight != "off" or relabels_goals(recipe.agent):
            goal_rule(recipe.task)
    finally:
        envs.close()


def _check_replay(recipe: Recipe) -> None:
    """Refuse hindsight, priorities and levels for algorithms that do not have them."""
    algorithm, hindsight = algorithm_of(recipe.agent), recipe.hindsight != "off"
    if hindsight and (why := no_hindsight(recipe.agent)):
        raise CairnError(why)
    learners = algorithm.learners(recipe.agent)
    if any(one.config.priority for one in learners.values()) and (hindsight or "" not in learners):
        raise CairnError("prioritised replay works neither with hindsight nor with hiro; set agent.priority to 0.")
    if recipe.levels and not algorithm.levels:
        raise CairnError("levels are loaded into hiro only; this agent has none.")


def _check_judged(recipe: Recipe, spec: Spec) -> None:
    """Check the spaces of the evaluation task now, not after the first steps."""
    if recipe.eval_args:
        env = recipe.judged_task.for_scoring()()
        judged = spec_of_env(env)[0]
        close_env(env)
        if (judged.obs_shape, judged.obs_dtype, judged.action) != (spec.obs_shape, spec.obs_dtype, spec.action):
            raise CairnError(
                f"with these eval_args {recipe.env} has other observation or action spaces than in training."
            )


def _expert(recipe: Recipe, given: Source | None, own: Path | None = None) -> Source | None:
    """The expert that was passed, or the policy that the recipe names."""
    if algorithm_of(recipe.agent).prepare is None:
        if given is not None or recipe.expert or recipe.demos:
            raise CairnError("expert and demos are used by bc, dagger, aggrevate and aggrevated only; leave them out.")
        return None
    if given is not None or not recipe.expert:
        return given
    path = find_source(recipe.expert, "learn from", own=own)
    expert, plays = load_agent(path, device=recipe.device)
    if plays != recipe.env:
        raise CairnError(f"{path} is a policy for {shown(plays)}, not for {recipe.env}; name an expert of this task.")
    return expert


def _own(agent: Agent | None) -> Own:
    """The networks of the user's own that an agent has."""
    return NONE if agent is None or agent.own is None else agent.own


def _collector(recipe: Recipe, algorithm: Algorithm, own: Own) -> Collector:
    if recipe.vector != "ray":
        return LocalCollector(vector_of(recipe, recipe.envs), recipe.device)
    if recipe.make is not None and recipe.make.kind in ("functions", "vector"):
        raise CairnError(f"Ray's samplers take copies of one environment, and {recipe.env} is {recipe.make.what}.")
    if algorithm.samplers:
        raise CairnError(f"{algorithm.samplers}; use {option('vector', 'sync')} or async.")
    where: Any = {"seed": recipe.seed, "timeout": recipe.env_timeout, "address": recipe.ray_address}
    return SamplerPool(
        recipe.task, recipe.envs, maker(recipe.agent, own), workers=recipe.workers, device=recipe.device, **where
    )


def _question(recipe: Recipe, algorithm: Algorithm) -> Question:
    return Question(algorithm.name, recipe.agent, recipe.task, recipe.expert, recipe.demos, recipe.seed, recipe.device)


def _replay_plan(recipe: Recipe, spec: Spec, folder: Path | None) -> ReplayPlan:
    """What the replay of a run is made from."""
    intervals = 3 if recipe.vector in ("atari", "envpool", "ray") else 2  # some of their rows are not steps
    # The slack keeps what was stored since the last checkpoint. Only with rare checkpoints it depends on `steps`: a run
    # that is continued with more steps must find files of the same size.
    every = recipe.checkpoint_every
    between = every if every <= RARE else min(every, recipe.steps)
    return ReplayPlan(
        spec,
        recipe.envs,
        torch.Generator().manual_seed(derive(recipe.seed, "replay")),
        slack=0 if folder is None else intervals * (between // recipe.envs + 1),
        folder=None if folder is None else folder / "replay",
        device=recipe.device,
        hindsight=recipe.hindsight,
        hindsight_k=recipe.hindsight_k,
        goal_rule=functools.partial(goal_rule, recipe.task),
    )
