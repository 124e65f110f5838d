"""Running mean and variance, for observations and returns."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cairn.core.learners import gathered, shared
from cairn.core.types import Rollout


class Normalizer(nn.Module):
    """y = clip((x - mean) / std, ±clip), updated by Chan's parallel formula; identity until the first update."""

    mean: Tensor
    var: Tensor
    count: Tensor

    def __init__(self, shape: tuple[int, ...], clip: float = 10.0) -> None:
        super().__init__()
        self.clip = clip
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("var", torch.ones(shape, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    @torch.no_grad()
    def update(self, x: Tensor) -> None:
        """Update the statistics with x [..., *shape] of all learners; each leading entry counts once."""
        x = x.reshape(-1, *self.mean.shape).double()
        if shared() is not None:
            sizes, means, variances = _of_all(x)
            for i, size in enumerate(sizes):
                self._merge(size, means[i], variances[i])
        elif len(x):
            self._merge(len(x), x.mean(0), x.var(0, correction=0))

    def _merge(self, size: int, mean: Tensor, var: Tensor) -> None:
        total = self.count + size
        delta = mean - self.mean
        spread = self.var * self.count + var * size + delta.square() * self.count * size / total
        self.mean += delta * (size / total)
        self.var.copy_(spread / total)
        self.count.copy_(total)

    @property
    def std(self) -> Tensor:
        """Standard deviation [*shape], float32."""
        return (self.var + 1e-8).sqrt().float()

    def forward(self, x: Tensor) -> Tensor:
        """Normalise x [..., *shape]."""
        return ((x - self.mean.float()) / self.std).clamp(-self.clip, self.clip)


def _of_all(x: Tensor) -> tuple[list[int], Tensor, Tensor]:
    """Number, mean and variance of the rows of each learner that has any."""
    told = torch.stack([x.mean(0), x.var(0, correction=0)]) if len(x) else x.new_zeros(2, *x.shape[1:])
    sizes = gathered(torch.tensor(float(len(x)), device=x.device)).long()
    means, variances = gathered(told)[sizes > 0].unbind(1)
    return sizes[sizes > 0].tolist(), means, variances


class ReturnScale(nn.Module):
    """Divides rewards by the standard deviation of the discounted return, summed per environment."""

    def __init__(self, gamma: float, clip: float = 10.0) -> None:
        super().__init__()
        self.gamma, self.clip = gamma, clip
        self.scale = Normalizer(())
        self.open: Tensor | None = None  # [N]; zero after a resume, because all episodes begin anew

    @torch.no_grad()
    def forward(self, rollout: Rollout) -> Tensor:
        """Update the statistics with a rollout and return its scaled rewards [T, N]."""
        fits = self.open is not None and self.open.shape == rollout.reward[0].shape  # else the environments changed
        running = self.open if fits else torch.zeros_like(rollout.reward[0])
        seen = torch.empty_like(rollout.reward)
        going = self.gamma * ~(rollout.terminated | rollout.truncated)
        for t, reward in enumerate(rollout.reward):
            running = running + reward
            seen[t] = running
            running = running * going[t]
        self.open = running
        self.scale.update(seen[rollout.valid])
        return (rollout.reward / self.scale.std).clamp(-self.clip, self.clip)
