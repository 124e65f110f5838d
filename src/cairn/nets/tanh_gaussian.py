"""The squashed Gaussian of soft actor-critic."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from cairn.nets.heads import LOG_2PI, Gaussian

LOG_STD = (-20.0, 2.0)  # bounds of log σ


@dataclass(frozen=True)
class TanhGaussian:
    """a = tanh(u), u ~ N(mean, std): actions in (-1, 1); log-probabilities by change of variables."""

    mean: Tensor
    log_std: Tensor

    def sample(self, generator: Generator) -> Tensor:
        noise = torch.empty_like(self.mean).normal_(generator=generator)
        return (self.mean + noise * self.log_std.exp()).tanh()

    def sample_with_log_prob(self, generator: Generator) -> tuple[Tensor, Tensor]:
        """Actions [B, dim] and log π(a) = Σ log N(u) - log(1 - tanh²u) [B], exact for any u."""
        noise = torch.empty_like(self.mean).normal_(generator=generator)
        u = self.mean + noise * self.log_std.exp()
        log_normal = -0.5 * noise.square() - self.log_std - 0.5 * LOG_2PI
        log_slope = 2.0 * (math.log(2.0) - u - F.softplus(-2.0 * u))
        return u.tanh(), (log_normal - log_slope).sum(-1)

    def mode(self) -> Tensor:
        return self.mean.tanh()

    def log_prob(self, action: Tensor) -> Tensor:
        u = action.clamp(-1 + 1e-6, 1 - 1e-6).atanh()
        log_slope = 2.0 * (math.log(2.0) - u - F.softplus(-2.0 * u))
        return Gaussian(self.mean, self.log_std).log_prob(u) - log_slope.sum(-1)

    def entropy(self) -> Tensor:
        raise ValueError("a tanh-Gaussian has no closed entropy; estimate it with -log_prob of a sample")
