"""The loops of imitation: here the loop is the algorithm.

An iteration plays one trajectory in every environment, and a coin for each says who plays the whole of it: the expert
with probability αₙ, else the learner. Mixed step by step, as is often done, the states would be those of neither.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cairn.algorithms.imitation.demos import Demos, read, record
from cairn.algorithms.imitation.expert import Expert
from cairn.algorithms.imitation.values import Critics, Fitted, Played, Rollouts, Values
from cairn.algorithms.registry import (
    BC,
    AggreVaTe,
    AggreVaTeConfig,
    AggreVaTeD,
    AggreVaTeDConfig,
    BCConfig,
    DAgger,
    agent_name,
)
from cairn.core.agent import Agent
from cairn.core.calls import option
from cairn.core.device import one_thread
from cairn.core.errors import CairnError
from cairn.core.seeding import derive, derive_many
from cairn.core.state import pack
from cairn.core.types import Array, Discrete, Spec
from cairn.core.untrusted import shown
from cairn.envs.task import LONGEST
from cairn.nets.cnn import sees_images
from cairn.recipes.recipe import Recipe
from cairn.replay.dataset import Dataset
from cairn.runs.run import Run
from cairn.vector.protocol import Vector

Cloner = BC | DAgger
Source = Agent | Callable[[Any], Any]
TENSORS = ("obs", "taken", "drawn", "reward", "next_obs", "terminated", "valid")


@dataclass(frozen=True)
class Lesson:
    """What an imitator is taught by: an expert or its recorded episodes, and its values where they are asked for.

    `spent` steps were taken to learn those.
    """

    expert: Expert | None
    demos: Demos | None
    values: Values | None
    spent: int = 0

    def close(self) -> None:
        if isinstance(self.values, Rollouts):
            self.values.close()


def checksums(recipe: Recipe, lesson: Lesson, *, given: bool) -> dict[str, str]:
    """Of the weights of the expert and of the demonstrations that a recipe names. One that was `given` has no name."""
    found = {}
    if recipe.expert and not given and lesson.expert is not None and lesson.expert.agent is not None:
        tensors = pack(lesson.expert.agent.policy_parts)
        found["expert"] = _checksum(tensors[name].cpu().numpy() for name in sorted(tensors))
    if recipe.demos and lesson.demos is not None:
        found["demos"] = _checksum(x for e in lesson.demos.episodes for x in (e.obs, e.action, e.reward))
    return found


def _checksum(arrays: Iterable[Array]) -> str:
    total = hashlib.sha256()
    for x in arrays:
        total.update(f"{x.dtype} {x.shape}".encode())
        total.update(np.ascontiguousarray(x).tobytes())
    return total.hexdigest()


def check_taught(recipe: Recipe, was: Any, now: Mapping[str, str], folder: Path) -> None:
    """CairnError where the run in `folder` learned from another policy, or other episodes, of the same name."""
    for what, named in (("expert", recipe.expert), ("demos", recipe.demos)):
        if isinstance(was, dict) and what in was and what in now and was[what] != now[what]:
            raise CairnError(
                f"{folder} holds a run with {what} {shown(named, 60)}, and that is no longer what it was when the run"
                " was started. Put the old one back, or start a new run in another folder."
            )


def prepare(recipe: Recipe, source: Source | None, envs: Vector) -> Lesson:
    """Whatever `recipe` names, found and checked before a run begins; CairnError where it does not fit the task."""
    cfg: Any = recipe.agent
    demos = read(Path(recipe.demos), envs.spec) if recipe.demos else None
    if source is None:
        if demos is None or not isinstance(cfg, BCConfig):
            raise CairnError(
                f"{agent_name(cfg)} learns from an expert: name one with {option('expert')}, a folder or a zoo entry."
            )
        return Lesson(None, demos, None)
    named = recipe.expert if hasattr(source, "act") else ""  # else it is a function of the user's
    expert = Expert(source, envs.spec, name=named or "the expert", device=recipe.device)
    kind = getattr(cfg, "values", "none")
    if kind == "critics":
        return Lesson(expert, demos, Critics(expert.agent, expert.name, near=getattr(cfg, "near", 0.0)))
    if kind == "rollouts":
        return Lesson(expert, demos, Rollouts(recipe.task, expert, gamma=cfg.gamma, count=cfg.judged))
    if kind == "none":
        return Lesson(expert, demos, None)
    spent = 0
    if demos is None:
        seeds, longest = derive_many(recipe.seed, cfg.fit_episodes, "values"), max(recipe.task.longest, LONGEST)
        demos = record(expert, envs, seeds, recipe.env, longest=longest)
        assert demos is not None  # nobody stops it
        spent = demos.steps
    fitted = Fitted(demos, envs.spec, gamma=cfg.gamma, seed=derive(recipe.seed, "values"), device=recipe.device)
    return Lesson(expert, demos, fitted, spent)


def gathered(cfg: Any, spec: Spec, generator: torch.Generator, folder: Path | None) -> Dataset | None:
    """What an imitator keeps: pairs or judgements of all iterations; AggreVaTeD keeps nothing."""
    fields = {"obs": (spec.obs_shape, spec.obs_dtype), "action": (spec.action_shape, spec.action_dtype)}
    if isinstance(cfg, AggreVaTeDConfig):
        return None
    if isinstance(cfg, AggreVaTeConfig):
        fields["advantage"] = ((), "float32")
    return Dataset(fields, generator=generator, folder=folder)


def imitate(agent: Any, lesson: Lesson, data: Dataset | None, envs: Vector, run: Run, *, fresh: bool) -> None:
    """The loop of each imitator. A run that begins takes in what is recorded, and counts what its values cost."""
    if fresh:
        run.step += lesson.spent
    if isinstance(agent, AggreVaTeD):
        assert lesson.expert is not None and lesson.values is not None
        return aggrevated(agent, lesson.expert, lesson.values, envs, run)
    assert data is not None
    if isinstance(agent, AggreVaTe):
        assert lesson.expert is not None and lesson.values is not None
        return aggrevate(agent, lesson.expert, lesson.values, data, envs, run)
    if fresh and lesson.demos is not None and len(data) == 0:
        for episode in lesson.demos.episodes:
            data.add(obs=episode.obs[:-1], action=episode.action)
    if lesson.expert is None:
        return clone_file(agent, data, run)
    return clone(agent, lesson.expert, data, envs, run)


def clone(agent: Cloner, expert: Expert, data: Dataset, envs: Vector, run: Run) -> None:
    """BC and DAgger: label every state met with the expert's action, and learn from all there are."""
    cfg = agent.learner.cfg if isinstance(agent, DAgger) else agent.cfg
    while run.going():
        found = roll_in(agent, expert, envs, run, ask="always", explore=False, noise=cfg.noise, cut=cfg.cut)
        if found is None:  # interrupted: what was collected is dropped
            break
        played, asked = found
        data.add(obs=played.obs[played.valid].cpu().numpy(), action=asked[played.valid].cpu().numpy())
        agent.counts += torch.tensor([1, int(played.valid.sum())])
        learn(agent, data, cfg.updates_per_step, cfg.batch_size, run)
        run.house_keeping(agent, envs.restarts, data)


def clone_file(agent: Cloner, data: Dataset, run: Run) -> None:
    """BC from recorded demonstrations: no environment is stepped, and a step of the run is a gradient step."""
    batch_size = (agent.learner.cfg if isinstance(agent, DAgger) else agent.cfg).batch_size
    while run.going():
        run.step += 1
        learn(agent, data, 1.0, batch_size, run)
        run.house_keeping(agent, 0, data)


def aggrevate(agent: AggreVaTe, expert: Expert, values: Values, data: Dataset, envs: Vector, run: Run) -> None:
    """AggreVaTe: in every state met a random action is judged, and all judgements are learned from."""
    cfg = agent.cfg
    while run.going():
        found = roll_in(agent, expert, envs, run, ask="playing", explore=False)
        if found is None:
            break
        played = found[0]
        random = agent.drawn(played.obs.flatten(0, 1)).view_as(played.drawn)
        verdict = values.judge(replace(played, drawn=random))
        known, run.step = verdict.known, run.step + verdict.steps
        rows = {"obs": played.obs, "action": random, "advantage": verdict.q - verdict.v}
        data.add(**{name: x[known].cpu().numpy() for name, x in rows.items()})
        agent.counts += torch.tensor([1, int(known.sum())])
        learn(agent, data, cfg.updates_per_step, cfg.batch_size, run)
        run.house_keeping(agent, envs.restarts, data)


def aggrevated(agent: AggreVaTeD, expert: Expert, values: Values, envs: Vector, run: Run) -> None:
    """AggreVaTeD: the states of this iteration, judged, are learned from and forgotten."""
    while run.going():
        agent.progress = run.progress
        cfg = agent.cfg
        found = roll_in(agent, expert, envs, run, ask="playing", explore=True, noise=cfg.noise, cut=cfg.cut)
        if found is None:
            break
        played, asked = found
        shown = played.valid & played.by_expert
        cloned = cfg.clone > 0 and int(agent.counts[0]) == 0 and bool(shown.any())
        if cloned:
            agent.clone(played.obs[shown], asked[shown])
        verdict = values.judge(played)
        known, run.step = verdict.known, run.step + verdict.steps
        agent.counts += torch.tensor([1, int(known.sum())])
        if known.any() and (cfg.clone_judged or not cloned):
            judge = values.q if isinstance(values, Critics) else None
            run.log(agent.update(played.obs[known], played.drawn[known], verdict.q[known], verdict.v[known], judge))
        tell(agent, run)
        run.house_keeping(agent, envs.restarts)


def learn(agent: Any, data: Dataset, per_step: float, batch_size: int, run: Run) -> None:
    """Gradient steps until there are as many as the steps allow. Rates fall with them, however long a roll-in was."""
    while run.updates < int(run.step * per_step) and not run.interrupted:
        agent.progress = min(run.updates / (run.recipe.steps * per_step), 1.0)
        run.updates += 1
        run.log(agent.update(*data.sample(batch_size, run.device)))
    tell(agent, run)


def tell(agent: Any, run: Run) -> None:
    """How far the learner is let go, and how often the expert was asked: for its action, or for a judgement."""
    run.log({"imitation/alpha": torch.tensor(agent.alpha), "imitation/queries": agent.counts[1].float()})
    run.notes["queries"] = int(agent.counts[1])


def roll_in(
    agent: Any, expert: Expert, envs: Vector, run: Run, *, ask: str, explore: bool, noise: float = 0.0, cut: int = 0
) -> tuple[Played, torch.Tensor] | None:
    """One trajectory of every environment, and what the expert would do [T, N, ...]: asked always, or where it plays.

    What an expert that plays executes is disturbed by `noise`; what it would do is told without it. Each trajectory is
    left after up to `cut` steps, where given, so that of as many steps more are near a start. All end early where the
    run's steps are used up; None where the run was interrupted.
    """
    count = envs.num_envs
    seeds = run.env_seeds()
    obs = envs.reset(seeds)
    expert.forget(np.ones(count, bool))
    rng = np.random.default_rng(derive(run.recipe.seed, "mixing", run.step))
    by_expert = rng.random(count) < agent.alpha
    left = rng.integers(1, cut + 1, count) if cut else np.full(count, np.iinfo(np.int64).max)
    rows: list[tuple[Array, ...]] = []
    open_ = np.ones(count, bool)
    with one_thread(unless=sees_images(agent.spec)):
        while open_.any() and run.step < run.recipe.steps:
            if run.interrupted:
                return None
            drawn = agent.act(torch.from_numpy(obs).to(run.device), explore=explore).cpu().numpy()
            asked = expert(obs) if ask == "always" or by_expert.any() else drawn
            executed = disturbed(asked, noise, rng, envs.spec) if noise and by_expert.any() else asked
            taken = np.where(by_expert.reshape(-1, *[1] * (drawn.ndim - 1)), executed, drawn)
            step = envs.step(taken)
            valid = step.valid & open_
            rows.append((obs, taken, drawn, step.reward, step.next_obs, step.terminated, valid, asked))
            run.advance(step, valid)
            open_ &= step.valid & ~(step.terminated | step.truncated) & (len(rows) < left)
            expert.forget(step.terminated | step.truncated | ~step.valid)
            obs = step.obs
    columns = [torch.from_numpy(np.stack(column)).to(run.device) for column in zip(*rows, strict=True)]
    named = dict(zip(TENSORS, columns, strict=False))
    return Played(**named, by_expert=torch.from_numpy(by_expert).to(run.device), seeds=seeds), columns[-1]


def disturbed(action: Array, noise: float, rng: np.random.Generator, spec: Spec) -> Array:
    """a + σε, within the action's bounds where it has any."""
    assert not isinstance(spec.action, Discrete)  # as the agent has seen
    moved = action + noise * rng.standard_normal(action.shape).astype(action.dtype)
    return moved.clip(-1, 1) if spec.action.bounded else moved
