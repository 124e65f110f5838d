"""A policy and a value function over the same observation, for the on-policy agents."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Generator, Tensor, nn

from cairn.core.errors import CairnError
from cairn.core.types import Discrete, Rollout, Spec
from cairn.nets.cnn import CNN, Vision, image_net, sees_images
from cairn.nets.heads import Categorical, Distribution, Gaussian
from cairn.nets.mlp import MLP, Activation, Linear, orthogonal_
from cairn.nets.normalizer import Normalizer


class ActorCritic(nn.Module):
    """Two trunks of equal width, actor and critic, run as an ensemble of two: one product a layer serves both.

    Where observations are images the two share one convolution (`cnn`), which `hidden` and `activation` are not for.
    All methods but `normalise` take normalised observations, so that a rollout is normalised once, not once an epoch.
    """

    def __init__(
        self,
        spec: Spec,
        hidden: Sequence[int],
        *,
        activation: Activation,
        log_std: float,
        normalise: bool = False,
        cnn: Vision = "nature",
        bf16: bool = False,
    ) -> None:
        super().__init__()
        self.images = sees_images(spec)
        if self.images and normalise:
            raise CairnError("images are not normalised by running statistics; leave normalise_obs off.")
        self.normalizer = Normalizer(spec.obs_shape) if normalise else None
        self.discrete = isinstance(spec.action, Discrete)
        width = spec.action.n if isinstance(spec.action, Discrete) else spec.action.dim
        if self.images:
            self.trunk: CNN | MLP = image_net(cnn, spec, bf16=bf16, orthogonal=True)
        else:
            self.trunk = MLP(math.prod(spec.obs_shape), hidden, None, members=2, activation=activation)
        features = self.trunk.features if isinstance(self.trunk, CNN) else hidden[-1]
        self.policy_head = Linear(features, width)
        self.value_head = Linear(features, 1)
        self.log_std = nn.Parameter(torch.full((0 if self.discrete else width,), log_std))
        if isinstance(self.trunk, MLP):
            self.trunk.orthogonal_(math.sqrt(2))
        orthogonal_(self.policy_head, 0.01)
        orthogonal_(self.value_head, 1.0)

    def normalise(self, obs: Tensor) -> Tensor:
        if self.images:
            return obs
        return obs.float() if self.normalizer is None else self.normalizer(obs)

    def forward(self, obs: Tensor) -> tuple[Distribution, Tensor]:
        """obs [B, ...] -> π(·|s), V(s) [B]."""
        seen = self._features(obs)
        actor, critic = (seen, seen) if self.images else seen.unbind(0)
        return self._distribution(actor), self.value_head(critic)[:, 0]

    def policy(self, obs: Tensor) -> Distribution:
        """π(·|s) alone: what acting needs."""
        return self._distribution(self._features(obs, 0))

    @torch.no_grad()
    def act(self, obs: list[Tensor], explore: bool, generator: Generator) -> Tensor:
        """Actions [B] or [B, dim] for [obs] as it comes."""
        policy = self.policy(self.normalise(*obs))
        return policy.sample(generator) if explore else policy.mode()

    def value(self, obs: Tensor) -> Tensor:
        """obs [B, ...] -> V(s) [B] alone."""
        out: Tensor = self.value_head(self._features(obs, 1))[:, 0]
        return out

    def _features(self, obs: Tensor, member: int | None = None) -> Tensor:
        """[B, features]; of vectors the actor's (0), the critic's (1), or both [2, B, features]."""
        out: Tensor = self.trunk(obs) if self.images else self.trunk(obs.flatten(1), member=member)
        return out

    def next_values(self, rollout: Rollout, value: Tensor) -> Tensor:
        """V(s'ₜ) [T, N] from V(sₜ) [T, N]."""
        return following(value, *self.after(rollout))

    @torch.no_grad()
    def after(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        """[T, N]: true where s'ₜ is not sₜ₊₁ (an end, the last step), and V(s'ₜ) there: all that must be evaluated."""
        apart = rollout.terminated | rollout.truncated
        apart[-1] = True
        out = torch.zeros_like(rollout.reward)
        out[apart] = self.value(self.normalise(rollout.next_obs[apart]))
        return apart, out

    def _distribution(self, features: Tensor) -> Distribution:
        out = self.policy_head(features)
        return Categorical(out) if self.discrete else Gaussian(out, self.log_std)


def following(value: Tensor, apart: Tensor, after: Tensor) -> Tensor:
    """V(s'ₜ) [T, N]: that of the next row, but where they are apart."""
    return torch.where(apart, after, torch.cat([value[1:], value[:1]]))
