"""`train` runs a recipe; `sample` steps a task under any policy, without training."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cairn.api.arguments import changed, disk_errors, run_folder, with_its_count
from cairn.api.model import Model, split_expert
from cairn.core.calls import called, must_take_one
from cairn.core.checks import Count, Envs, Natural, Parallel, fit, short, validated
from cairn.core.errors import CairnError
from cairn.core.seeding import derive_many
from cairn.core.types import ActionSpec, Array, Box, Composite, Discrete, Step
from cairn.doctor.watchers import watching
from cairn.envs.given import EnvLikes
from cairn.envs.task import Task, as_task
from cairn.recipes import RECIPES, find
from cairn.recipes.recipe import Recipe, on_its_task
from cairn.runs.callbacks import Callback, Callbacks, as_callbacks
from cairn.runs.config import read_recipe, read_to_resume
from cairn.runs.train import Outcome
from cairn.runs.train import train as run_recipe
from cairn.vector.choose import Backend, make_vector
from cairn.vector.protocol import Vector


@dataclass(frozen=True)
class Sampled:
    """One step of N environments.

    Attributes:
        obs: The observations [N, ...] that the policy got.
        action: Its actions [N] or [N, ...] in the task's own units.
        step: The result. Rows that are not `step.valid` are not steps: the environment was being restarted.
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
    callback: Callback | Sequence[Callback] | None = None,
    trust: bool = False,
    **changes: Any,
) -> Outcome:
    """Run a recipe, such as `train("cartpole-ppo", seed=3, out="runs/mine")`.

    Args:
        recipe: Name of a recipe, a file (.json), or a `Recipe`.
        out: Folder of the run, which is logged and can be resumed; None writes nothing.
        resume: Whether to continue the run in `out`.
        callback: A function, or several, called with a `TrainingProgress` at each log and evaluation. If one returns
            False,
            the run is saved and ends.
        trust: Whether a task from a file may import a module (module:id) and open paths in its arguments.
        **changes: Fields of the recipe to change. `env` may be anything that `PPO(env)` takes. `expert` may also be a
            model or a function of an observation.

    Returns:
        An `Outcome`: the agent, its last score, and how the run ended.

    Raises:
        CairnError: An argument is invalid, or the run cannot be started or resumed.
    """
    trust, folder, resume = fit("trust", trust, bool), run_folder(out), fit("resume", resume, bool)
    callbacks = Callbacks(as_callbacks(callback))
    base = _recipe(recipe, trust)
    if resume and folder is not None and not isinstance(recipe, Recipe):
        named = replace(base, env=changes["env"]) if "env" in changes else base
        base = read_to_resume(folder, named, RECIPES, trust=trust)
    expert, changes = split_expert(changes)
    meant, said = on_its_task(with_its_count(validated(changed(base, changes)), changes), base, changes)
    if said:
        print(f"cairn: {said}", file=sys.stderr)
    with disk_errors():
        return run_recipe(meant, folder, resume=resume, expert=expert, watch=watching, callbacks=callbacks)


def _recipe(recipe: Any, trust: bool) -> Recipe:
    """A recipe by its name, from its file, or the recipe itself."""
    if isinstance(recipe, Recipe):
        return recipe
    if isinstance(recipe, (str, Path)):
        return read_recipe(Path(recipe), trust=trust) if str(recipe).endswith(".json") else find(str(recipe))
    raise CairnError(f"train takes a recipe, its name or its file (.json), not {short(recipe)}.")


@called()
def sample(
    env: EnvLikes | Task,
    policy: Callable[[Array], Any] | Model,
    *,
    envs: int | None = None,
    wrappers: Any = (),
    vector: Backend = "auto",
    workers: int = 0,
    seed: int = 0,
    steps: int | None = None,
) -> Iterator[Sampled]:
    """Step a task under a policy, without training.

        for one in sample("CartPole-v1", act, envs=64):
            ...

    Args:
        env: A Gymnasium id, a `Task`, or anything else that `PPO(env)` takes.
        policy: Maps observations [N, ...] to actions [N] or [N, ...] in the task's own units: any function, a model, or
            its `predict`.
        envs: Number N of parallel environments; None: 1, or those of the vector or the list.
        wrappers: Functions of an environment that return one; the first is innermost.
        vector: How they are stepped, see `make_vector`.
        workers: Processes, threads or actors of the backend; 0: one per core.
        seed: Seed of the environments.
        steps: Environment steps after which to stop; None: never.

    Yields:
        A `Sampled` for each step.

    Raises:
        CairnError: An argument is invalid, or the policy returns invalid actions.
    """
    task, act = as_task(env, wrappers), policy.predict if isinstance(policy, Model) else policy
    if not callable(act):
        raise CairnError(f"policy is {short(policy)}; it must be a model, or a function of observations.")
    must_take_one(act, "policy", "the observations of all environments")
    envs = task.count or 1 if envs is None else fit("envs", envs, Envs)
    workers = fit("workers", workers, Parallel)
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
    """A policy's output as actions of the task. Raises CairnError where it is none."""
    try:
        action = np.asarray(found.detach().cpu() if hasattr(found, "detach") else found)
    except ValueError:
        raise CairnError(f"the policy returned {short(found)}, which is no array: its rows differ in length.") from None
    if isinstance(space, Composite):
        raise CairnError("cairn.sample with a policy of your own does not take actions of a Dict or Tuple.")
    shape = (count, *(() if isinstance(space, Discrete) else space.shape))
    if action.shape != shape:
        raise CairnError(f"the policy returned actions of shape {action.shape}; this task asks for {shape}.")
    if action.dtype.kind not in "biuf" or not np.isfinite(action).all():
        raise CairnError(f"the policy returned {short(action)}; actions are finite numbers.")
    if isinstance(space, Box):
        return action
    first, most = np.asarray(space.start), np.asarray(space.choices)
    last = first + (most[0] if isinstance(space, Discrete) else most) - 1
    flat = action if isinstance(space, Discrete) else action.reshape(count, -1)
    if not ((flat >= first) & (flat <= last) & (flat == np.floor(flat))).all():
        raise CairnError(
            f"the policy returned {short(action)}; actions of this task are whole numbers"
            f" from {first.min()} to {last.max()}."
        )
    return action.astype(np.int64)
