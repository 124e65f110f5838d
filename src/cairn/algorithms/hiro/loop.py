"""The loop of a hierarchy: subgoals are chosen, steps taken and stored, and each level learns at its own pace."""

from __future__ import annotations

import numpy as np
import torch

from cairn.algorithms.hiro.agent import HIRO
from cairn.algorithms.hiro.segments import Segments
from cairn.algorithms.loops import uniform
from cairn.core.types import Array, Step
from cairn.runs.run import Run
from cairn.vector.protocol import Vector

RECENT = 0.01  # weight of a new window in the running figures


def hierarchy(agent: HIRO, envs: Vector, segments: Segments, run: Run) -> None:
    """As `off_policy`, with two levels: both learn while the environments take the next step."""
    cfg = agent.cfg
    obs = envs.reset(run.env_seeds())
    memory = agent.memory(envs.num_envs)
    subgoals = Subgoals(cfg.near)
    while run.going():
        agent.progress = run.progress
        random_subgoals = run.step < cfg.high.learning_starts and cfg.freeze != "high"
        action = (
            agent.act(
                torch.from_numpy(obs).to(run.device), explore=True, memory=memory, random_subgoals=random_subgoals
            )
            .cpu()
            .numpy()
        )
        if run.step < cfg.low.learning_starts and cfg.freeze != "low":
            action = uniform(agent.spec, envs.num_envs, segments.generator)
        asked, target = memory.asked.cpu().numpy(), memory.target.cpu().numpy()
        envs.send(action)
        learn(agent, segments, run)
        step = envs.recv()
        closed = segments.add(obs, action, step, asked)
        subgoals.note(step.next_obs[closed][:, agent.positions], target[closed])
        run.log(subgoals.figures)
        run.advance(step, step.valid)
        memory.forget(ended(step))
        obs = step.obs
        if run.house_keeping(agent, envs.restarts, segments):
            obs = envs.reset(run.env_seeds())
            memory.forget(np.ones(envs.num_envs, bool))
            subgoals = Subgoals(cfg.near)


def learn(agent: HIRO, segments: Segments, run: Run) -> None:
    """As many updates of each level as the steps taken allow."""
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


def ended(step: Step) -> Array:
    out: Array = step.terminated | step.truncated | ~step.valid
    return out


class Subgoals:
    """What became of the subgoals lately asked for: the share reached, and how far off the others ended."""

    def __init__(self, near: float) -> None:
        self.near = near
        self.figures: dict[str, torch.Tensor] = {}

    def note(self, achieved: Array, target: Array) -> None:
        """Windows that closed: where they ended [n, d], and where they were to end."""
        for apart in np.linalg.norm(achieved - target, axis=-1).tolist():
            self._mix("hiro/subgoal_reached", float(apart <= self.near))
            if apart > self.near:
                self._mix("hiro/subgoal_miss", apart)

    def _mix(self, name: str, value: float) -> None:
        old = self.figures.get(name)
        new = torch.tensor(value)
        self.figures[name] = new if old is None else torch.lerp(old, new, RECENT)
