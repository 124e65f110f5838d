"""A run put together: a recipe becomes a collector, an agent, a replay, a run folder and a loop."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from cairn.algorithms.imitation.lesson import Question, Source, check_unchanged, checksums
from cairn.algorithms.registry import (
    AgentConfig,
    Algorithm,
    algorithm_of,
    capped_capacity,
    maker,
    most_useful,
    relabels_goals,
)
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
from cairn.envs.goals import goal_rule
from cairn.recipes.recipe import Recipe
from cairn.replay.protocol import Checkpointable, ReplayPlan
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
from cairn.runs.watching import Watcher
from cairn.vector.checks import close_env
from cairn.vector.choose import Backend, choose, make_vector
from cairn.vector.protocol import spec_of_env
from cairn.vector.ray_actors import must_have_ray

RARE = 1_000_000  # steps between checkpoints


Watch = Callable[[AgentConfig, Spec, Sequence[str]], Watcher]


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
    saved: bool = False  # whether the folder holds a checkpoint of this very step
    checkpoint: Path | None = None  # the newest one, from which a resume goes on


def train(
    recipe: Recipe,
    folder: Path | None = None,
    *,
    resume: bool = False,
    agent: Agent | None = None,
    expert: Source | None = None,
    watch: Watch | None = None,
) -> Outcome:
    """Run a recipe. With a folder everything is written there and can be resumed; without one nothing is written.

    `expert` is whom an imitator learns from, where the recipe names none: an agent, or a function of an observation.
    `watch` makes whoever watches the run, and is told which of its remarks were made before it was resumed.
    """
    recipe = validated(recipe)
    recipe = replace(recipe, device=resolve_device(recipe.device))
    _check_replay(recipe)
    check_rollout(recipe)
    with enough(), in_use(folder, resume=resume) as lock:
        if resume:
            assert folder is not None
            recipe = _continued(recipe, folder)
        else:
            most = most_useful(recipe.agent, recipe.steps)
            recipe = replace(recipe, agent=capped_capacity(recipe.agent, most))
        return _train(recipe, folder, lock, resume, agent, expert, watch)


def _continued(recipe: Recipe, folder: Path) -> Recipe:
    """The recipe that the run in `folder` goes on with."""
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
    collector = _collector(recipe, algorithm)
    scorer, lesson = Scorer(recipe), None
    try:
        _check_judged(recipe, collector.spec)
        if agent is None or (resume and not begun):  # one that is given may have been trained since
            agent = build_fitting(recipe.agent, collector.spec, seed=derive(recipe.seed, "agent"), device=recipe.device)
        if agent.spec != collector.spec:
            raise CairnError(
                f"this agent was made for another task: {agent.spec.brief}; {recipe.env} has {collector.spec.brief}."
            )
        source = None if begun else _start(recipe, agent, folder)
        run = Run(recipe, folder, scorer, lock=lock)
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
        if source is not None:
            print(f"cairn: training starts from the policy in {source}.", file=sys.stderr)
        if not (resume and run.over):
            with run:
                _loop(run, algorithm, agent, collector, replay)
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


def _start(recipe: Recipe, agent: Agent, folder: Path | None) -> Path | None:
    """Fill a new agent from the policies that the recipe starts from; where the whole agent's lies, or None."""
    source = find_source(recipe.start, "start from", own=folder, runs_first=True) if recipe.start else None
    if source is not None:
        load_start(source, agent)
    for level, path in recipe.levels.items():
        load_level(find_source(path, "start a level from", own=folder), agent, level)
    return source


def _begin(run: Run, agent: Agent, algorithm: Algorithm, resume: bool) -> Checkpointable | None:
    """Start a run, or continue it where it was; its replay, if it has one."""

    def replay() -> Checkpointable | None:
        return algorithm.replay(agent, _replay_plan(run.recipe, agent.spec, run.folder))

    if resume:
        return restore(run, agent, replay)
    made = replay()
    run.start()
    return made


def _loop(run: Run, algorithm: Algorithm, agent: Agent, collector: Collector, replay: Checkpointable | None) -> None:
    """The algorithm's loop, to the last evaluation and checkpoint. A failure tells where the last one is."""
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
    """CairnError where `train` would refuse this recipe before its first step. Nothing is written."""
    recipe = replace(validated(recipe), device=resolve_device(recipe.device))
    _check_replay(recipe)
    check_rollout(recipe)
    algorithm, expert = algorithm_of(recipe.agent), _expert(recipe, None)
    if recipe.vector == "ray":
        must_have_ray()
    here: Backend = recipe.vector if recipe.vector in ("atari", "envpool", "sb3") else "sync"
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
    """Hindsight and levels are asked of agents that have them."""
    algorithm, hindsight = algorithm_of(recipe.agent), recipe.hindsight != "off"
    if hindsight and algorithm.hindsight:
        raise CairnError(algorithm.hindsight)
    learners = algorithm.learners(recipe.agent)
    if any(one.config.priority for one in learners.values()) and (hindsight or "" not in learners):
        raise CairnError("prioritised replay works neither with hindsight nor with hiro; set agent.priority to 0.")
    if recipe.levels and not algorithm.levels:
        raise CairnError("levels are loaded into hiro only; this agent has none.")


def _check_judged(recipe: Recipe, spec: Spec) -> None:
    """Where a policy is judged on other terms than it learns on, those are looked at now, not after the first steps."""
    if recipe.eval_args:
        env = recipe.judged_task.for_scoring()()
        judged = spec_of_env(env)[0]
        close_env(env)
        if (judged.obs_shape, judged.obs_dtype, judged.action) != (spec.obs_shape, spec.obs_dtype, spec.action):
            raise CairnError(
                f"with these eval_args {recipe.env} has other observation or action spaces than in training."
            )


def _expert(recipe: Recipe, given: Source | None, own: Path | None = None) -> Source | None:
    """The expert that is given, or the policy that the recipe names."""
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


def _collector(recipe: Recipe, algorithm: Algorithm) -> Collector:
    if recipe.vector != "ray":
        return LocalCollector(vector_of(recipe, recipe.envs), recipe.device)
    if algorithm.samplers:
        raise CairnError(f"{algorithm.samplers}; use {option('vector', 'sync')} or async.")
    where: Any = {"seed": recipe.seed, "timeout": recipe.env_timeout, "address": recipe.ray_address}
    return SamplerPool(
        recipe.task, recipe.envs, maker(recipe.agent), workers=recipe.workers, device=recipe.device, **where
    )


def _question(recipe: Recipe, algorithm: Algorithm) -> Question:
    return Question(algorithm.name, recipe.agent, recipe.task, recipe.expert, recipe.demos, recipe.seed, recipe.device)


def _replay_plan(recipe: Recipe, spec: Spec, folder: Path | None) -> ReplayPlan:
    """What the replay of a run is made from."""
    intervals = 3 if recipe.vector in ("atari", "envpool", "ray") else 2  # some rows of these are no steps
    # What was stored since the last checkpoint must be there. A run that is lengthened needs as much as it did before,
    # so the steps do not count, but where checkpoints are so rare that they were meant not to be.
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
