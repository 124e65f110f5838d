"""Soft actor-critic by hand.

With a = tanh u, u = μ + σε and log π(a) = Σ log N(u) - log(1 - a²):  ∂a/∂u = 1 - a²,  ∂log π/∂u = 2a,
∂log π/∂log σ = 2aσε - 1. The actor's loss is E α log π(a) - Q(s, a) with the smaller Q, so only that critic passes a
gradient to a row of actions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from cairn.core.types import Transition
from cairn.native.networks import Core, Net, layers_of
from cairn.native.supports import plain_encoder, plain_mlp
from cairn.nets.heads import LOG_2PI
from cairn.nets.tanh_gaussian import LOG_STD


@dataclass(frozen=True)
class Squashed:
    """Actions a [B, dim] with log π(a) [B] and what their gradient needs."""

    action: Tensor
    log_prob: Tensor
    noise: Tensor  # σε
    inside: Tensor  # whether log σ was within its bounds

    @classmethod
    def sample(cls, out: Tensor, generator: Generator) -> Squashed:
        """Draw from the policy with these outputs [B, 2 dim]: μ and log σ."""
        mean, raw = out.chunk(2, -1)
        noise = torch.empty_like(mean, memory_format=torch.contiguous_format).normal_(generator=generator)
        log_std = raw.clamp(*LOG_STD)
        scaled = noise * log_std.exp()
        u = mean + scaled
        log_normal = -0.5 * noise.square() - log_std - 0.5 * LOG_2PI
        log_slope = 2.0 * (math.log(2.0) - u - F.softplus(-2.0 * u))
        return cls(u.tanh(), (log_normal - log_slope).sum(-1), scaled, raw == log_std)

    def backward(self, action_grad: Tensor, log_prob_grad: Tensor) -> Tensor:
        """The gradient of the outputs [B, 2 dim], given those of the actions [B, dim] and of every log π(a) []."""
        a = self.action
        u_grad = action_grad * (1 - a * a) + 2 * log_prob_grad * a
        return torch.cat([u_grad, (u_grad * self.noise - log_prob_grad) * self.inside], 1)


def smaller_gradient(critics: Sequence[Net], q: Tensor, first: int) -> Tensor:
    """The gradient [B, dim] of -E minᵢ Qᵢ (of -E mean Q, if there are more than two) by the inputs from `first` on.

    q [B, E] is what the critics' last pass gave. With two, each goes back through the rows where it is the smaller.
    """
    rows, count = q.shape
    if count != 2:
        each = torch.full((rows, 1), -1.0 / (rows * count))
        return torch.stack([one.backward(each, learn=False, inputs=first) for one in critics]).sum(0)
    least, out = q.argmin(1), None
    for i, one in enumerate(critics):
        pick = (least == i).nonzero()[:, 0]
        found = one.backward(torch.full((len(pick), 1), -1.0 / rows), learn=False, inputs=first, pick=pick)
        out = torch.empty(rows, found.shape[1]) if out is None else out
        out[pick] = found
    assert out is not None
    return out


class SACByHand:
    """`SAC._learn` without autograd."""

    def __init__(self, agent: Any, core: Core) -> None:
        self.agent, self.core, cfg = agent, core, agent.cfg
        shape = agent.actor.hidden, cfg.activation
        members = range(cfg.ensemble)
        self.actor = core.net(layers_of(agent.actor), *shape)
        self.critics = [core.net(layers_of(agent.critic, i), *shape) for i in members]
        self.targets = [core.net(layers_of(agent.target_critic, i), *shape) for i in members]

    @staticmethod
    def refusal(agent: Any) -> str:
        """Why this agent cannot be trained this way: a clause; "" if it can."""
        nets = [plain_mlp(net, agent.cfg.activation) for net in (agent.actor, agent.critic)]
        return plain_encoder(agent.encoder) or nets[0] or nets[1]

    def learn(self, batch: Transition) -> dict[str, Tensor]:
        """As `SAC._learn`, with the same random numbers."""
        agent, core = self.agent, self.core
        batch = agent.encoder.learn(batch)
        rows, alpha = len(batch.reward), agent.alpha
        target = self._target(batch, alpha)[:, None]
        q = self._judge(self.critics, batch.obs, batch.action)
        error = q - target
        for i, critic in enumerate(self.critics):
            critic.backward(error[:, i, None] / rows)
        core.step(agent.critic_opt)

        drawn = self._draw(batch.obs)
        q = self._judge(self.critics, batch.obs, drawn.action)
        action_grad = smaller_gradient(self.critics, q, batch.obs.shape[1])
        self.actor.backward(drawn.backward(action_grad, alpha / rows))
        core.step(agent.actor_opt)
        value = q.amin(1) if q.shape[1] <= 2 else q.mean(1)

        entropy = -drawn.log_prob.mean()
        if agent.cfg.learn_alpha:
            agent.alpha_opt.flat.grad.copy_(alpha * (entropy - agent.target_entropy))
            core.step(agent.alpha_opt)
        core.lerp(agent.target_flat, agent.critic_opt.flat, agent.cfg.tau)
        return {
            "train/critic_loss": 0.5 * error.square().mean(0).sum(),
            "train/actor_loss": (alpha * drawn.log_prob - value).mean(),
            "train/entropy": entropy,
            "train/ent_coef": agent.alpha,
        }

    def _draw(self, obs: Tensor) -> Squashed:
        return Squashed.sample(self.actor.forward(obs), self.agent.generator)

    def _judge(self, critics: Sequence[Net], obs: Tensor, action: Tensor) -> Tensor:
        """Q(s, a) of each critic [B, E]."""
        x = torch.cat([obs, action], 1)
        return torch.cat([one.forward(x) for one in critics], 1)

    def _target(self, batch: Transition, alpha: Tensor) -> Tensor:
        """As `SAC.soft_target`, with the same random numbers."""
        drawn, critics = self._draw(batch.next_obs), self.targets
        if len(critics) > 2:
            pair = torch.rand(len(critics), generator=self.agent.generator).argsort()[:2]
            critics = [critics[i] for i in pair.tolist()]
        q = self._judge(critics, batch.next_obs, drawn.action).amin(1)
        return batch.reward + batch.discount * (q - alpha * drawn.log_prob)

    def install(self) -> None:
        self.before = self.agent.learn
        self.agent.learn = self.learn

    def remove(self) -> None:
        self.agent.learn = self.before
