"""The off-policy loop: act, store, and learn from replayed transitions while the environments step."""

from __future__ import annotations

from typing import Any

from cairn.collect.protocol import Collector, Order
from cairn.core.agent import Agent, OffPolicy
from cairn.core.device import roomy
from cairn.core.memory import must_fit
from cairn.core.run import TrainingRun
from cairn.replay.frames import Frames
from cairn.replay.hindsight import Hindsight
from cairn.replay.prioritised import Prioritised
from cairn.replay.protocol import Replay, ReplayPlan
from cairn.replay.ring import Ring


def off_policy(agent: OffPolicy, collector: Collector, replay: Replay, run: TrainingRun) -> None:
    """Train with `updates_per_step` updates per step taken, after `learning_starts` random steps."""
    cfg, seeds = agent.cfg, tuple(run.env_seeds())
    while run.going():
        agent.progress = run.progress
        order = Order(collector.rows, run.progress, random=run.step < cfg.learning_starts, seeds=seeds)
        collector.begin(agent, order, updates=run.updates, generator=replay.generator)
        learn(agent, replay, run)
        for obs, action, step, _ in collector.end():
            replay.add(obs, action, step)
            run.advance(step, step.valid)
        if metrics := collector.metrics(run.updates):
            run.log(metrics)
        fresh = run.house_keeping(agent, collector.restarts, replay)
        seeds = tuple(run.env_seeds()) if fresh else ()


def learn(agent: OffPolicy, replay: Replay, run: TrainingRun) -> None:
    """Do the updates that the steps taken so far allow. Several batches are sampled at once."""
    cfg = agent.cfg
    due = int((run.step - cfg.learning_starts) * cfg.updates_per_step)
    while run.updates < due:
        count = min(due - run.updates, replay.batches_at_once)
        for batch in replay.sample(count * cfg.batch_size).to(run.device).split(count):
            run.updates += 1
            run.log(metrics := agent.update(batch))
        replay.after_update(metrics)


def make_replay(agent: Agent, plan: ReplayPlan) -> Replay:
    """A ring of transitions, or of frames if observations are stacked; prioritised or with hindsight if set."""
    cfg: Any = agent.cfg
    hindsight = plan.hindsight != "off"
    rule = plan.goal_rule() if hindsight else None  # an error here must come before a file is made
    common: Any = {"gamma": cfg.gamma, "n": cfg.n_step, "generator": plan.generator}
    common |= {"slack": plan.slack, "folder": plan.folder}
    steps: Ring | Frames
    if plan.spec.stack > 1:  # store every frame once
        must_fit(cfg.capacity, Frames.bytes_each(plan.spec, cfg.frame_bytes), mapped=plan.folder is not None)
        size = (cfg.capacity + 2 * plan.slack * plan.num_envs) * Frames.bytes_each(plan.spec)  # of the GPU's copy
        frames = {"frame_bytes": cfg.frame_bytes, "device": roomy(plan.device, size)}
        steps = Frames(cfg.capacity, plan.num_envs, plan.spec, **frames, **common)
    else:
        must_fit(cfg.capacity, Ring.bytes_each(plan.spec), mapped=plan.folder is not None)
        steps = Ring(cfg.capacity, plan.num_envs, plan.spec, **common)
    if cfg.priority > 0:
        return Prioritised(steps, alpha=cfg.priority, folder=plan.folder)
    if rule is None or isinstance(steps, Frames):
        return steps
    assert plan.spec.goal is not None  # a rule needs goals
    strategy: Any = plan.hindsight
    return Hindsight(steps, plan.spec.goal, rule, strategy=strategy, k=plan.hindsight_k, folder=plan.folder)
