"""The off-policy loop: act, store, and learn from replayed transitions while the environments step."""

from __future__ import annotations

from typing import Any

from cairn.collect.protocol import Collector, Order
from cairn.core.agent import Agent, OffPolicy
from cairn.core.device import copied_to, roomy
from cairn.core.learners import part_of
from cairn.core.memory import must_fit
from cairn.core.run import TrainingRun
from cairn.replay.frames import Frames
from cairn.replay.hindsight import Hindsight
from cairn.replay.prioritised import Prioritised
from cairn.replay.protocol import Replay, ReplayPlan
from cairn.replay.ring import Ring
from cairn.replay.sequences import SequenceReplay


def off_policy(agent: OffPolicy, collector: Collector, replay: Replay, run: TrainingRun) -> None:
    """Train with `updates_per_step` updates per step taken, after `learning_starts` random steps."""
    cfg, seeds = agent.cfg, tuple(run.env_seeds())
    while run.going():
        agent.progress = run.progress
        order = Order(collector.rows, run.progress, random=run.step < cfg.learning_starts, seeds=seeds)
        collector.begin(agent, order, updates=run.updates, generator=replay.generator)
        learn(agent, replay, run)
        for obs, action, step, recorded in collector.end():
            replay.add(obs, action, step, recorded)
            run.advance(step, step.valid)
        run.meet()
        if metrics := collector.metrics(run.updates):
            run.log(metrics)
        fresh = run.house_keeping(agent, collector.restarts, replay)
        seeds = tuple(run.env_seeds()) if fresh else ()


def learn(agent: OffPolicy, replay: Replay, run: TrainingRun) -> None:
    """Do the updates that the steps taken so far allow. Several batches are sampled at once."""
    cfg = agent.cfg
    size = part_of(cfg.batch_size)
    due = int((run.step - cfg.learning_starts) * cfg.updates_per_step)
    while run.updates < due:
        count = min(due - run.updates, replay.batches_at_once)
        for batch in replay.sample(count * size).to(run.device).split(count):
            run.updates += 1
            run.log(metrics := agent.update(batch))
        replay.after_update(metrics)


def make_replay(agent: Agent, plan: ReplayPlan) -> Replay:
    """A ring of transitions, or of frames if observations are stacked; prioritised or with hindsight if set."""
    cfg: Any = agent.cfg
    hindsight = plan.hindsight != "off"
    rule = plan.goal_rule() if hindsight else None  # an error here must come before a file is made
    steps = _steps(cfg, plan, part_of(cfg.capacity))
    if cfg.priority > 0:
        return Prioritised(steps, alpha=cfg.priority, folder=plan.folder)
    if rule is None or isinstance(steps, Frames):
        return steps
    assert plan.spec.goal is not None  # a rule needs goals
    strategy: Any = plan.hindsight
    return Hindsight(steps, plan.spec.goal, rule, strategy=strategy, k=plan.hindsight_k, folder=plan.folder)


def make_sequences(agent: Any, plan: ReplayPlan) -> Replay:
    """A replay of sequences for an agent with memory, of at least one sequence per environment; else `make_replay`."""
    if agent.core is None:
        return make_replay(agent, plan)
    cfg, width = agent.cfg, agent.core.width
    assert plan.hindsight == "off"  # a run refuses it: stored states have read the old goals
    capacity = max(cfg.capacity, plan.num_envs * (cfg.burn_in + cfg.sequence))
    steps = _steps(cfg, plan, capacity, beside=4 * width)
    return SequenceReplay(steps, length=cfg.sequence, burn_in=cfg.burn_in, width=width, folder=plan.folder)


def _steps(cfg: Any, plan: ReplayPlan, capacity: int, *, beside: int = 0) -> Ring | Frames:
    """Where steps are stored; `beside` are the bytes that are kept of each elsewhere."""
    common: Any = {"gamma": cfg.gamma, "n": cfg.n_step, "generator": plan.generator}
    common |= {"slack": plan.slack, "folder": plan.folder}
    mapped = plan.folder is not None
    stored = capacity + plan.slack * plan.num_envs
    if plan.spec.stack == 1:
        must_fit(capacity, Ring.bytes_each(plan.spec) + beside, mapped=mapped)
        # An agent with memory reads sequences, of which there is no copy.
        device = "cpu" if beside else copied_to(plan.device, stored * Ring.bytes_each(plan.spec))
        return Ring(capacity, plan.num_envs, plan.spec, device=device, **common)
    must_fit(capacity, Frames.bytes_each(plan.spec, cfg.frame_bytes) + beside, mapped=mapped)  # each frame once
    size = (capacity + 2 * plan.slack * plan.num_envs) * Frames.bytes_each(plan.spec)  # of the GPU's copy
    frames = {"frame_bytes": cfg.frame_bytes, "device": roomy(plan.device, size)}
    return Frames(capacity, plan.num_envs, plan.spec, **frames, **common)
