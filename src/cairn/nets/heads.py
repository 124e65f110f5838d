"""Policy distributions with exact log-probabilities. Sampling takes a generator, so that runs are reproducible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from cairn.core.actions import Box, Discrete
from cairn.core.composite_actions import ActionSpec, Composite
from cairn.nets.joint import Joint

LOG_2PI = math.log(2 * math.pi)
FORBIDDEN = -1e9  # logit of a forbidden option: finite, so that its entropy is 0 and not NaN


class Distribution(Protocol):
    """B action distributions: `sample` and `mode` give actions [B] or [B, dim], `log_prob` and `entropy` [B]."""

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
        return (self.logits - noise.log()).argmax(-1)  # the Gumbel trick: no normalisation, no wait for the GPU

    def mode(self) -> Tensor:
        return self.logits.argmax(-1)

    def log_prob(self, action: Tensor) -> Tensor:
        return self.logits.log_softmax(-1).gather(-1, action[..., None].long())[..., 0]

    def entropy(self) -> Tensor:
        log_p = self.logits.log_softmax(-1)
        return -(log_p.exp() * log_p).sum(-1)


@dataclass(frozen=True)
class MultiCategorical:
    """Independent choices: logits [B, k, most] of at most `most` options each, action [B, k]."""

    logits: Tensor

    @classmethod
    def of(cls, logits: Tensor, nvec: Sequence[int]) -> MultiCategorical:
        """From the logits of all choices side by side, [B, sum of nvec]."""
        most = max(nvec)
        if min(nvec) == most:
            return cls(logits.unflatten(-1, (len(nvec), most)))
        parts = [F.pad(part, (0, most - part.shape[-1]), value=FORBIDDEN) for part in logits.split(list(nvec), -1)]
        return cls(torch.stack(parts, -2))

    def sample(self, generator: Generator) -> Tensor:
        return Categorical(self.logits).sample(generator)

    def mode(self) -> Tensor:
        return self.logits.argmax(-1)

    def log_prob(self, action: Tensor) -> Tensor:
        return Categorical(self.logits).log_prob(action).sum(-1)

    def entropy(self) -> Tensor:
        return Categorical(self.logits).entropy().sum(-1)


@dataclass(frozen=True)
class Gaussian:
    """Independent normal distributions; mean [B, dim], log_std [dim] or [B, dim], action [B, dim]."""

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


def distribution(action: ActionSpec, out: Tensor, log_std: Tensor, allowed: Tensor | None = None) -> Distribution:
    """π(·|s) over an action space from a network's output [B, action.outputs].

    log_std [dim] of the real numbers; allowed [B, options] bool, where options are forbidden at times.
    """
    if isinstance(action, Composite):
        parts, at, real, option = [], 0, 0, 0
        for part in action.parts:
            reals, options = part.outputs - sum(part.choices), sum(part.choices)
            mask = None if allowed is None else allowed[:, option : option + options]
            parts.append(distribution(part, out[:, at : at + part.outputs], log_std[real : real + reals], mask))
            at, real, option = at + part.outputs, real + reals, option + options
        return Joint(tuple(parts), tuple(part.shape_inside for part in action.parts))
    if isinstance(action, Box):
        return Gaussian(out, log_std)
    logits = out if allowed is None else out.masked_fill(~allowed, FORBIDDEN)
    return Categorical(logits) if isinstance(action, Discrete) else MultiCategorical.of(logits, action.nvec)
