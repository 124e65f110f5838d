"""`train` runs a recipe; `sample` steps a task under any policy, without training."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cairn.api.arguments import changed, disk_errors, run_folder
from cairn.api.model import Model, split_expert
from cairn.core.calls import called, must_take_one
from cairn.core.checks import Count, Envs, Natural, Parallel, fit, short, validated
from cairn.core.errors import CairnError
from cairn.core.seeding import derive_many
from cairn.core.types import ActionSpec, Array, Box, Step
from cairn.doctor.watchers import watching
from cairn.envs.task import Task, as_task
from cairn.recipes import RECIPES, find
from cairn.recipes.recipe import Recipe, on_its_task
from cairn.runs.config import read_recipe, read_to_resume
from cairn.runs.train import Outcome
from cairn.runs.train import train as run_recipe
from cairn.vector.choose import Backend, make_vector
from cairn.vector.protocol import Vector


@dataclass(frozen=True)
class Sampled:
    """What N environments did: `obs` [N, ...] was seen, `action` [N, ...] taken, and `step` came of it.

    Rows that are not `step.valid` are no steps: an environment was only restarting.
    """

    obs: Array
    action: Array
    step: Step


@called()
def train(
    recipe: str | Path | Recipe,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    trust: bool = False,
    **changes: Any,
) -> Outcome:
    """Run a recipe by name: `train("cartpole-ppo", seed=3, out="runs/mine")`. Keywords change its fields.

    A recipe may also be a file (.json); `trust` it where its task is named as module:id or is given a path, and a run
    that is resumed likewise. The expert of an imitator may be a model or any function of an observation.
    """
    trust, folder, resume = fit("trust", trust, bool), run_folder(out), fit("resume", resume, bool)
    base = _recipe(recipe, trust)
    if resume and folder is not None and not isinstance(recipe, Recipe):
        base = read_to_resume(folder, base, RECIPES, trust=trust)
    expert, changes = split_expert(changes)
    meant, said = on_its_task(validated(changed(base, changes)), base, changes)
    if said:
        print(f"cairn: {said}", file=sys.stderr)
    with disk_errors():
        return run_recipe(meant, folder, resume=resume, expert=expert, watch=watching)


def _recipe(recipe: Any, trust: bool) -> Recipe:
    """A recipe by its name, from its file, or itself."""
    if isinstance(recipe, Recipe):
        return recipe
    if isinstance(recipe, (str, Path)):
        return read_recipe(Path(recipe), trust=trust) if str(recipe).endswith(".json") else find(str(recipe))
    raise CairnError(f"train takes a recipe, its name or its file (.json), not {short(recipe)}.")


@called()
def sample(
    env: str | Task,
    policy: Callable[[Array], Any] | Model,
    *,
    envs: int = 1,
    vector: Backend = "auto",
    workers: int = 0,
    seed: int = 0,
    steps: int | None = None,
) -> Iterator[Sampled]:
    """Steps of a task under a policy of your own, and no training: `for one in sample("CartPole-v1", act, envs=64)`.

    `policy` maps observations [N, ...] to actions [N] or [N, ...] in the task's own units: any function, a model or
    its `predict`. Ends after `steps` environment steps; None goes on until the caller stops.
    """
    task, act = as_task(env), policy.predict if isinstance(policy, Model) else policy
    if not callable(act):
        raise CairnError(f"policy is {short(policy)}; it must be a model, or a function of observations.")
    must_take_one(act, "policy", "the observations of all environments")
    envs, workers = fit("envs", envs, Envs), fit("workers", workers, Parallel)
    seeds, steps = derive_many(fit("seed", seed, Natural), envs, "sample"), fit("steps", steps, Count | None)
    vec = make_vector(task, envs, backend=fit("vector", vector, Backend), workers=workers)
    return _sampled(vec, act, seeds, steps)


def _sampled(vec: Vector, policy: Callable[[Array], Any], seeds: list[int], steps: int | None) -> Iterator[Sampled]:
    taken = 0
    try:
        obs = vec.reset(seeds)
        while steps is None or taken < steps:
            found = policy(obs)
            action = _actions(found[0] if isinstance(found, tuple) and found else found, vec.spec.action, len(seeds))
            step = vec.step(vec.spec.action.from_env(action))
            yield Sampled(obs, action, step)
            taken += int(step.valid.sum())
            obs = step.obs
    finally:
        vec.close()


def _actions(found: Any, space: ActionSpec, count: int) -> Array:
    """What a policy returned, as actions that the task takes; CairnError where they are none."""
    try:
        action = np.asarray(found.detach().cpu() if hasattr(found, "detach") else found)
    except ValueError:
        raise CairnError(f"the policy returned {short(found)}, which is no array: its rows differ in length.") from None
    shape = (count, *space.shape) if isinstance(space, Box) else (count,)
    if action.shape != shape:
        raise CairnError(f"the policy returned actions of shape {action.shape}; this task asks for {shape}.")
    if action.dtype.kind not in "biuf" or not np.isfinite(action).all():
        raise CairnError(f"the policy returned {short(action)}; actions are finite numbers.")
    if isinstance(space, Box):
        return action
    inner = space.from_env(action)
    if not ((inner >= 0) & (inner < space.n) & (inner == np.floor(inner))).all():
        raise CairnError(
            f"the policy returned {short(action)}; actions of this task are whole numbers"
            f" from {space.start} to {space.start + space.n - 1}."
        )
    return action.astype(np.int64)
