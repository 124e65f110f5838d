"""The on-policy loop: collect a rollout, learn from it, discard it."""

from __future__ import annotations

from cairn.collect.protocol import Collector, Order
from cairn.core.agent import OnPolicy
from cairn.core.run import TrainingRun


def on_policy(agent: OnPolicy, collector: Collector, replay: None, run: TrainingRun) -> None:
    """Train on rollouts of `agent.horizon` steps per environment, or of one whole episode each if that is 0."""
    seeds = tuple(run.env_seeds())
    while run.going():
        agent.progress = run.progress
        rollout = collector.rollout(agent, Order(agent.horizon, run.progress, seeds=seeds), run)
        if rollout is None:  # interrupted
            break
        run.meet(rollout.valid)
        agent.progress = run.progress
        if run.checkpoint_due():
            rollout.truncated[-1] = True  # the environments are reset after a checkpoint
        if rollout.valid.any():
            run.log(agent.update(rollout))
        run.log(collector.metrics(None))
        fresh = run.house_keeping(agent, collector.restarts)
        seeds = tuple(run.env_seeds()) if fresh or agent.horizon == 0 else ()
