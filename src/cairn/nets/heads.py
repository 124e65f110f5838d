"""Policy distributions with exact log-probabilities. Sampling takes its generator: no hidden randomness."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

LOG_2PI = math.log(2 * math.pi)


class Distribution(Protocol):
    """A batch of B action distributions."""

    def sample(self, generator: Generator) -> Tensor: ...
    def mode(self) -> Tensor: ...
    def log_prob(self, action: Tensor) -> Tensor: ...
    def entropy(self) -> Tensor: ...


@dataclass(frozen=True)
class Categorical:
    """π(a) = softmax(logits); logits [B, n], action [B]."""

    logits: Tensor

    def sample(self, generator: Generator) -> Tensor:
        noise = torch.empty_like(self.logits).exponential_(generator=generator)
        return (self.logits - noise.log()).argmax(-1)  # the Gumbel trick: no normalisation, no host round trip

    def mode(self) -> Tensor:
        return self.logits.argmax(-1)

    def log_prob(self, action: Tensor) -> Tensor:
        return self.logits.log_softmax(-1).gather(-1, action[..., None])[..., 0]

    def entropy(self) -> Tensor:
        log_p = self.logits.log_softmax(-1)
        return -(log_p.exp() * log_p).sum(-1)


@dataclass(frozen=True)
class Gaussian:
    """Independent normals; mean [B, dim], log_std [dim] or [B, dim], action [B, dim]."""

    mean: Tensor
    log_std: Tensor

    def sample(self, generator: Generator) -> Tensor:
        noise = torch.empty_like(self.mean).normal_(generator=generator)
        return self.mean + noise * self.log_std.exp()

    def mode(self) -> Tensor:
        return self.mean

    def log_prob(self, action: Tensor) -> Tensor:
        z = (action - self.mean) * (-self.log_std).exp()
        return (-0.5 * z.square() - self.log_std - 0.5 * LOG_2PI).sum(-1)

    def entropy(self) -> Tensor:
        return (self.log_std + 0.5 + 0.5 * LOG_2PI).expand_as(self.mean).sum(-1)


@dataclass(frozen=True)
class TanhGaussian:
    """a = tanh(u), u ~ N(mean, std): actions in (-1, 1) with the log-probability of the change of variables."""

    mean: Tensor
    log_std: Tensor

    def sample(self, generator: Generator) -> Tensor:
        noise = torch.empty_like(self.mean).normal_(generator=generator)
        return (self.mean + noise * self.log_std.exp()).tanh()

    def sample_with_log_prob(self, generator: Generator) -> tuple[Tensor, Tensor]:
        """log π(a) = Σ log N(u) - log(1 - tanh²u), the last term as 2(log 2 - u - softplus(-2u)): exact at any u."""
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
