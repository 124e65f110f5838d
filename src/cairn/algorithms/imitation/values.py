"""An expert's values of actions: Q*(s, a), V*(s) and A* = Q* - V*, from one of three sources.

Critics    the expert's own Q (SAC, TD3, DQN; trained here or imported): any action in any state, for one forward pass
Fitted     V* fitted to returns of the expert's episodes, Q*(s, a) = r + γV*(s'): only for actions that were taken
Rollouts   the state is restored and the expert plays on: any action and any expert, at the cost of environment steps
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from cairn.algorithms.imitation.demos import Demos
from cairn.algorithms.imitation.expert import Expert
from cairn.core.agent import Agent
from cairn.core.errors import CairnError
from cairn.core.returns import discounted
from cairn.core.types import Array, Box, Discrete, Spec
from cairn.nets.mlp import MLP
from cairn.nets.normalizer import Normalizer
from cairn.nets.optim import Optimizer
from cairn.nets.seeding import seeded
from cairn.vector.checks import close_env
from cairn.vector.protocol import EnvMaker
from cairn.vector.spaces import spec_of_env

NEGLIGIBLE = 1e-3  # discount below which rewards are ignored


@dataclass(frozen=True)
class Played:
    """One trajectory of each of N environments, padded to T steps; every tensor is [T, N, ...].

    taken      the executed actions
    drawn      the actions to evaluate: the learner's own, also where the expert played
    valid      False past the end of a trajectory
    by_expert  [N] bool: whether the expert played
    seeds      the seed of each environment's reset
    """

    obs: Tensor
    taken: Tensor
    drawn: Tensor
    reward: Tensor
    next_obs: Tensor
    terminated: Tensor
    valid: Tensor
    by_expert: Tensor
    seeds: Sequence[int]


@dataclass(frozen=True)
class Verdict:
    """Q*(s, a) of the drawn actions and V*(s), [T, N], where `known`; finding them took `steps` steps."""

    q: Tensor
    v: Tensor
    known: Tensor
    steps: int = 0


Judge = Callable[[Tensor, Tensor], Tensor]  # Q*(s, a) [B] of obs [B, ...] and action [B] or [B, dim]


class Values(Protocol):
    """Evaluates the actions of trajectories."""

    @property
    def any_action(self) -> Judge | None:
        """Evaluates any action in any state; None if only played actions can be evaluated."""

    def judge(self, played: Played) -> Verdict:
        """Evaluate the drawn actions of trajectories."""

    def close(self) -> None:
        """Close environments, if there are any."""


class Critics:
    """The minimum of the expert's own critics, or their mean if there are more than two, as for its actor's loss.

    V*(s) is Q* of the expert's action, so A* is zero where the learner takes the same action. For SAC this is the mode,
    not
    E[Q - α log π]: the learner is to match the expert without its exploration noise.

    Critics are trained on actions near the expert's. `near` is a penalty on others: Q*(s, a) - near ‖a - π*(s)‖², or
    minus
    `near` for a different discrete action.
    """

    def __init__(self, agent: Agent | None, name: str = "the expert", *, near: float = 0.0) -> None:
        if agent is None or not agent.judges_actions():
            raise CairnError(
                f"{name} has no Q function, as sac, td3 and dqn without memory have; set agent.values to rollouts."
            )
        self.agent, self.near = agent, near
        self.any_action = self.q

    @torch.no_grad()
    def q(self, obs: Tensor, action: Tensor) -> Tensor:
        """Q*(s, a) [B], minus the penalty for the distance from the expert's action."""
        said = self.said(obs, action)
        if self.near == 0:
            return said
        own: Tensor = self.agent.act(obs, explore=False)
        action = self._taken(action)
        apart = (action != own).float() if action.ndim == 1 else (action - own).square().sum(-1)
        return said - self.near * apart

    @torch.no_grad()
    def said(self, obs: Tensor, action: Tensor) -> Tensor:
        """The critics' Q(s, a) [B]; actions are clipped to their bounds, as the environment does."""
        return self.agent.action_value(obs, self._taken(action))

    def _taken(self, action: Tensor) -> Tensor:
        """Actions clipped as the environment clips them."""
        box = self.agent.spec.action
        return action.clamp(-1, 1) if isinstance(box, Box) and box.bounded else action

    @torch.no_grad()
    def v(self, obs: Tensor) -> Tensor:
        """V*(s) = Q*(s, π*(s)) [B]."""
        return self.said(obs, self.agent.act(obs, explore=False))

    def judge(self, played: Played) -> Verdict:
        valid = played.valid
        q, v = torch.zeros_like(played.reward), torch.zeros_like(played.reward)
        q[valid], v[valid] = self.q(played.obs[valid], played.drawn[valid]), self.v(played.obs[valid])
        return Verdict(q, v, valid)

    def close(self) -> None:
        return None


class Fitted:
    """V*(s) fitted to the discounted returns of the expert's episodes, and Q*(s, a) = r + γ(1 - term)V*(s').

    Truncated episodes bootstrap from V* itself, recomputed before every epoch. Only actions that were taken can be
    evaluated, so the expert's own trajectories teach the learner nothing.
    """

    any_action: Judge | None = None

    def __init__(
        self,
        demos: Demos,
        spec: Spec,
        *,
        gamma: float,
        hidden: Sequence[int] = (128, 128),
        epochs: int = 20,
        passes: int = 4,
        batch_size: int = 256,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self.gamma, self.device = gamma, device
        width = int(np.prod(spec.obs_shape))
        with seeded(seed):
            self.net = MLP(width, hidden, 1, activation="tanh").to(device)
        self.normalizer, self.scale = Normalizer((width,)).to(device), Normalizer(()).to(device)
        opt = Optimizer(self.net, lr=1e-3, max_norm=1.0)
        generator = torch.Generator(device).manual_seed(seed)
        obs = torch.from_numpy(np.concatenate([e.obs[:-1] for e in demos.episodes])).to(device).flatten(1).float()
        self.normalizer.update(obs)
        self.scale.update(self._returns(demos, bootstrap=False))
        for epoch in range(epochs):
            opt.lr = 1e-3 * (1 - epoch / epochs)
            target = (self._returns(demos) - self.scale.mean.float()) / self.scale.std
            for _ in range(passes):
                order = torch.randperm(len(obs), generator=generator, device=device)
                for some in torch.split(order, batch_size):
                    opt.step((self._out(obs[some]) - target[some]).square().mean())

    def _out(self, obs: Tensor) -> Tensor:
        out: Tensor = self.net(self.normalizer(obs))[:, 0]
        return out

    @torch.no_grad()
    def _returns(self, demos: Demos, bootstrap: bool = True) -> Tensor:
        """Gₜ of every step, one episode after the other."""
        last = torch.from_numpy(np.stack([e.obs[-1] for e in demos.episodes])).to(self.device)
        values = self.v(last) if bootstrap else torch.zeros(len(last), device=self.device)
        out = []
        for episode, value in zip(demos.episodes, values, strict=True):
            reward = torch.from_numpy(episode.reward).to(self.device)[:, None]
            ends = torch.zeros_like(reward, dtype=torch.bool)
            ends[-1] = episode.terminated
            last_value = torch.zeros_like(reward)
            last_value[-1] = value
            out.append(discounted(reward, ends, torch.zeros_like(ends), last_value, gamma=self.gamma)[:, 0])
        return torch.cat(out)

    @torch.no_grad()
    def v(self, obs: Tensor) -> Tensor:
        """V*(s) [B]."""
        return self._out(obs.flatten(1).float()) * self.scale.std + self.scale.mean.float()

    def judge(self, played: Played) -> Verdict:
        known = played.valid & ~played.by_expert
        q, v = torch.zeros_like(played.reward), torch.zeros_like(played.reward)
        v[known] = self.v(played.obs[known])
        follow = self.gamma * ~played.terminated[known] * self.v(played.next_obs[known])
        q[known] = played.reward[known] + follow
        return Verdict(q, v, known)

    def close(self) -> None:
        return None


class Rollouts:
    """Plays on with the expert from a state, once after the drawn action and once from the state itself.

    A state is restored by replaying its trajectory, seed and actions, in a separate environment. This needs a task that
    is
    deterministic given its seed. One evaluation costs twice the steps to the state plus the expert's steps after it,
    until
    the episode ends or the discount is negligible. So only `count` states are evaluated per iteration.
    """

    any_action: Judge | None = None

    def __init__(self, task: EnvMaker, expert: Expert, *, gamma: float, count: int) -> None:
        self.env, self.expert, self.gamma, self.count = task(), expert, gamma, count
        self.spec, self.layout = spec_of_env(self.env)
        self.limit = 100_000 if gamma >= 1 else int(np.ceil(np.log(NEGLIGIBLE) / np.log(max(gamma, 1e-9))))
        self.steps = 0

    def judge(self, played: Played) -> Verdict:
        q, v, known = (torch.zeros_like(played.reward) for _ in range(3))
        cells = played.valid.cpu().nonzero().numpy()
        rng = np.random.default_rng(list(played.seeds))
        self.steps = 0
        for t, n in rng.permutation(cells)[: self.count]:
            past, seed = played.taken[:t, n].cpu().numpy(), played.seeds[n]
            met = played.obs[t, n].cpu().numpy()
            q[t, n] = self._play(seed, past, met, played.drawn[t, n].cpu().numpy())
            v[t, n] = self._play(seed, past, met, None)
            known[t, n] = 1
        return Verdict(q, v, known.bool(), self.steps)

    def _play(self, seed: int, past: Array, met: Array, first: Array | None) -> float:
        """Σ γⁱrᵢ from the state on, with `first` and then the expert's actions, or the expert's only."""
        obs = self.layout(self.env.reset(seed=int(seed))[0])
        for action in past:
            obs = self._step(action)[0]
        if not np.allclose(obs, met, rtol=1e-4, atol=1e-5):
            raise CairnError(
                "a state could not be reproduced from its seed and actions: the task is not deterministic;"
                " set agent.values to critics or fitted."
            )
        self.expert.forget(np.ones(1, bool))
        total, weight = 0.0, 1.0
        for _ in range(self.limit):
            action = first if first is not None else self.expert(np.asarray(obs, self.spec.obs_dtype)[None])[0]
            first = None
            obs, reward, ended = self._step(action)
            total, weight = total + weight * reward, weight * self.gamma
            if ended:
                break
        return total

    def _step(self, action: Array) -> tuple[Array, float, bool]:
        given = self.spec.action.to_env(np.asarray(action)[None])[0]
        discrete = isinstance(self.spec.action, Discrete)
        obs, reward, terminated, truncated, _ = self.env.step(given.item() if discrete else given)
        self.steps += 1
        return self.layout(obs), float(reward), terminated or truncated

    def close(self) -> None:
        close_env(self.env)
