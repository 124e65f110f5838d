"""Observations as networks want them: flat floats, goals seen from where one stands, on one scale."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from cairn.core.errors import CairnError
from cairn.core.types import Spec, Transition
from cairn.nets.normalizer import Normalizer


class Encoder(nn.Module):
    """[B, ...] of any type -> [B, width].

    relative_goals  the desired goal is given as a displacement from the achieved one
    normalise       everything, goals too, by the running mean and deviation of what was learned from
    images          are passed on as they are, for a convolution to read
    """

    def __init__(
        self, spec: Spec, *, normalise: bool = False, relative_goals: bool = False, images: bool = False
    ) -> None:
        super().__init__()
        if images and normalise:
            raise CairnError("images are not normalised by running statistics; leave normalise off.")
        if relative_goals and spec.goal is None:
            raise CairnError("relative_goals needs a task with goals; this one has none.")
        self.images = images
        self.goal = spec.goal if relative_goals else None
        hidden = self.goal.goal if self.goal is not None and not self.goal.seen else 0
        self.width = math.prod(spec.obs_shape) - hidden
        self.normalizer = Normalizer((self.width,), clip=5.0) if normalise else None

    def lay_out(self, obs: Tensor) -> Tensor:
        if self.images:
            return obs
        x = obs if obs.dim() == 2 and obs.dtype == torch.float32 else obs.flatten(1).float()
        if self.goal is None:
            return x
        away = x[:, self.goal.desired] - x[:, self.goal.achieved]
        shown = self.goal.achieved.stop if self.goal.seen else self.goal.achieved.start
        return torch.cat([x[:, :shown], away], 1)

    def forward(self, obs: Tensor) -> Tensor:
        x = self.lay_out(obs)
        return x if self.normalizer is None else self.normalizer(x)

    def learn_obs(self, obs: Tensor) -> Tensor:
        """Observations, encoded; they count towards the statistics first."""
        x = self.lay_out(obs)
        if self.normalizer is not None:
            self.normalizer.update(x)
            x = self.normalizer(x)
        return x

    def learn(self, batch: Transition) -> Transition:
        """The batch, encoded; what it holds counts towards the statistics first, goals of hindsight included."""
        obs = self.learn_obs(batch.obs)
        return replace(batch, obs=obs, next_obs=self(batch.next_obs))
