"""Experience from environments that this process steps, itself or through worker processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from cairn.collect.protocol import Order, Played, ended
from cairn.core.agent import Agent, OnPolicy
from cairn.core.device import one_thread
from cairn.core.random_actions import random_actions
from cairn.core.run import TrainingRun
from cairn.core.types import Array, Rollout
from cairn.nets.cnn import has_images
from cairn.vector.protocol import Vector


class LocalCollector:
    """A `Collector` over a vector, with its current observations. An off-policy chunk is one step."""

    rows = 1

    def __init__(self, envs: Vector, device: str) -> None:
        self.envs, self.device = envs, device
        self.spec, self.num_envs = envs.spec, envs.num_envs
        self.obs: Array = np.zeros(0)
        self.memory: Any = None
        self.nothing: Array = np.zeros((self.num_envs, 0), np.float32)  # what an agent without memory records
        self.acted: tuple[Array, Array, Array] | None = None  # obs, action, recorded of the pending step

    @property
    def restarts(self) -> int:
        return self.envs.restarts

    def begin(self, agent: Agent, order: Order, *, updates: int, generator: Generator) -> None:
        if order.seeds:
            self._reset(agent, order.seeds)
        recorded = self.nothing
        if self.memory is not None or not order.random:  # a hierarchy records subgoals of random steps too
            action = self._act(agent, torch.from_numpy(self.obs).to(self.device), order)
        if order.random:
            action = random_actions(agent.spec, self.obs, generator)
        if self.memory is not None:
            recorded = self.memory.recorded()
        self.envs.send(action)
        self.acted = self.obs, action, recorded

    def end(self) -> list[Played]:
        assert self.acted is not None  # `begin` was called
        step = self.envs.recv()
        obs, action, recorded = self.acted
        if self.memory is not None:
            self.memory.forget(ended(step))
        self.obs = step.obs
        return [Played(obs, action, step, recorded)]

    def _reset(self, agent: Agent, seeds: tuple[int, ...]) -> None:
        self.obs = self.envs.reset(seeds)
        self.memory = agent.memory(self.num_envs)

    def _act(self, agent: Agent, obs: Tensor, order: Order) -> Array:
        if self.memory is None:
            return agent.act(obs, explore=True).cpu().numpy()
        return agent.act(obs, explore=True, memory=self.memory, **order.act).cpu().numpy()

    def rollout(self, agent: OnPolicy, order: Order, run: TrainingRun) -> Rollout | None:
        with one_thread(unless=has_images(agent.spec)):
            return self._rollout(agent, order, run)

    def _rollout(self, agent: OnPolicy, order: Order, run: TrainingRun) -> Rollout | None:
        if order.seeds:
            self._reset(agent, order.seeds)
        rows: list[tuple[Array, ...]] = []
        seen: list[Tensor] = []  # observations, on the agent's device
        open_ = np.ones(self.num_envs, bool)
        while len(rows) < order.rows if order.rows else open_.any():
            if run.interrupted:  # the rollout is dropped
                return None
            seen.append(torch.from_numpy(self.obs).to(self.device))
            action = self._act(agent, seen[-1], order)
            recorded = self.nothing if self.memory is None else self.memory.recorded()
            step = self.envs.step(action)
            valid = step.valid & open_ if order.rows == 0 else step.valid
            if rows and not step.valid.all():
                rows[-1][3][~step.valid] = True  # a lost step truncates its episode
            rows.append((action, step.reward, step.terminated, step.truncated, valid, recorded, step.next_obs))
            run.advance(step, valid)
            if self.memory is not None:
                self.memory.forget(ended(step))
            open_ &= ~(step.terminated | step.truncated)
            self.obs = step.obs
        return _stacked(seen, rows, self.device)

    def metrics(self, updates: int | None) -> Mapping[str, Tensor]:
        return {}

    def close(self) -> None:
        self.envs.close()


def _stacked(seen: list[Tensor], rows: list[tuple[Array, ...]], device: str) -> Rollout:
    """The rows of a rollout as tensors [T, N, ...]."""
    *columns, after = zip(*rows, strict=True)
    apart = np.stack(columns[2]) | np.stack(columns[3])
    apart[-1] = True  # only these successors must be copied to the device: the others are the next row
    obs = torch.stack(seen)
    next_obs = torch.cat([obs[1:], obs[-1:]])
    kept = np.stack([after[t][n] for t, n in np.argwhere(apart)])
    next_obs[torch.from_numpy(apart).to(device)] = torch.from_numpy(kept).to(device)
    action, reward, terminated, truncated, valid, state = (torch.from_numpy(np.stack(x)).to(device) for x in columns)
    return Rollout(obs, action, reward, next_obs, terminated, truncated, valid, state if state.shape[2] else None)
