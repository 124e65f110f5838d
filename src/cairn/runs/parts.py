"""What a recipe asks a run to be made of: collector, expert, plan of the replay; and whether all of it is possible."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from cairn.algorithms.imitation.lesson import Question, Source
from cairn.algorithms.registry import Algorithm, algorithm_of, maker
from cairn.algorithms.settings import capped_capacity, most_useful, no_hindsight, relabels_goals
from cairn.collect.local import LocalCollector
from cairn.collect.protocol import Collector
from cairn.collect.ray import SamplerPool
from cairn.core.agent import Agent
from cairn.core.calls import option
from cairn.core.checks import validated
from cairn.core.device import resolve_device
from cairn.core.errors import CairnError
from cairn.core.learners import part_of, shared
from cairn.core.memory import only_checked
from cairn.core.seeding import derive
from cairn.core.types import Spec
from cairn.core.untrusted import shown
from cairn.envs.given import Given
from cairn.envs.goals import goal_rule
from cairn.nets.own import NONE, Own
from cairn.recipes.recipe import Recipe
from cairn.replay.protocol import ReplayPlan
from cairn.runs.checkpoint import load_agent, load_level, load_start
from cairn.runs.locate import find_source
from cairn.runs.notices import check_rollout
from cairn.runs.policy_card import build_fitting
from cairn.runs.scorer import vector_of
from cairn.runs.team import check_learners
from cairn.runs.trackers import check_installed
from cairn.vector.checks import close_env
from cairn.vector.choose import Backend, make_vector
from cairn.vector.protocol import Vector
from cairn.vector.ray_actors import must_have_ray
from cairn.vector.spaces import spec_of_env

RARE = 1_000_000  # steps between checkpoints; a longer interval means that there are to be none


def check_replay(recipe: Recipe) -> None:
    """Refuse hindsight, priorities and levels for algorithms that do not have them."""
    algorithm, hindsight = algorithm_of(recipe.agent), recipe.hindsight != "off"
    if hindsight and (why := no_hindsight(recipe.agent)):
        raise CairnError(why)
    learners = algorithm.learners(recipe.agent)
    if any(one.config.priority for one in learners.values()) and (hindsight or "" not in learners):
        raise CairnError("prioritised replay works neither with hindsight nor with hiro; set agent.priority to 0.")
    if recipe.levels and not algorithm.levels:
        raise CairnError("levels are loaded into hiro only; this agent has none.")


def check_judged(recipe: Recipe, spec: Spec) -> None:
    """Check the spaces of the evaluation task now, not after the first steps."""
    if recipe.eval_args:
        env = recipe.judged_task.for_scoring()()
        judged = spec_of_env(env)[0]
        close_env(env)
        if not judged.alike(spec):
            raise CairnError(
                f"with these eval_args {recipe.env} has other observation or action spaces than in training."
            )


@contextlib.contextmanager
def in_training(made: Given | None) -> Iterator[None]:
    """While it lasts, nothing but the run may play in environments of which there are no others."""
    if made is None or not made.shared:
        yield
        return
    made.in_use = True
    try:
        yield
    finally:
        made.in_use = False


def expert_of(recipe: Recipe, given: Source | None, own: Path | None = None) -> Source | None:
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


def own_of(agent: Agent | None) -> Own:
    """The networks of the user's own that an agent has."""
    return NONE if agent is None or agent.own is None else agent.own


def collector_of(recipe: Recipe, algorithm: Algorithm, own: Own) -> Collector:
    """What plays the task: this process, or samplers."""
    if recipe.vector != "ray":
        return LocalCollector(vector_of(recipe, part_of(recipe.envs)), recipe.device)
    if recipe.make is not None and recipe.make.kind in ("functions", "vector"):
        raise CairnError(f"Ray's samplers take copies of one environment, and {recipe.env} is {recipe.make.what}.")
    if algorithm.samplers:
        raise CairnError(f"{algorithm.samplers}; use {option('vector', 'sync')} or async.")
    where: Any = {"seed": recipe.seed, "timeout": recipe.env_timeout, "address": recipe.ray_address}
    return SamplerPool(
        recipe.task, recipe.envs, maker(recipe.agent, own), workers=recipe.workers, device=recipe.device, **where
    )


def own_stream() -> tuple[int, ...]:
    """The end of the name of a random stream that each learner of a run has for itself."""
    learners = shared()
    return (learners.rank,) if learners is not None and learners.rank else ()


def question(recipe: Recipe, algorithm: Algorithm) -> Question:
    """What an imitation algorithm is asked to learn."""
    return Question(algorithm.name, recipe.agent, recipe.task, recipe.expert, recipe.demos, recipe.seed, recipe.device)


def replay_plan(recipe: Recipe, spec: Spec, folder: Path | None) -> ReplayPlan:
    """What the replay of a run is made from."""
    intervals = 3 if recipe.vector in ("atari", "envpool", "ray") else 2  # some of their rows are not steps
    # The slack keeps what was stored since the last checkpoint. Only with rare checkpoints it depends on `steps`: a run
    # that is continued with more steps must find files of the same size.
    every = recipe.checkpoint_every
    between = every if every <= RARE else min(every, recipe.steps)
    return ReplayPlan(
        spec,
        part_of(recipe.envs),
        torch.Generator().manual_seed(derive(recipe.seed, "replay", *own_stream())),
        slack=0 if folder is None else intervals * (between // recipe.envs + 1),
        folder=None if folder is None else folder / "replay",
        device=recipe.device,
        hindsight=recipe.hindsight,
        hindsight_k=recipe.hindsight_k,
        goal_rule=functools.partial(goal_rule, recipe.task),
    )


def check_memory(recipe: Recipe) -> None:
    """Raise CairnError where the replay buffer of a new run in a folder does not fit into memory. Makes none."""
    recipe = replace(validated(recipe), device="cpu")
    recipe = replace(recipe, agent=capped_capacity(recipe.agent, most_useful(recipe.agent, recipe.steps)))
    with contextlib.closing(_one_env(recipe)) as envs, only_checked(mapped=True):
        agent = build_fitting(recipe.agent, envs.spec, seed=0, device=recipe.device)
        algorithm_of(recipe.agent).replay(agent, replay_plan(recipe, envs.spec, None))


def _one_env(recipe: Recipe) -> Vector:
    """One environment of the recipe's task, in this process."""
    here: Backend = recipe.vector if recipe.vector in ("atari", "envpool", "mujoco", "sb3") else "sync"
    return make_vector(recipe.task, 1, backend=here, timeout=recipe.env_timeout)


def start_from(recipe: Recipe, agent: Agent, folder: Path | None) -> str:
    """Load the policies that the recipe starts from into a new agent; returns a message about it, or ""."""
    said = ""
    if recipe.start:
        source = find_source(recipe.start, "start from", own=folder, runs_first=True, zips=True)
        said = f"{source}{load_start(source, agent, recipe.task)}"
    for level, path in recipe.levels.items():
        load_level(find_source(path, "start a level from", own=folder), agent, level)
    return said


def check(recipe: Recipe) -> None:
    """Raise CairnError where `train` would refuse this recipe before its first step. Writes nothing."""
    recipe = replace(validated(recipe), device=resolve_device(recipe.device))
    check_replay(recipe)
    check_rollout(recipe)
    check_installed(recipe)
    check_learners(recipe)
    algorithm, expert = algorithm_of(recipe.agent), expert_of(recipe, None)
    if recipe.vector == "ray":
        must_have_ray()
    envs = _one_env(recipe)
    try:
        check_judged(recipe, envs.spec)
        agent = build_fitting(recipe.agent, envs.spec, seed=0, device=recipe.device)
        start_from(recipe, agent, None)
        if algorithm.prepare is not None:
            algorithm.prepare(question(recipe, algorithm), expert, envs, fit=False).close()
        if recipe.hindsight != "off" or relabels_goals(recipe.agent):
            goal_rule(recipe.task)
    finally:
        envs.close()
