"""The two loops. Data walks one way: act, step, store, update, log."""

from __future__ import annotations

import numpy as np
import torch

from cairn.core.agent import Agent, OffPolicy, OnPolicy
from cairn.core.device import one_thread
from cairn.core.types import Array, Box, Rollout, Spec
from cairn.nets.cnn import sees_images
from cairn.replay.prioritised import Prioritised
from cairn.replay.protocol import Replay
from cairn.runs.run import Run
from cairn.vector.protocol import Vector

TOGETHER = 8  # batches drawn at once, at most


def on_policy(agent: OnPolicy, envs: Vector, run: Run) -> None:
    """Collect a rollout, learn from it, forget it."""
    obs = envs.reset(run.env_seeds())
    while run.going():
        if agent.horizon == 0:
            obs = envs.reset(run.env_seeds())
        with one_thread(unless=sees_images(agent.spec)):
            rollout, obs = collect(agent, envs, obs, run)
        if rollout is None:  # interrupted: what was collected is dropped
            break
        agent.progress = run.progress
        if rollout.valid.any():
            run.log(agent.update(rollout))
        if run.house_keeping(agent, envs.restarts):
            obs = envs.reset(run.env_seeds())


def collect(agent: OnPolicy, envs: Vector, obs: Array, run: Run) -> tuple[Rollout | None, Array]:
    """`horizon` steps of every environment; where it is 0, one whole episode of each, steps past it not valid."""
    rows: list[tuple[Array, ...]] = []
    seen: list[torch.Tensor] = []  # observations, where the agent is
    open_ = np.ones(envs.num_envs, bool)
    while len(rows) < agent.horizon if agent.horizon else open_.any():
        if run.interrupted:
            return None, obs
        seen.append(torch.from_numpy(obs).to(run.device))
        action = agent.act(seen[-1], explore=True).cpu().numpy()
        step = envs.step(action)
        valid = step.valid & open_ if agent.horizon == 0 else step.valid
        if rows and not step.valid.all():
            rows[-1][3][~step.valid] = True  # a lost step cuts the episode it belonged to
        rows.append((action, step.reward, step.terminated, step.truncated, valid, step.next_obs))
        run.advance(step, valid)
        open_ &= ~(step.terminated | step.truncated)
        obs = step.obs
    *columns, after = zip(*rows, strict=True)
    apart = np.stack(columns[2]) | np.stack(columns[3])
    apart[-1] = True  # only what ends and the last row led to crosses to the device: the rest is the next row
    block = torch.stack(seen)
    next_obs = torch.cat([block[1:], block[-1:]])
    kept = np.stack([after[t][n] for t, n in np.argwhere(apart)])
    next_obs[torch.from_numpy(apart).to(run.device)] = torch.from_numpy(kept).to(run.device)
    rest = [torch.from_numpy(np.stack(column)).to(run.device) for column in columns]
    rollout = Rollout(block, rest[0], rest[1], next_obs, rest[2], rest[3], rest[4])
    if run.checkpoint_due():
        rollout.truncated[-1] = True  # the environments are reset after it
    return rollout, obs


def off_policy(agent: OffPolicy, envs: Vector, replay: Replay, run: Run) -> None:
    """Act, store, and learn `updates_per_step` times for every step taken, while the environments take the next."""
    cfg = agent.cfg
    obs = envs.reset(run.env_seeds())
    while run.going():
        agent.progress = run.progress
        if run.step < cfg.learning_starts:
            action = uniform(agent.spec, envs.num_envs, replay.generator)
        else:
            action = explore(agent, obs, run)
        envs.send(action)
        learn(agent, replay, run)
        step = envs.recv()
        replay.add(obs, action, step)
        run.advance(step, step.valid)
        obs = step.obs
        if run.house_keeping(agent, envs.restarts, replay):
            obs = envs.reset(run.env_seeds())


def learn(agent: OffPolicy, replay: Replay, run: Run) -> None:
    """As many updates as the steps taken allow. Their batches are drawn together: nothing is stored in between."""
    cfg = agent.cfg
    due = int((run.step - cfg.learning_starts) * cfg.updates_per_step)
    while run.updates < due:
        count = 1 if isinstance(replay, Prioritised) else min(due - run.updates, TOGETHER)
        for batch in replay.sample(count * cfg.batch_size).to(run.device).split(count):
            run.updates += 1
            run.log(metrics := agent.update(batch))
        if isinstance(replay, Prioritised):
            replay.update_priorities(metrics["train/td_error"])  # type: ignore[arg-type]


def explore(agent: Agent, obs: Array, run: Run) -> Array:
    """The agent's own noisy actions."""
    return agent.act(torch.from_numpy(obs).to(run.device), explore=True).cpu().numpy()


def uniform(spec: Spec, count: int, generator: torch.Generator) -> Array:
    """Random actions, as exploration begins with."""
    if isinstance(spec.action, Box):
        return torch.empty(count, spec.action.dim).uniform_(-1, 1, generator=generator).numpy()
    return torch.randint(spec.action.n, (count,), generator=generator).numpy()
