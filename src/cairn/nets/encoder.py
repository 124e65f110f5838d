"""Observations as inputs of a network: flat floats, relative goals, normalised."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import torch
from torch import Generator, Tensor, nn

from cairn.core.errors import CairnError
from cairn.core.types import Spec, Transition
from cairn.nets.cnn import sees_images
from cairn.nets.features import FeatureNet, share_statistics
from cairn.nets.normalizer import Normalizer


class Encoder(nn.Module):
    """Observations [B, ...] of any type -> [B, width] float32.

    relative_goals  replace the desired goal by its difference from the achieved one
    normalise       normalise all numbers, goals too, by their running mean and standard deviation
    raw             pass observations on unchanged, for a convolutional network or a `FeatureNet`
    features        a network that reads the observations; `random_shift` first moves the images of a batch at random

    The action mask, if there is one, is left out.
    """

    def __init__(
        self,
        spec: Spec,
        *,
        normalise: bool = False,
        relative_goals: bool = False,
        raw: bool = False,
        clip: float = 5.0,
        features: FeatureNet | None = None,
        random_shift: int = 0,
        generator: Generator | None = None,
    ) -> None:
        super().__init__()
        if sees_images(spec) and normalise:
            raise CairnError("images are not normalised by running statistics; leave normalise off.")
        if relative_goals and spec.goal is None:
            raise CairnError("relative_goals needs a task with goals; this one has none.")
        if relative_goals and (raw or features is not None):
            raise CairnError("relative_goals needs observations of plain numbers; leave it off for this task.")
        self.raw, self.features, self.masked = raw, features, spec.masked
        self.random_shift, self.generator = random_shift, generator
        self.goal = spec.goal if relative_goals else None
        hidden = self.goal.goal if self.goal is not None and not self.goal.seen else 0
        self.width = math.prod(spec.obs_shape) - spec.masked - hidden if features is None else features.features
        plain = not raw and features is None
        self.normalizer = Normalizer((self.width,), clip=clip) if normalise and plain else None

    def lay_out(self, obs: Tensor) -> Tensor:
        """The numbers [B, width] before normalisation."""
        if self.raw:
            return obs
        if self.features is not None:
            seen: Tensor = self.features(obs)
            return seen
        x = obs if obs.dim() == 2 and obs.dtype == torch.float32 else obs.flatten(1).float()
        if self.masked:
            x = x[:, : -self.masked]
        if self.goal is None:
            return x
        away = x[:, self.goal.desired] - x[:, self.goal.achieved]
        shown = self.goal.achieved.stop if self.goal.seen else self.goal.achieved.start
        return torch.cat([x[:, :shown], away], 1)

    def forward(self, obs: Tensor) -> Tensor:
        """Encode observations without updating the statistics."""
        x = self.lay_out(obs)
        return x if self.normalizer is None else self.normalizer(x)

    def learn_obs(self, obs: Tensor) -> Tensor:
        """Update the statistics with observations, then encode them."""
        if self.features is not None:
            self.features.observe(obs)
            return self.lay_out(self._shifted(obs))
        x = self.lay_out(obs)
        if self.normalizer is not None:
            self.normalizer.update(x)
            x = self.normalizer(x)
        return x

    def learn(self, batch: Transition) -> Transition:
        """Update the statistics with a batch, relabelled goals included, then encode it.

        Gradients reach the features of `obs`, not those of `next_obs`.
        """
        obs = self.learn_obs(batch.obs)
        if self.features is None:
            return replace(batch, obs=obs, next_obs=self(batch.next_obs))
        with torch.no_grad():
            return replace(batch, obs=obs, next_obs=self(self._shifted(batch.next_obs)))

    def target(self) -> Encoder | None:
        """A copy for target networks, which share the statistics; None without features, for nothing is learned."""
        if self.features is None:
            return None
        copied = copy.deepcopy(self, {id(self.generator): None})  # it shifts nothing
        share_statistics(self, copied)
        return copied

    def _shifted(self, obs: Tensor) -> Tensor:
        if not self.random_shift or self.features is None or self.generator is None:
            return obs
        return self.features.shifted(obs, self.random_shift, self.generator)
