"""The loop of a hierarchy: choose subgoals, step, store, and update each level at its own rate."""

from __future__ import annotations

from typing import Any

import torch

from cairn.algorithms.hiro.agent import HIRO
from cairn.algorithms.hiro.config import HIROConfig
from cairn.algorithms.hiro.segments import Segments
from cairn.algorithms.hiro.subgoals import Subgoals
from cairn.collect.protocol import Collector, Order
from cairn.core.agent import Learner
from cairn.core.calls import option
from cairn.core.device import copied_to
from cairn.core.errors import CairnError
from cairn.core.goals import GoalRule, Within
from cairn.core.memory import must_fit
from cairn.core.run import TrainingRun
from cairn.replay.protocol import ReplayPlan
from cairn.replay.ring import Ring


def hierarchy(agent: HIRO, collector: Collector, segments: Segments, run: TrainingRun) -> None:
    """The off-policy loop with two levels; both learn while the environments step."""
    if agent.explorer is not None and collector.rows != 1:
        raise CairnError(
            "agent.explore keeps one archive, which Ray's samplers do not share;"
            f" use {option('vector', 'sync')} or async, or set agent.explore to 0."
        )
    cfg, seeds = agent.cfg, tuple(run.env_seeds())
    subgoals = Subgoals(cfg.near)
    while run.going():
        agent.progress = run.progress
        random = run.step < cfg.low.learning_starts and cfg.freeze != "low"
        act = {"random_subgoals": run.step < cfg.high.learning_starts and cfg.freeze != "high"}
        order = Order(collector.rows, run.progress, random, act, seeds)
        collector.begin(agent, order, updates=run.updates, generator=segments.generator)
        learn(agent, segments, run)
        for obs, action, step, asked in collector.end():
            closed = segments.add(obs, action, step, asked)
            target = agent.within_reach(torch.from_numpy(asked[closed]).to(run.device)).cpu().numpy()
            subgoals.note(step.next_obs[closed][:, agent.positions], target)
            run.log(subgoals.figures)
            run.advance(step, step.valid)
        if metrics := collector.metrics(run.updates):
            run.log(metrics)
        seeds = ()
        if run.house_keeping(agent, collector.restarts, segments):
            seeds, subgoals = tuple(run.env_seeds()), Subgoals(cfg.near)


def learn(agent: HIRO, segments: Segments, run: TrainingRun) -> None:
    """Do the updates of each level that the steps taken so far allow."""
    cfg = agent.cfg
    due = [int((run.step - level.learning_starts) * level.updates_per_step) for level in (cfg.high, cfg.low)]
    while cfg.freeze != "low" and agent.updates[1] < due[1]:
        agent.updates[1] += 1
        run.log(agent.update_low(segments.asked(cfg.low.batch_size, cfg.low_hindsight, cfg.low_ahead).to(run.device)))
    learned = cfg.freeze != "high" and cfg.subgoals == "learned" and segments.stored > 0
    while learned and agent.updates[0] < due[0]:
        agent.updates[0] += 1
        run.log(agent.update_high(segments.windows(cfg.high.batch_size, cfg.high_hindsight).to(run.device)))
    run.updates = int(agent.updates.sum())


def learners(cfg: HIROConfig) -> dict[str, Learner]:
    """Both levels; a transition of the high level spans c steps."""
    high, low = (cfg.freeze == level for level in ("high", "low"))
    return {"high": Learner(cfg.high, every=cfg.every, frozen=high), "low": Learner(cfg.low, frozen=low)}


def make_segments(agent: Any, plan: ReplayPlan) -> Segments:
    """The replay that both levels sample from."""
    cfg: HIROConfig = agent.cfg
    rule: GoalRule | None = None
    if cfg.high_reward == "within":
        rule = Within(cfg.high_near)
    elif cfg.high_hindsight > 0:
        rule = plan.goal_rule()  # an error here must come before a file is made
    capacity = max(cfg.low.capacity, cfg.high.capacity * cfg.every)
    must_fit(capacity, Ring.bytes_each(plan.spec), mapped=plan.folder is not None)
    where: Any = {"generator": plan.generator, "slack": plan.slack, "folder": plan.folder}
    return Segments(
        Ring(capacity, plan.num_envs, plan.spec, gamma=cfg.low.gamma, **where),
        agent.positions,
        c=cfg.every,
        steps=cfg.low.capacity,
        windows=cfg.high.capacity,
        slack=plan.slack * plan.num_envs,
        goal=plan.spec.goal,
        rule=rule,
        paid=cfg.high_reward == "within",
        folder=plan.folder,
        device=copied_to(plan.device, (capacity + plan.slack * plan.num_envs) * Ring.bytes_each(plan.spec)),
    )
