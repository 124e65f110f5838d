"""The loops of imitation learning.

An iteration plays one trajectory per environment. The expert plays the whole of it with probability αₙ, otherwise the
learner does. Switching at every step, as is often done, would visit states that neither of them reaches alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from cairn.algorithms.imitation.aggrevate import AggreVaTe
from cairn.algorithms.imitation.aggrevated import AggreVaTeD
from cairn.algorithms.imitation.bc import BC
from cairn.algorithms.imitation.dagger import DAgger
from cairn.algorithms.imitation.expert import Expert
from cairn.algorithms.imitation.lesson import Lesson
from cairn.algorithms.imitation.values import Played
from cairn.collect.local import LocalCollector
from cairn.core.device import one_thread
from cairn.core.run import TrainingRun
from cairn.core.seeding import derive
from cairn.core.types import Array, Box, Spec
from cairn.nets.cnn import has_images
from cairn.replay.dataset import Dataset
from cairn.replay.protocol import ReplayPlan
from cairn.vector.protocol import Vector

NO_SAMPLERS = "an imitator asks its expert at every step and plays here"
TENSORS = ("obs", "taken", "drawn", "reward", "next_obs", "terminated", "valid")


def examples(agent: Any, plan: ReplayPlan) -> Dataset:
    """A dataset of states and the expert's actions, of all iterations."""
    spec = plan.spec
    fields = {"obs": (spec.obs_shape, spec.obs_dtype), "action": (spec.action_shape, spec.action_dtype)}
    return Dataset(fields, generator=plan.generator, folder=plan.folder)


def judgements(agent: Any, plan: ReplayPlan) -> Dataset:
    """A dataset of states, actions and the expert's advantages of them, of all iterations."""
    spec = plan.spec
    fields = {"obs": (spec.obs_shape, spec.obs_dtype), "action": (spec.action_shape, spec.action_dtype)}
    return Dataset({**fields, "advantage": ((), "float32")}, generator=plan.generator, folder=plan.folder)


def clone(agent: BC | DAgger, collector: LocalCollector, data: Dataset, run: TrainingRun) -> None:
    """BC and DAgger: label every visited state with the expert's action, and learn from all labels so far."""
    cfg, envs, lesson = agent.cloning, collector.envs, _begun(run)
    if run.step == lesson.spent and lesson.demos is not None and len(data) == 0:
        for episode in lesson.demos.episodes:
            data.add(obs=episode.obs[:-1], action=episode.action)
    if lesson.expert is None:
        return _clone_file(agent, data, run)
    while run.going():
        found = roll_in(agent, lesson.expert, envs, run, ask="always", explore=False, noise=cfg.noise, cut=cfg.cut)
        if found is None:  # interrupted: the trajectories are dropped
            break
        played, asked = found
        data.add(obs=played.obs[played.valid].cpu().numpy(), action=asked[played.valid].cpu().numpy())
        agent.counts += torch.tensor([1, int(played.valid.sum())])
        learn(agent, data, cfg.updates_per_step, cfg.batch_size, run)
        run.house_keeping(agent, envs.restarts, data)


def _clone_file(agent: BC | DAgger, data: Dataset, run: TrainingRun) -> None:
    """BC from recorded demonstrations: no environment is stepped, and one step is one gradient step."""
    while run.going():
        run.step += 1
        learn(agent, data, 1.0, agent.cloning.batch_size, run)
        run.house_keeping(agent, 0, data)


def aggrevate(agent: AggreVaTe, collector: LocalCollector, data: Dataset, run: TrainingRun) -> None:
    """AggreVaTe: evaluate a random action in every visited state, and learn from all evaluations so far."""
    cfg, envs, lesson = agent.cfg, collector.envs, _begun(run)
    assert lesson.expert is not None and lesson.values is not None
    while run.going():
        found = roll_in(agent, lesson.expert, envs, run, ask="playing", explore=False)
        if found is None:
            break
        played = found[0]
        random = agent.drawn(played.obs.flatten(0, 1)).view_as(played.drawn)
        verdict = lesson.values.judge(replace(played, drawn=random))
        known, run.step = verdict.known, run.step + verdict.steps
        rows = {"obs": played.obs, "action": random, "advantage": verdict.q - verdict.v}
        data.add(**{name: x[known].cpu().numpy() for name, x in rows.items()})
        agent.counts += torch.tensor([1, int(known.sum())])
        learn(agent, data, cfg.updates_per_step, cfg.batch_size, run)
        run.house_keeping(agent, envs.restarts, data)


def aggrevated(agent: AggreVaTeD, collector: LocalCollector, data: None, run: TrainingRun) -> None:
    """AggreVaTeD: evaluate the states of this iteration, learn from them, and discard them."""
    cfg, envs, lesson = agent.cfg, collector.envs, _begun(run)
    assert lesson.expert is not None and lesson.values is not None
    while run.going():
        agent.progress = run.progress
        found = roll_in(agent, lesson.expert, envs, run, ask="playing", explore=True, noise=cfg.noise, cut=cfg.cut)
        if found is None:
            break
        played, asked = found
        by_expert = played.valid & played.by_expert
        cloned = cfg.clone > 0 and int(agent.counts[0]) == 0 and bool(by_expert.any())
        if cloned:
            agent.clone(played.obs[by_expert], asked[by_expert])
        verdict = lesson.values.judge(played)
        known, run.step = verdict.known, run.step + verdict.steps
        agent.counts += torch.tensor([1, int(known.sum())])
        if known.any() and (cfg.clone_judged or not cloned):
            judge = lesson.values.any_action
            run.log(agent.update(played.obs[known], played.drawn[known], verdict.q[known], verdict.v[known], judge))
        tell(agent, run)
        run.house_keeping(agent, envs.restarts)


def _begun(run: TrainingRun) -> Lesson:
    """The lesson of the run. A new run counts the steps that were taken to fit the expert's values."""
    lesson: Lesson = run.lesson
    if run.step == 0:
        run.step += lesson.spent
    return lesson


def learn(agent: Any, data: Dataset, per_step: float, batch_size: int, run: TrainingRun) -> None:
    """Take the gradient steps that the steps so far allow. Learning rates follow the number of gradient steps."""
    while run.updates < int(run.step * per_step) and not run.interrupted:
        agent.progress = min(run.updates / (run.steps_in_all * per_step), 1.0)
        run.updates += 1
        run.log(agent.update(*data.sample(batch_size, run.device)))
    tell(agent, run)


def tell(agent: Any, run: TrainingRun) -> None:
    """Log the expert's share of trajectories and the number of queries to it."""
    run.log({"imitation/alpha": torch.tensor(agent.alpha), "imitation/queries": agent.counts[1].float()})
    run.notes["queries"] = int(agent.counts[1])


def roll_in(
    agent: Any,
    expert: Expert,
    envs: Vector,
    run: TrainingRun,
    *,
    ask: str,
    explore: bool,
    noise: float = 0.0,
    cut: int = 0,
) -> tuple[Played, torch.Tensor] | None:
    """Play one trajectory per environment, until the run's steps are used up.

    Args:
        agent: The learner.
        expert: Plays each trajectory with probability `agent.alpha`.
        envs: The environments.
        run: The training run.
        ask: When to query the expert for its action: `always`, or `playing` only if it plays any trajectory.
        explore: Whether the learner explores.
        noise: Standard deviation of the noise on actions that the expert executes.
        cut: Longest trajectory in steps, drawn uniformly from 1 to this; 0: no limit. It gives more states near a
            start.

    Returns:
        The trajectories, and the expert's actions [T, N, ...] without noise; None where the run was interrupted.
    """
    count = envs.num_envs
    seeds = run.env_seeds()
    obs = envs.reset(seeds)
    expert.forget(np.ones(count, bool))
    rng = np.random.default_rng(derive(run.seed, "mixing", run.step))
    by_expert = rng.random(count) < agent.alpha
    left = rng.integers(1, cut + 1, count) if cut else np.full(count, np.iinfo(np.int64).max)
    rows: list[tuple[Array, ...]] = []
    open_ = np.ones(count, bool)
    with one_thread(unless=has_images(agent.spec)):
        while open_.any() and run.step < run.steps_in_all:
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
    """a + σε, clipped to the bounds of the action space."""
    assert isinstance(spec.action, Box)  # checked by the agent
    moved = action + noise * rng.standard_normal(action.shape).astype(action.dtype)
    return moved.clip(-1, 1) if spec.action.bounded else moved
