"""Experience from samplers: Ray actors, each with environments and a copy of the agent, that send chunks of steps.

Samplers run on this machine or on a cluster. Off-policy, they play the next chunk while the learner learns, so their
weights are older by what it learns meanwhile, at most one chunk. The log says by how much (`ray/staleness`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from cairn.collect.chunk import Chunk, joined
from cairn.collect.protocol import Order, Played, ended
from cairn.core.agent import Agent, OnPolicy
from cairn.core.errors import EnvError
from cairn.core.random_actions import random_actions
from cairn.core.run import TrainingRun
from cairn.core.seeding import derive, derive_many
from cairn.core.state import pack, unpack
from cairn.core.types import Array, Rollout, Spec
from cairn.vector.checks import close_env
from cairn.vector.choose import make_vector
from cairn.vector.deadline import STARTS_WITHIN
from cairn.vector.protocol import EnvMaker
from cairn.vector.ray_actors import answer_of, connect
from cairn.vector.restarts import Restarts
from cairn.vector.worker_pool import shares

# About CHUNK steps of all environments per chunk, but at least LEAST per environment: a message costs as much as six
# steps of a small task (`python -m benchmarks.speed.cluster scale`).
CHUNK, LEAST = 256, 64

MakeAgent = Callable[..., Agent]  # called in the sampler, as make_agent(seed=...)


class Sampler:
    """The actor: its environments and its copy of the agent."""

    def __init__(self, makers: EnvMaker, count: int, make_agent: MakeAgent, seed: int) -> None:
        torch.set_num_threads(1)
        self.envs: Any = make_vector(makers, count, backend="sync", timeout=0)
        self.agent: Any = make_agent(seed=seed)
        self.memory = self.agent.memory(count)
        self.generator = torch.Generator().manual_seed(seed)
        self.obs: Array = np.zeros(0)

    def renew(self) -> tuple[int, str] | None:
        """Remake environments whose resets depend on earlier use. Returns (environment, fault), or None."""
        try:
            self.envs.renew()
        except EnvError as error:
            return error.index, error.what
        return None

    def _seed(self, seeds: Sequence[int]) -> None:
        """Seed everything random, so that what follows a reset depends on its seeds alone, also after a resume."""
        self.generator.manual_seed(derive(seeds[0], "sampler"))
        for name, part in self.agent.training_parts.items():
            if isinstance(part, torch.Generator):
                part.manual_seed(derive(seeds[0], "sampler", name))

    def play(self, weights: dict[str, Array], order: Order) -> Chunk | tuple[int, str]:
        """Load the weights and play; the chunk, or (environment, fault)."""
        try:
            return self._play(weights, order)
        except EnvError as error:
            return error.index, error.what

    def _play(self, weights: dict[str, Array], order: Order) -> Chunk:
        agent, envs = self.agent, self.envs
        unpack(agent.policy_parts, {name: torch.from_numpy(value.copy()) for name, value in weights.items()})
        agent.progress = order.progress
        count = envs.num_envs
        if order.seeds:
            self._seed(order.seeds)
            self.obs = envs.reset(order.seeds)
            if self.memory is not None:
                self.memory.forget(np.ones(count, bool))
        seen, after, episodes = [self.obs], [self.obs[:0]], []
        rows: list[tuple[Array, ...]] = []
        open_ = np.ones(count, bool)
        recorded = np.zeros((count, 0), np.float32)
        while len(rows) < order.rows if order.rows else open_.any():
            action = self._act(order)
            if self.memory is not None:
                recorded = self.memory.recorded()
            step = envs.step(action)
            if self.memory is not None:
                self.memory.forget(ended(step))
            valid = step.valid & open_ if order.rows == 0 else step.valid
            rows.append((action, step.reward, step.terminated & valid, step.truncated & valid, valid, recorded))
            if (over := step.terminated | step.truncated).any():
                episodes += [(len(rows) - 1, episode) for episode in step.episodes if valid[episode.env]]
                after.append(step.next_obs[over & valid])
                open_ &= ~over
            self.obs = step.obs
            seen.append(self.obs)
        action, reward, terminated, truncated, valid, recorded = (np.stack(c) for c in zip(*rows, strict=True))
        ends = (terminated, truncated, valid, np.concatenate(after))
        return Chunk(np.stack(seen), action, reward, *ends, recorded, tuple(episodes))

    def _act(self, order: Order) -> Array:
        obs, spec = torch.from_numpy(self.obs), self.agent.spec
        action: Array = np.zeros(0)
        if self.memory is not None:  # a hierarchy records subgoals of random steps too
            action = self.agent.act(obs, explore=True, memory=self.memory, **order.act).numpy()
        elif not order.random:
            action = self.agent.act(obs, explore=True).numpy()
        return random_actions(spec, self.obs, self.generator) if order.random else action


class SamplerPool:
    """A `Collector` of samplers. Lost samplers are replaced; the steps they owed are counted as dropped.

    `asked` = `used` + `dropped` whenever no chunk is pending.
    """

    def __init__(
        self,
        task: EnvMaker,
        num_envs: int,
        make_agent: Callable[[Spec], MakeAgent],
        *,
        workers: int,
        seed: int,
        timeout: float,
        address: str = "",
        device: str = "cpu",
    ) -> None:
        probe = make_vector(task, 1, backend="sync")
        self.spec = probe.spec
        close_env(probe)
        self.task, self.make_agent, self.seed, self.device = task, make_agent(self.spec), seed, device
        self.num_envs, self.timeout = num_envs, timeout
        self.spans = shares(num_envs, workers)
        count = len(self.spans)
        self.samplers = Restarts(count, happened="its sampler was replaced")
        self.new = [True] * count  # samplers that have never been reset
        self.ray = connect(count, address)
        self.kind = self.ray.remote(num_cpus=1, max_restarts=0)(Sampler)
        self.actors = [self._new_sampler(i) for i in range(count)]
        self.pending: list[Any] = []
        self.order = Order(0)
        self.recorded = 0  # width of what the agent's memory records per step
        self.version, self.weights = -1, None  # of the weights that were sent last; their reference
        self.asked = self.used = self.dropped = 0  # steps

    @property
    def restarts(self) -> int:
        return self.samplers.total

    @property
    def rows(self) -> int:
        return max(CHUNK // self.num_envs, LEAST)

    def begin(self, agent: Agent, order: Order, *, updates: int, generator: Generator) -> None:
        self.ask(agent, updates, order)

    def end(self) -> list[Played]:
        return self.answer().played()

    def rollout(self, agent: OnPolicy, order: Order, run: TrainingRun) -> Rollout | None:
        self.ask(agent, run.step, order)
        chunk = self.answer()
        for step in chunk.steps():
            run.advance(step, step.valid)
        return chunk.rollout(self.device)

    def metrics(self, updates: int | None) -> dict[str, Tensor]:
        """Steps lost with their samplers, and by how many updates the samplers' weights are behind."""
        counted = {"steps_dropped": self.dropped}
        if updates is not None:
            counted["staleness"] = updates - self.version
        return {f"ray/{name}": torch.tensor(float(value)) for name, value in counted.items()}

    def ask(self, agent: Agent, version: int, order: Order) -> None:
        """Make every sampler play with the agent's current weights, which `version` identifies."""
        if self.version != version:
            tensors = {name: value.numpy() for name, value in pack(agent.policy_parts).items()}
            self.version, self.weights = version, self.ray.put(tensors)
        memory = agent.memory(1)
        self.recorded = 0 if memory is None else memory.recorded().shape[1]
        self.order = order
        self.asked += order.rows * self.num_envs
        self._start(range(len(self.actors)))
        self.pending = [self._ordered(i) for i in range(len(self.actors))]

    def answer(self) -> Chunk:
        """The steps that were asked for. Those of a lost sampler are invalid."""
        parts = self._parts()
        rows = self.order.rows or max(len(part.reward) for part in parts)
        whole = joined(parts, rows)
        used = int(whole.valid.sum())
        self.used += used
        if self.order.rows == 0:
            self.asked += used  # the lengths of episodes are known only now
        else:
            self.dropped += whole.valid.size - used
        self.pending = []
        return whole

    def _new_sampler(self, index: int) -> Any:
        start, stop = self.spans[index]
        seed = derive(self.seed, "sampler", index, self.restarts)
        return self.kind.remote(self.task, stop - start, self.make_agent, seed)

    def _start(self, which: Sequence[int]) -> None:
        """Wait for samplers that are new or will be reset: making environments has its own time limit."""
        due = [i for i in which if self.new[i] or self.order.seeds]
        begun = {i: self.actors[i].renew.remote() for i in due}
        for index in due:
            while (error := self._failure(index, begun[index], STARTS_WITHIN if self.timeout else 0)) is not None:
                self._replace(index, error)
                begun[index] = self.actors[index].renew.remote()

    def _failure(self, index: int, reference: Any, timeout: float) -> EnvError | None:
        """Why a sampler failed; None where it did not."""
        try:
            self._result(index, reference, timeout, late="was not made")
        except EnvError as error:
            return error
        return None

    def _result(self, index: int, reference: Any, timeout: float, late: str = "did not answer") -> Any:
        """What a sampler returned. Raises EnvError where it, or one of its environments, failed."""
        start = self.spans[index][0]
        result = answer_of(self.ray, reference, start, timeout, actor="sampler", late=late)
        if isinstance(result, tuple):  # (environment, what went wrong)
            raise EnvError(start + result[0], result[1])
        return result

    def _ordered(self, index: int) -> Any:
        start, stop = self.spans[index]
        seeds = self.order.seeds[start:stop]
        if self.new[index] and not seeds:
            seeds = tuple(derive_many(self.seed, stop - start, "restart", self.restarts, start))
        self.new[index] = False
        return self.actors[index].play.remote(self.weights, self.order._replace(seeds=seeds))

    def _parts(self) -> list[Chunk]:
        """The chunks of all samplers, awaited together; if any fails, each is awaited separately."""
        try:
            found = self.ray.get(self.pending, timeout=self.timeout or None)
        except (self.ray.exceptions.GetTimeoutError, self.ray.exceptions.RayActorError):
            found = []  # a late one is awaited once more: it may only be slow
        if found and all(isinstance(part, Chunk) for part in found):
            for index in range(len(found)):
                self.samplers.answered(index)
            return list(found)
        return [self._part(i) for i in range(len(self.actors))]

    def _part(self, index: int) -> Chunk:
        start, stop = self.spans[index]
        try:
            chunk: Chunk = self._result(index, self.pending[index], self.timeout)
            self.samplers.answered(index)
            return chunk
        except EnvError as error:
            self._replace(index, error)
        if self.order.rows:
            return self._nothing(stop - start)
        self._start([index])
        self.pending[index] = self._ordered(index)  # whole episodes are played again, not dropped
        return self._part(index)

    def _replace(self, index: int, error: EnvError) -> None:
        self.samplers.failed(index, error)
        self.ray.kill(self.actors[index])
        self.actors[index], self.new[index] = self._new_sampler(index), True

    def _nothing(self, count: int) -> Chunk:
        rows, spec = self.order.rows, self.spec
        obs = np.zeros((rows + 1, count, *spec.obs_shape), spec.obs_dtype)
        action = np.zeros((rows, count, *spec.action_shape), spec.action_dtype)
        none = np.zeros((rows, count), bool)
        recorded = np.zeros((rows, count, self.recorded), np.float32)
        return Chunk(obs, action, np.zeros((rows, count), np.float32), none, none, none, obs[0, :0], recorded)

    def close(self) -> None:
        for actor in self.actors:
            self.ray.kill(actor)
