"""Training with samplers elsewhere: each has environments and a copy of the agent, and sends what it played in chunks.

A sampler is an actor of Ray's, on this machine or on any of a cluster. The learner stores the chunks as if it had
played them, in the same replay and with the same agents. Off-policy, the samplers play the next chunk while the learner
learns: their copies are older by what it learned meanwhile, one chunk at most, and the log says by how much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch

from cairn.algorithms.hiro.loop import Subgoals, ended
from cairn.algorithms.hiro.loop import learn as learn_levels
from cairn.algorithms.hiro.segments import Segments
from cairn.algorithms.loops import learn, uniform
from cairn.algorithms.registry import HIRO, AgentConfig, build
from cairn.core.agent import Agent, OnPolicy
from cairn.core.errors import EnvError
from cairn.core.seeding import derive, derive_many
from cairn.core.state import pack, unpack
from cairn.core.types import Array, Episode, Rollout, Spec, Step
from cairn.replay.protocol import Replay
from cairn.runs.run import Run
from cairn.vector.checks import shut
from cairn.vector.choose import make_vector
from cairn.vector.deadline import STARTS_WITHIN
from cairn.vector.protocol import EnvMaker
from cairn.vector.ray_actors import connect
from cairn.vector.worker_pool import MAX_RESTARTS_IN_A_ROW, shares

# Steps of all environments in one chunk, roughly; but so many of each: a message costs as much as six steps of a small
# task (`python -m benchmarks.speed.cluster scale`).
CHUNK, LEAST = 256, 64


@dataclass(frozen=True)
class Order:
    """What samplers are to play next, and how."""

    rows: int  # steps of each environment; 0: one whole episode of each
    progress: float = 0.0  # of the run
    random: bool = False  # act at random
    random_subgoals: bool = False  # a hierarchy's subgoals at random
    seeds: tuple[int, ...] = ()  # reset with these first; () goes on


@dataclass(frozen=True)
class Chunk:
    """T steps of K environments. obs [T + 1, K, ...] has what each saw, and saw last; the rest is [T, K, ...].

    `after` holds the successor of each step that ended an episode, in the order of `ends`; the others' is the next obs.
    target: what a hierarchy asked for; episodes: (row, episode) of those that ended
    """

    obs: Array
    action: Array
    reward: Array
    terminated: Array
    truncated: Array
    valid: Array
    after: Array
    target: Array
    episodes: tuple[tuple[int, Episode], ...] = ()

    @property
    def ends(self) -> Array:
        out: Array = self.terminated | self.truncated
        return out

    def next_obs(self) -> Array:
        out = self.obs[1:].copy()
        out[self.ends] = self.after
        return out

    def steps(self) -> list[Step]:
        """As the loops have them."""
        next_obs, told = self.next_obs(), [[] for _ in self.reward]  # type: ignore[var-annotated]
        for row, episode in self.episodes:
            told[row].append(episode)
        return [
            Step(
                self.obs[t + 1],
                next_obs[t],
                self.reward[t],
                self.terminated[t],
                self.truncated[t],
                self.valid[t],
                tuple(told[t]),
            )
            for t in range(len(self.reward))
        ]


def joined(parts: Sequence[Chunk], rows: int) -> Chunk:
    """Side by side, the shorter ones filled up with rows that are no steps."""
    parts = [_filled(part, rows) for part in parts]
    first = np.cumsum([0, *(part.reward.shape[1] for part in parts)])
    episodes = tuple(
        (row, replace(episode, env=episode.env + int(start)))
        for part, start in zip(parts, first, strict=False)
        for row, episode in part.episodes
    )
    columns = {
        f.name: np.concatenate([getattr(part, f.name) for part in parts], 1)
        for f in fields(Chunk)
        if f.name not in ("after", "episodes")
    }
    # `after` goes by rows first: lay each part's out, then read all of them in one go
    next_obs = np.concatenate([part.next_obs() for part in parts], 1)
    ends = columns["terminated"] | columns["truncated"]
    return Chunk(**columns, after=next_obs[ends], episodes=episodes)


def _filled(part: Chunk, rows: int) -> Chunk:
    short = rows - len(part.reward)
    if short == 0:
        return part

    def more(column: Array) -> Array:
        return np.concatenate([column, np.zeros((short, *column.shape[1:]), column.dtype)])

    return Chunk(
        np.concatenate([part.obs, np.repeat(part.obs[-1:], short, 0)]),
        more(part.action),
        more(part.reward),
        more(part.terminated),
        more(part.truncated),
        more(part.valid),
        part.after,
        more(part.target),
        part.episodes,
    )


class Sampler:
    """A sampler's side: its environments and its copy of the agent."""

    def __init__(self, makers: EnvMaker, count: int, cfg: AgentConfig, spec: Spec, seed: int) -> None:
        torch.set_num_threads(1)
        self.envs: Any = make_vector(makers, count, backend="sync", timeout=0)
        self.agent: Any = build(cfg, spec, seed=seed, device="cpu")
        self.memory = self.agent.memory(count) if isinstance(self.agent, HIRO) else None
        self.generator = torch.Generator().manual_seed(seed)
        self.obs: Array = np.zeros(0)

    def renew(self) -> tuple[int, str] | None:
        """Make environments that remember anew: which failed and how, or None. A new one answers once it is there."""
        try:
            self.envs.renew()
        except EnvError as error:
            return error.index, error.what
        return None

    def _seed(self, seeds: Sequence[int]) -> None:
        """What is drawn from a reset on depends on its seeds alone, in a run that is resumed too."""
        self.generator.manual_seed(derive(seeds[0], "sampler"))
        for name, part in self.agent.training_parts.items():
            if isinstance(part, torch.Generator):
                part.manual_seed(derive(seeds[0], "sampler", name))

    def play(self, weights: dict[str, Array], order: Order) -> Chunk | tuple[int, str]:
        """The chunk, or which environment failed and how."""
        try:
            return self._play(weights, order)
        except EnvError as error:
            return error.index, error.what

    def _play(self, weights: dict[str, Array], order: Order) -> Chunk:
        agent, envs, spec = self.agent, self.envs, self.agent.spec
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
        target = np.zeros((count, 0), np.float32)
        while len(rows) < order.rows if order.rows else open_.any():
            obs = torch.from_numpy(self.obs)
            if self.memory is not None:  # at random too its subgoals are chosen
                action = agent.act(obs, explore=True, memory=self.memory, random_subgoals=order.random_subgoals).numpy()
            elif not order.random:
                action = agent.act(obs, explore=True).numpy()
            if order.random:
                action = uniform(spec, count, self.generator)
            if self.memory is not None:
                target = self.memory.asked.numpy().copy()
            step = envs.step(action)
            if self.memory is not None:
                self.memory.forget(ended(step))
            valid = step.valid & open_ if order.rows == 0 else step.valid
            rows.append((action, step.reward, step.terminated & valid, step.truncated & valid, valid, target))
            if (over := step.terminated | step.truncated).any():
                episodes += [(len(rows) - 1, episode) for episode in step.episodes if valid[episode.env]]
                after.append(step.next_obs[over & valid])
                open_ &= ~over
            self.obs = step.obs
            seen.append(self.obs)
        action, reward, terminated, truncated, valid, target = (np.stack(c) for c in zip(*rows, strict=True))
        return Chunk(
            np.stack(seen),
            action,
            reward,
            terminated,
            truncated,
            valid,
            np.concatenate(after),
            target,
            tuple(episodes),
        )


class SamplerPool:
    """The samplers, as the learner knows them. One that is lost is replaced, and the chunk it owed counted as dropped.

    Steps asked for are used or dropped, or under way.
    """

    def __init__(
        self,
        task: EnvMaker,
        num_envs: int,
        cfg: AgentConfig,
        *,
        workers: int,
        seed: int,
        timeout: float,
        address: str = "",
    ) -> None:
        probe = make_vector(task, 1, backend="sync")
        self.spec = probe.spec
        shut(probe)
        self.task, self.cfg, self.seed = task, cfg, seed
        self.num_envs, self.timeout, self.restarts = num_envs, timeout, 0
        self.spans = shares(num_envs, workers)
        count = len(self.spans)
        self.failures = [0] * count  # of each sampler, since its last chunk
        self.new = [True] * count  # those that have never been reset
        self.ray = connect(count, address)
        self.kind = self.ray.remote(num_cpus=1, max_restarts=0)(Sampler)
        self.actors = [self._hired(i) for i in range(count)]
        self.pending: list[Any] = []
        self.order = Order(0)
        self.axes = 0  # of a hierarchy's subgoals
        self.version, self.weights = -1, None  # after how many updates, and where they lie
        self.asked = self.used = self.dropped = 0  # steps

    @property
    def books(self) -> dict[str, torch.Tensor]:
        told = {"asked": self.asked, "used": self.used, "dropped": self.dropped}
        return {f"ray/steps_{name}": torch.tensor(float(value)) for name, value in told.items()}

    def ask(self, agent: Agent, updates: int, order: Order) -> None:
        """Have every sampler play on, with the agent as it is after so many updates."""
        if self.version != updates:
            tensors = {name: value.numpy() for name, value in pack(agent.policy_parts).items()}
            self.version, self.weights = updates, self.ray.put(tensors)
        self.axes = agent.dim if isinstance(agent, HIRO) else 0
        self.order = order
        self.asked += order.rows * self.num_envs
        self._start(range(len(self.actors)))
        self.pending = [self._ordered(i) for i in range(len(self.actors))]

    def answer(self) -> Chunk:
        """What was asked for. A sampler that was lost gives rows that are no steps."""
        parts = self._parts()
        rows = self.order.rows or max(len(part.reward) for part in parts)
        whole = joined(parts, rows)
        used = int(whole.valid.sum())
        self.used += used
        if self.order.rows == 0:
            self.asked += used  # how long an episode is, nobody knew
        else:
            self.dropped += whole.valid.size - used
        self.pending = []
        return whole

    def dismiss(self) -> None:
        """What is under way is no longer wanted."""
        self.dropped += self.order.rows * self.num_envs if self.pending else 0
        self.pending = []

    def _hired(self, index: int) -> Any:
        start, stop = self.spans[index]
        seed = derive(self.seed, "sampler", index, self.restarts)
        return self.kind.remote(self.task, stop - start, self.cfg, self.spec, seed)

    def _start(self, which: Sequence[int]) -> None:
        """Wait for samplers that are new or are to be reset: making environments is no part of their time to answer."""
        due = [i for i in which if self.new[i] or self.order.seeds]
        begun = {i: self.actors[i].renew.remote() for i in due}
        for index in due:
            while (fault := self._fault(index, begun[index])) is not None:
                self._replace(index, fault)
                begun[index] = self.actors[index].renew.remote()

    def _fault(self, index: int, answer: Any) -> EnvError | None:
        start = self.spans[index][0]
        try:
            found = self.ray.get(answer, timeout=STARTS_WITHIN if self.timeout else None)
        except self.ray.exceptions.GetTimeoutError:
            return EnvError(start, f"was not made within {STARTS_WITHIN:g} s")
        except self.ray.exceptions.RayActorError:
            return EnvError(start, "lost its sampler")
        return None if found is None else EnvError(start + found[0], found[1])

    def _ordered(self, index: int) -> Any:
        start, stop = self.spans[index]
        seeds = self.order.seeds[start:stop]
        if self.new[index] and not seeds:
            seeds = tuple(derive_many(self.seed, stop - start, "restart", self.restarts, start))
        self.new[index] = False
        return self.actors[index].play.remote(self.weights, replace(self.order, seeds=seeds))

    def _parts(self) -> list[Chunk]:
        """Of all samplers, in one go; where any fails, each by itself."""
        try:
            found = self.ray.get(self.pending, timeout=self.timeout or None)
        except (self.ray.exceptions.GetTimeoutError, self.ray.exceptions.RayActorError):
            found = []  # one that hangs is waited for once more: it may have been slow, not lost
        if found and all(isinstance(part, Chunk) for part in found):
            self.failures = [0] * len(found)
            return list(found)
        return [self._part(i) for i in range(len(self.actors))]

    def _part(self, index: int) -> Chunk:
        start, stop = self.spans[index]
        try:
            found = self.ray.get(self.pending[index], timeout=self.timeout or None)
            if isinstance(found, Chunk):
                self.failures[index] = 0
                return found
            fault = EnvError(start + found[0], found[1])
        except self.ray.exceptions.GetTimeoutError:
            fault = EnvError(start, f"did not answer within {self.timeout:g} s")
        except self.ray.exceptions.RayActorError:
            fault = EnvError(start, "lost its sampler")
        self._replace(index, fault)
        if self.order.rows:
            return self._nothing(stop - start)
        self._start([index])
        self.pending[index] = self._ordered(index)  # whole episodes are not left out: they are played again
        return self._part(index)

    def _replace(self, index: int, fault: EnvError) -> None:
        self.restarts += 1
        self.failures[index] += 1
        if self.failures[index] > MAX_RESTARTS_IN_A_ROW:
            raise EnvError(fault.index, f"{fault.what} (its sampler was replaced {MAX_RESTARTS_IN_A_ROW} times)")
        self.ray.kill(self.actors[index])
        self.actors[index], self.new[index] = self._hired(index), True

    def _nothing(self, count: int) -> Chunk:
        rows, spec = self.order.rows, self.spec
        obs = np.zeros((rows + 1, count, *spec.obs_shape), spec.obs_dtype)
        action = np.zeros((rows, count, *spec.action_shape), spec.action_dtype)
        none = np.zeros((rows, count), bool)
        target = np.zeros((rows, count, self.axes), np.float32)
        return Chunk(obs, action, np.zeros((rows, count), np.float32), none, none, none, obs[0, :0], target)

    def close(self) -> None:
        for actor in self.actors:
            self.ray.kill(actor)


# -- the loops


def rows_of(num_envs: int) -> int:
    """Steps of each environment in a chunk of off-policy training."""
    return max(CHUNK // num_envs, LEAST)


def loop(agent: Any, company: SamplerPool, replay: Replay | Segments | None, run: Run) -> None:
    on_policy(agent, company, run) if replay is None else off_policy(agent, company, replay, run)


def on_policy(agent: OnPolicy, company: SamplerPool, run: Run) -> None:
    """As `loops.on_policy`: nobody plays while the learner learns, for what they would play were of an old policy."""
    seeds = tuple(run.env_seeds())
    while run.going():
        company.ask(agent, run.step, Order(agent.horizon, run.progress, seeds=seeds))
        chunk, seeds = company.answer(), ()
        for step in chunk.steps():
            run.advance(step, step.valid)
        agent.progress = run.progress
        found = rollout(chunk, run.device)
        if run.checkpoint_due():
            found.truncated[-1] = True  # the environments are reset after it
        if chunk.valid.any():
            run.log(agent.update(found))
        run.log(company.books)
        if run.house_keeping(agent, company.restarts) or agent.horizon == 0:
            seeds = tuple(run.env_seeds())


def rollout(chunk: Chunk, device: str) -> Rollout:
    columns = (
        chunk.obs[:-1],
        chunk.action,
        chunk.reward,
        chunk.next_obs(),
        chunk.terminated,
        chunk.truncated,
        chunk.valid,
    )
    return Rollout(*(torch.from_numpy(np.ascontiguousarray(column)).to(device) for column in columns))


def off_policy(agent: Any, company: SamplerPool, replay: Replay | Segments, run: Run) -> None:
    """As `loops.off_policy` and `hierarchy`: the next chunk is played while the learner learns from those before."""
    levels = isinstance(replay, Segments)
    cfg = agent.cfg.low if levels else agent.cfg
    rows = rows_of(company.num_envs)
    subgoals = Subgoals(agent.cfg.near) if levels else None

    def order(seeds: tuple[int, ...] = ()) -> Order:
        random = run.step < cfg.learning_starts and not (levels and agent.cfg.freeze == "low")
        random_subgoals = levels and run.step < agent.cfg.high.learning_starts and agent.cfg.freeze != "high"
        return Order(rows, run.progress, random, random_subgoals, seeds)

    def owed() -> None:
        agent.progress = run.progress
        learn_levels(agent, replay, run) if isinstance(replay, Segments) else learn(agent, replay, run)

    company.ask(agent, run.updates, order(tuple(run.env_seeds())))
    owed()  # what was owed when a resumed run was saved
    while run.going():
        chunk = company.answer()
        run.log({**company.books, "ray/staleness": torch.tensor(float(run.updates - company.version))})
        for obs, action, target, step in zip(chunk.obs, chunk.action, chunk.target, chunk.steps(), strict=False):
            if isinstance(replay, Segments):
                closed = replay.add(obs, action, step, target)
                assert subgoals is not None
                made_for = agent.within_reach(torch.from_numpy(target[closed]).to(run.device)).cpu().numpy()
                subgoals.note(step.next_obs[closed][:, agent.positions], made_for)
                run.log(subgoals.figures)
            else:
                replay.add(obs, action, step)
            run.advance(step, step.valid)
        fresh = run.house_keeping(agent, company.restarts, replay)
        company.ask(agent, run.updates, order(tuple(run.env_seeds()) if fresh else ()))
        owed()
    company.dismiss()
