"""Proximal policy optimisation by hand.

The gradient of the surrogate by log π(a|s) is -ρA/B where the ratio ρ is not clipped, else 0. By the parameters of the
policy: Gaussian ∂log π/∂μ = z/σ and ∂log π/∂log σ = z² - 1 with z = (a - μ)/σ; categorical ∂log π/∂logits = 1ₐ - p and
∂H/∂logits = -p(log p + H).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cairn.core.losses import clipped_surrogate, clipped_value
from cairn.core.types import Box, Discrete
from cairn.native.networks import Core, layers_of
from cairn.native.supports import plain_mlp
from cairn.nets.heads import Categorical, Gaussian


class PPOByHand:
    """`PPO._learn` and the network's `act` without autograd."""

    def __init__(self, agent: Any, core: Core) -> None:
        self.agent, self.core, net = agent, core, agent.net
        shape = net.trunk.hidden, agent.cfg.activation
        self.actor = core.net(layers_of(net.trunk, 0) + layers_of(net.policy_head), *shape)
        self.critic = core.net(layers_of(net.trunk, 1) + layers_of(net.value_head), *shape)
        self.discrete = isinstance(net.action, Discrete)
        self.log_std, self.log_std_grad = net.log_std.data, net.log_std.grad

    @staticmethod
    def refusal(agent: Any) -> str:
        """Why this agent cannot be trained this way: a clause; "" if it can."""
        net = agent.net
        if net.core is not None or net.raw:
            return "it has a memory, or its observations are read by another network"
        if net.own_actor is not None or net.own_critic is not None:
            return "it has networks of your own"
        if net.masked or not isinstance(net.action, (Box, Discrete)):
            return "its actions have masks or several parts"
        return plain_mlp(net.trunk, agent.cfg.activation, layers=1)

    def learn(self, batch: list[Any]) -> dict[str, Tensor]:
        """As `PPO._learn`."""
        agent, cfg, core = self.agent, self.agent.cfg, self.core
        obs, action, old_log_prob, advantage, old_value, target, clip, entropy_weight = batch
        obs, rows = agent.net.seen(obs), len(obs)
        out, value = self.actor.forward(obs), self.critic.forward(obs)[:, 0]
        policy = Categorical(out) if self.discrete else Gaussian(out, self.log_std)
        log_ratio = policy.log_prob(action) - old_log_prob
        ratio = log_ratio.exp()
        advantage = (advantage - advantage.mean()) / (advantage.std(correction=0) + 1e-8)
        entropy = policy.entropy().mean()

        free = ratio * advantage <= ratio.clamp(1 - clip, 1 + clip) * advantage
        grad = -ratio * advantage * free / rows  # by log π(a|s)
        bonus = float(entropy_weight) / rows
        if isinstance(policy, Categorical):
            log_p = out.log_softmax(-1)
            p = log_p.exp()
            grad = (-p * grad[:, None]).scatter_add_(1, action[:, None].long(), grad[:, None])
            if bonus:
                grad += bonus * p * (log_p - (p * log_p).sum(-1, keepdim=True))
        else:
            z = (action - out) * (-self.log_std).exp()
            torch.sum((z.square() - 1) * grad[:, None], 0, out=self.log_std_grad)
            self.log_std_grad.sub_(bonus * rows)
            grad = z * (-self.log_std).exp() * grad[:, None]
        self.actor.backward(grad)

        slope = 2 * cfg.value_weight / rows * (value - target)
        if cfg.value_clip is None:
            value_loss = (value - target).square().mean()
        else:
            value_loss = clipped_value(value, old_value, target, cfg.value_clip)
            moved = value - old_value
            near = old_value + moved.clamp(-cfg.value_clip, cfg.value_clip)
            worse = (value - target).square() >= (near - target).square()
            slope = slope * (worse | (moved.abs() <= cfg.value_clip))
        self.critic.backward(slope[:, None])
        core.step(agent.opt)
        told = {
            "policy_gradient_loss": clipped_surrogate(ratio, advantage, clip),
            "value_loss": value_loss,
            "entropy": entropy,
            "approx_kl": (ratio - 1 - log_ratio).mean(),
        }
        return {f"train/{name}": x for name, x in told.items()}

    def acting(self, obs: list[Tensor], explore: bool, generator: torch.Generator) -> Tensor:
        """As `ActorCritic.act`, with the same random numbers."""
        net = self.agent.net
        out = self.actor.forward(net.seen(net.normalise(*obs)))
        policy = Categorical(out) if self.discrete else Gaussian(out, self.log_std)
        return policy.sample(generator) if explore else policy.mode().clone()

    def install(self) -> None:
        agent = self.agent
        self.before = agent.learn, agent.acting
        agent.learn = agent._learn = self.learn
        agent.acting = self.acting

    def remove(self) -> None:
        self.agent.learn, self.agent.acting = self.before
        del self.agent._learn  # the method of its class
