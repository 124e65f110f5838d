"""A policy and a value function of the same observation, for the on-policy agents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor, nn

from cairn.core.types import Rollout, Spec
from cairn.nets.cnn import CNN, Vision, image_net
from cairn.nets.heads import Distribution, distribution
from cairn.nets.mlp import MLP, Activation, Linear, orthogonal_
from cairn.nets.observed import Observed
from cairn.nets.own import NONE, Own, OwnNet
from cairn.nets.recurrent import Recurrent


class ActorCritic(Observed):
    """Actor and critic trunks of equal width, run as an ensemble of two: one matrix product per layer for both.

    For images, both share one convolutional network (`cnn`), and `hidden` and `activation` are not used. For
    observations of several parts, or with a `network` of the user's own, both trunks read the same features. All
    methods but `normalise` and `act` take normalised observations: a rollout is normalised once, not in every epoch.
    """

    def __init__(
        self,
        spec: Spec,
        hidden: Sequence[int],
        *,
        activation: Activation,
        log_std: float,
        normalise: bool = False,
        clip: float = 10.0,
        cnn: Vision = "nature",
        bf16: bool = False,
        own: Own = NONE,
        remembered: int = 0,
    ) -> None:
        super().__init__(spec, own, normalise=normalise, clip=clip, cnn=cnn, bf16=bf16, images=remembered > 0)
        self.core: Recurrent | None = None  # of `nets.remembering`
        self.action = spec.action
        self.own_actor = None if own.actor is None else OwnNet("actor", own.actor, spec, spec.action.outputs)
        self.own_critic = None if own.critic is None else OwnNet("critic", own.critic, spec, 1)
        if self.images:
            self.trunk: CNN | MLP = image_net(cnn, spec, bf16=bf16, orthogonal=True)
        else:
            self.trunk = MLP(self.width + remembered, hidden, None, members=2, activation=activation)
        features = self.trunk.features if isinstance(self.trunk, CNN) else hidden[-1]
        self.policy_head = Linear(features, spec.action.outputs)
        self.value_head = Linear(features, 1)
        self.log_std = nn.Parameter(torch.full((spec.action.outputs - sum(spec.action.choices),), log_std))
        if isinstance(self.trunk, MLP):
            self.trunk.orthogonal_(math.sqrt(2))
        orthogonal_(self.policy_head, 0.01)
        orthogonal_(self.value_head, 1.0)

    def drawn(self, fields: list[Tensor], rollout: Rollout) -> list[Tensor]:
        """What minibatches are drawn from: the fields [B, ...] of the valid steps of a rollout."""
        return fields

    def judge(self, batch: list[Any]) -> tuple[Distribution, Tensor, list[Any]]:
        """π and V [B] for a minibatch, and its other fields [B, ...]."""
        return *self(batch[0]), batch[1:]

    def forward(self, obs: Tensor) -> tuple[Distribution, Tensor]:
        """π(·|s) and V(s) [B] for obs [B, ...]."""
        seen = self._features(obs)
        actor, critic = (seen, seen) if self.images else seen.unbind(0)
        return self._distribution(actor, obs), self._value(critic, obs)

    def policy(self, obs: Tensor) -> Distribution:
        """π(·|s) only, without the critic."""
        return self._distribution(self._features(obs, 0), obs)

    @torch.no_grad()
    def act(self, obs: list[Tensor], explore: bool, generator: Generator) -> Tensor:
        """Actions [B] or [B, dim] for `obs`, a list of one raw batch [B, ...]; the mode unless `explore`."""
        policy = self.policy(self.normalise(*obs))
        return policy.sample(generator) if explore else policy.mode()

    def value(self, obs: Tensor) -> Tensor:
        """V(s) [B] for obs [B, ...], without the actor."""
        return self._value(self._features(obs, 1), obs)

    def _features(self, obs: Tensor, member: int | None = None) -> Tensor:
        """[B, features] of the actor (0) or the critic (1), or of both [2, B, features]; shared for images."""
        if self.images:
            out: Tensor = self.trunk(obs)
            return out
        out = self.trunk(self.seen(obs), member=member)
        return out

    def next_values(self, rollout: Rollout, value: Tensor) -> Tensor:
        """V(s'ₜ) [T, N], given V(sₜ) [T, N]."""
        return following(value, *self.after(rollout))

    @torch.no_grad()
    def after(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        """[T, N] where s'ₜ is not sₜ₊₁ (episode ends and the last step), and V(s'ₜ) there, 0 elsewhere."""
        apart = rollout.terminated | rollout.truncated
        apart[-1] = True
        out = torch.zeros_like(rollout.reward)
        out[apart] = self.value(self.normalise(rollout.next_obs[apart]))
        return apart, out

    def _distribution(self, features: Tensor, obs: Tensor) -> Distribution:
        allowed = obs[:, -self.masked :] != 0 if self.masked else None
        out = self.policy_head(features) if self.own_actor is None else self.own_actor(obs)
        return distribution(self.action, out, self.log_std, allowed)

    def _value(self, features: Tensor, obs: Tensor) -> Tensor:
        out: Tensor = self.value_head(features) if self.own_critic is None else self.own_critic(obs)
        return out[:, 0]


def following(value: Tensor, apart: Tensor, after: Tensor) -> Tensor:
    """V(s'ₜ) [T, N]: `after` where `apart`, else the value of the next row."""
    return torch.where(apart, after, torch.cat([value[1:], value[:1]]))
