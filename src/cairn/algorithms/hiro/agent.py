"""Hierarchical reinforcement learning with off-policy correction (HIRO; Nachum et al. 2018).

Every c steps a high level μʰⁱ(s) chooses a displacement g of some coordinates of the observation. The low level
μˡᵒ(s, g) is rewarded for reaching it: r = -‖s + g - s'‖. The paper updates g at every step, h(s, g, s') = s + g - s',
so that the target s + g stays fixed. We store the target, and show it to the low level as a displacement. So the low
level is an ordinary goal-conditioned learner, and a policy that was trained on goals alone can replace it.

The high level learns from windows that earlier low levels played. For each, the correction finds the subgoal that would
most likely have made the present low level take the window's actions: B windows × K candidates × c steps in one pass.
The levels are sac and td3 in continuous spaces, dqn in discrete ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from cairn.algorithms.dqn import DQN, DQNConfig
from cairn.algorithms.hiro.config import HIROConfig, LevelConfig, check, positions_of
from cairn.algorithms.hiro.exploring import Explorer, empty
from cairn.algorithms.hiro.subgoals import SubgoalPolicy, SubgoalState
from cairn.algorithms.sac import SAC, SACConfig
from cairn.algorithms.td3 import TD3, TD3Config
from cairn.core.agent import Agent, BaseAgent, Metrics
from cairn.core.checks import validated
from cairn.core.state import Part
from cairn.core.types import Box, Discrete, GoalSpec, Spec, SubgoalBatch, Transition, Window
from cairn.nets.remembering import no_memory

Level = DQN | SAC | TD3
CACHED = 6_400  # states per pass of the low level: more would not fit into a CPU's cache


class HIRO(BaseAgent):
    """Two off-policy agents: `high` chooses subgoals, `low` reaches them."""

    def __init__(self, cfg: HIROConfig, spec: Spec, *, seed: int = 0, device: str = "cpu") -> None:
        self.cfg = cfg = validated(cfg, "agent.")
        self.spec, self._progress = spec, 0.0
        self.positions = positions_of(cfg, spec)
        self.dim = self.positions.stop - self.positions.start
        self.cells = list(cfg.cells or range(self.positions.start, self.positions.stop))  # of the archive
        check(cfg, spec, self.dim)
        self.range = torch.tensor(cfg.subgoal_range, device=device)
        width = spec.obs_shape[0] if spec.goal is None else spec.goal.observation
        self.seen = slice(0, width) if cfg.low_sees is None else slice(*cfg.low_sees)  # columns for the low level
        count = self.seen.stop - self.seen.start
        self.shown = torch.ones(count, device=device)
        self.shown[[index - self.seen.start for index in cfg.hide if index in range(*cfg.low_sees or (0, width))]] = 0.0
        layout = GoalSpec(count, self.dim, seen=not cfg.hide and cfg.low_sees is None)
        low_spec = Spec((count + 2 * self.dim,), "float32", spec.action, layout)
        self.table: Tensor | None = None  # [choices, d] where the high level is a dqn
        ends = cfg.subgoal_range
        choice: Box | Discrete = Box((self.dim,), tuple(-r for r in ends), ends)
        if cfg.high.discrete:
            axes = [np.linspace(-r, r, cfg.bins) for r in ends]
            self.table = torch.tensor(list(itertools.product(*axes)), dtype=torch.float32, device=device)
            choice = Discrete(len(self.table))
        high_spec = Spec(spec.obs_shape, spec.obs_dtype, choice, spec.goal)
        self.high = level(cfg.high, high_spec, seed=seed, device=device)
        if self.table is not None and spec.reachable is not None:
            self.boxes = torch.tensor(spec.reachable.boxes, device=device).unbind(1)  # low and high, [boxes, axes] each
            _dqn(self.high).allowed = self.offered
        low = replace(cfg.low, relative_goals=True)
        self.low = level(low, low_spec, seed=seed + 1, device=device)
        self.levels: Mapping[str, Agent] = {"high": self.high, "low": self.low}
        for name, one in self.levels.items():
            no_memory(one.cfg.memory if one.memory(1) else "none", "hiro", f"agent.{name}.memory")
        self.generator = torch.Generator(device).manual_seed(seed)
        self.updates = torch.zeros(2, dtype=torch.int64)  # updates of the high and of the low level
        self.explorer = self._explorer() if max(cfg.explore.bounds) > 0 else None
        self.policy_parts: Mapping[str, Part] = _both(self.high.policy_parts, self.low.policy_parts)
        self.training_parts: Mapping[str, Part] = {
            **_both(self.high.training_parts, self.low.training_parts),
            "generator": self.generator,
            "updates": self.updates,
            **({"archive": self.explorer.archive} if self.explorer is not None else {}),
        }

    def _explorer(self) -> Explorer:
        """The explorer, with an empty archive."""
        reach = self.range.cpu().numpy()
        return Explorer(empty(self.cfg.cell or self.cfg.subgoal_range, self.dim), reach, self.cfg.walk, self.generator)

    @property
    def progress(self) -> float:
        """The finished share of the run, in [0, 1]; setting it sets that of both levels."""
        return self._progress

    @progress.setter
    def progress(self, share: float) -> None:
        self._progress = self.high.progress = self.low.progress = share

    # -- acting

    def memory(self, count: int) -> SubgoalState:
        """The state of `count` environments at the beginning of an episode."""
        where = self.range.device
        nowhere = torch.zeros(count, self.dim, device=where)
        return SubgoalState(nowhere, nowhere.clone(), torch.zeros(count, dtype=torch.int64, device=where))

    def policy_module(self) -> SubgoalPolicy:
        return SubgoalPolicy(self)

    def act(
        self, obs: Tensor, *, explore: bool, memory: SubgoalState | None = None, random_subgoals: bool = False
    ) -> Tensor:
        """Choose subgoals where they are due, act towards them, and advance the clocks.

        `random_subgoals` draws them at random. Without `memory`, every observation counts as the first of an episode.
        """
        memory = self.memory(len(obs)) if memory is None else memory
        due = memory.clock == 0
        if due.any():
            if explore or random_subgoals or self.cfg.subgoals == "random":
                asked = self.choose(obs[due], explore=explore, random_subgoals=random_subgoals)
                if self.explorer is not None and explore:
                    asked = self._explored(self.explorer, obs, due, asked, memory)
            else:  # for all rows: in a batch of another size the results would be rounded differently
                asked = self.choose(obs, explore=False)[due]
            memory.asked[due] = asked
            memory.target[due] = self.within_reach(asked)
        memory.clock = (memory.clock + 1) % self.cfg.every
        return self.low.act(self.low_view(obs, memory.target), explore=explore)

    @torch.no_grad()
    def choose(self, obs: Tensor, *, explore: bool, random_subgoals: bool = False) -> Tensor:
        """The points [N, d] that the high level chooses, reachable or not.

        The high level learns from these points, not from the nearest reachable ones: otherwise it would never try a
        part of its
        actions, and their values would stay untrained.
        """
        anything = random_subgoals or self.cfg.subgoals == "random"
        if self.table is not None:
            displacement = self.table[_dqn(self.high).dice(obs) if anything else self.high.act(obs, explore=explore)]
        elif anything:
            like = torch.empty(len(obs), self.dim, device=obs.device)
            displacement = like.uniform_(-1, 1, generator=self.generator) * self.range
        else:
            displacement = self.high.act(obs, explore=explore) * self.range
        return obs[:, self.positions] + displacement

    def _explored(self, explorer: Explorer, obs: Tensor, due: Tensor, asked: Tensor, memory: SubgoalState) -> Tensor:
        """The points [n, d] `asked` where `due`, with those of exploring episodes; the archive learns of all visits."""
        memory.trails = memory.trails or [None] * len(obs)
        rows, chosen = obs[due].cpu().numpy(), asked.cpu().numpy().copy()
        for i, env in enumerate(due.nonzero()[:, 0].tolist()):
            trail = memory.trails[env] = memory.trails[env] or explorer.begin(self.cfg.explore(self.progress))
            here = rows[i, self.positions]
            if trail.whole:
                explorer.archive.visit(rows[i, self.cells], trail.way)
            if trail.explores:
                away = torch.from_numpy(explorer.displacement(trail, here)).float()
                away = away if self.table is None else self.table[self.high_action(away)].cpu()
                chosen[i] = here + away.numpy()
            trail.follow(chosen[i])
        return torch.from_numpy(chosen).to(obs.device)

    def within_reach(self, target: Tensor) -> Tensor:
        """The nearest reachable points [..., d]; all points are reachable if the task does not say."""
        reachable = self.spec.reachable
        return target if reachable is None else reachable.nearest(target)

    def offered(self, obs: Tensor) -> Tensor:
        """[N, choices] bool: the displacements of the table that lead to a reachable point; all if none does.

        The others are left out, because `within_reach` would map them to a point that one of these leads to.
        """
        assert self.table is not None
        low, high = self.boxes
        target = (obs[:, None, self.positions] + self.table)[:, :, None, : low.shape[-1]]
        inside = ((low <= target) & (target <= high)).all(-1).any(-1)
        return inside | ~inside.any(-1, keepdim=True)

    def low_view(self, obs: Tensor, target: Tensor) -> Tensor:
        """The low level's observation: visible observation, current position, target."""
        return torch.cat([obs[..., self.seen] * self.shown, obs[..., self.positions], target], -1)

    def high_action(self, displacement: Tensor) -> Tensor:
        """A displacement [..., d] as an action of the high level: in [-1, 1]ᵈ, or the nearest index of the table."""
        if self.table is None:
            return (displacement / self.range).clamp(-1, 1)
        apart = (displacement.unsqueeze(-2) - self.table) / self.range
        return apart.square().sum(-1).argmin(-1)

    # -- learning

    def update_low(self, batch: SubgoalBatch) -> Metrics:
        """Take one gradient step of the low level; return its metrics."""
        metrics = self.low.update(self.paid(batch))
        return {f"low/{name.removeprefix('train/')}": value for name, value in metrics.items()}

    def paid(self, batch: SubgoalBatch) -> Transition:
        """Steps with the low level's rewards. For it, the end of a window is not an end.

        After a termination its reward would stay the same for ever, r + γr + γ²r + … = r / (1 - γ). Rewards are
        negative, so
        without this term terminating would be the best way to deal with a subgoal that is far away.
        """
        gamma = self.cfg.low.gamma
        target = self.within_reach(batch.target)
        apart = (batch.next_obs[:, self.positions] - target).norm(dim=-1)
        reward = -apart if self.cfg.low_reward == "distance" else (apart <= self.cfg.near).float() - 1.0
        reward = torch.where(batch.terminated, reward / (1 - gamma), reward)
        discount = gamma * (~batch.terminated).float()
        obs, next_obs = self.low_view(batch.obs, target), self.low_view(batch.next_obs, target)
        return Transition(obs, batch.action, self.cfg.low_scale * reward, next_obs, discount)

    def update_high(self, window: Window) -> Metrics:
        """Take one gradient step of the high level, with corrected subgoals; return its metrics."""
        start = window.obs[:, 0]
        here = start[:, self.positions]
        asked = window.target - here
        displacement = self.corrected(window, asked)
        reward, discount = self.cfg.high_scale * window.reward, self.cfg.high.gamma * (~window.terminated).float()
        batch = Transition(start, self.high_action(displacement), reward, window.next_obs, discount)
        metrics = self.high.update(batch)
        changed = ((displacement - asked).abs() > 1e-6 * self.range).any(-1).float().mean()
        named = {f"high/{name.removeprefix('train/')}": value for name, value in metrics.items()}
        return {**named, "hiro/correction_changed": changed}

    @torch.no_grad()
    def corrected(self, window: Window, asked: Tensor) -> Tensor:
        """The displacement [B, d] with which to learn from each window; `asked` is the original one."""
        if self.cfg.correction == "off":
            return asked
        achieved = window.next_obs[:, self.positions] - window.obs[:, 0, self.positions]
        if self.cfg.correction == "achieved":
            return achieved.clamp(-self.range, self.range)
        candidates = self.candidates(window, asked, achieved)
        best = self.likelihood(window, candidates).argmax(1)
        return candidates[torch.arange(len(best), device=best.device), best]

    def candidates(self, window: Window, asked: Tensor, achieved: Tensor) -> Tensor:
        """[B, K, d]: the original, the achieved, and draws from N(achieved, spread · range), all in range."""
        draws = max(self.cfg.candidates - 2, 0)
        noise = torch.empty(len(asked), draws, self.dim, device=asked.device).normal_(generator=self.generator)
        around = achieved[:, None] + noise * (self.cfg.spread * self.range)
        found = torch.cat([asked[:, None], achieved[:, None], around], 1)[:, : self.cfg.candidates]
        found = found.clamp(-self.range, self.range)
        if self.table is not None:
            found = self.table[self.high_action(found)]
        here = window.obs[:, :1, self.positions]
        found[:, 1:] = self.within_reach(here + found[:, 1:]) - here  # the original stays unchanged, bit by bit
        return found

    def likelihood(self, window: Window, displacement: Tensor) -> Tensor:
        """log P(a₁..a_c | s, g) up to a constant for each of K candidates, [B, K], from the low level.

        This is -½ Σᵢ ‖aᵢ - μˡᵒ(sᵢ, s₁ + g - sᵢ)‖² over the steps inside the window; with a dqn, Σᵢ Q(sᵢ, aᵢ) - max
        Q(sᵢ, ·).
        """
        rows = displacement.shape[1] * window.obs.shape[1]
        share = max(CACHED // rows, 1) if displacement.device.type == "cpu" else len(displacement)
        columns = (window.obs, window.action, window.inside, displacement)
        parts = zip(*(torch.split(column, share) for column in columns), strict=True)
        return torch.cat([self._fit(*part) for part in parts])

    def _fit(self, obs: Tensor, action: Tensor, inside: Tensor, displacement: Tensor) -> Tensor:
        """The likelihood [b, K] of a part of the windows."""
        batch, k, c = *displacement.shape[:2], obs.shape[1]
        target = self.within_reach(obs[:, :1, self.positions] + displacement)  # [b, K, d]
        states = obs[:, None].expand(batch, k, c, -1)
        view = self.low_view(states, target[:, :, None].expand(batch, k, c, -1)).flatten(0, 2)
        if self.cfg.low.discrete:
            low = _dqn(self.low)
            q = low.q(low.encoder(view)).view(batch, k, c, -1)
            fit = q.gather(-1, action[:, None, :, None].expand(batch, k, c, 1))[..., 0] - q.amax(-1)
        else:
            asked = self.low.act(view, explore=False).view(batch, k, c, -1)
            fit = -0.5 * (asked - action[:, None]).square().sum(-1)
        score: Tensor = (fit * inside[:, None]).sum(-1)
        return score


def _dqn(level: Level) -> DQN:
    """Narrow the type of a level whose config is `discrete`."""
    assert isinstance(level, DQN)
    return level


def level(cfg: LevelConfig, spec: Spec, *, seed: int, device: str) -> Level:
    """The agent of one level."""
    made: dict[type, Callable[..., Level]] = {DQNConfig: DQN, SACConfig: SAC, TD3Config: TD3}
    return made[type(cfg)](cfg, spec, seed=seed, device=device)


def _both(high: Mapping[str, Part], low: Mapping[str, Part]) -> dict[str, Part]:
    return {f"{level}.{name}": part for level, parts in (("high", high), ("low", low)) for name, part in parts.items()}
