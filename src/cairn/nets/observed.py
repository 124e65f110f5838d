"""How the networks of an actor-critic take observations: normalised, without the mask, or through a feature network."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from cairn.core.errors import CairnError
from cairn.core.types import Rollout, Spec
from cairn.nets.cnn import Vision, sees_images
from cairn.nets.features import feature_net
from cairn.nets.normalizer import Normalizer
from cairn.nets.own import Own, not_normalised


class Observed(nn.Module):
    """The observation side of a network. `width` is the number of inputs of its layers."""

    def __init__(
        self, spec: Spec, own: Own, *, normalise: bool, clip: float, cnn: Vision, bf16: bool, images: bool = False
    ) -> None:
        super().__init__()
        not_normalised(own, normalise, "normalise_obs")
        look: Any = {"cnn": cnn, "bf16": bf16, "normalise": normalise, "clip": clip}
        self.features = feature_net(spec, own.network, images=images, **look)
        self.images = sees_images(spec) and self.features is None
        self.masked = spec.masked
        whole = own.actor is not None or own.critic is not None
        self.raw = self.images or self.features is not None or whole  # observations reach the networks as they come
        if sees_images(spec) and normalise:
            raise CairnError("images are not normalised by running statistics; leave normalise_obs off.")
        shape = spec.obs_shape if not spec.masked else (spec.obs_shape[0] - spec.masked,)
        self.normalizer = Normalizer(shape, clip) if normalise and not self.raw else None
        self.width = math.prod(shape) if self.features is None else self.features.features

    def normalise(self, obs: Tensor) -> Tensor:
        """Observations [..., *shape] as the other methods take them."""
        if self.raw:
            return obs
        if self.normalizer is None:
            return obs.float()
        if not self.masked:
            out: Tensor = self.normalizer(obs)
            return out
        return torch.cat([self.normalizer(obs[..., : -self.masked]), obs[..., -self.masked :]], -1)

    def observe(self, rollout: Rollout) -> None:
        """Count the observations of valid steps towards the running statistics, where there are any."""
        if self.normalizer is not None:
            seen = rollout.obs[..., : -self.masked] if self.masked else rollout.obs
            self.normalizer.update(seen[rollout.valid])
        if self.features is not None and self.features.normalizer is not None:
            self.features.observe(rollout.obs[rollout.valid])

    def seen(self, obs: Tensor) -> Tensor:
        """What the layers read [B, width] of normalised observations [B, ...]."""
        if self.features is not None:
            out: Tensor = self.features(obs)
            return out
        return (obs[:, : -self.masked] if self.masked else obs.flatten(1)).float()
