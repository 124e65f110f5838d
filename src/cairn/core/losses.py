"""Losses as pure functions; each docstring is the equation."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def clipped_surrogate(ratio: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """-E min(ρA, clip(ρ, 1-ε, 1+ε)A), PPO equation 7; inputs [B]."""
    return -torch.min(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage).mean()


def clipped_value(value: Tensor, old_value: Tensor, target: Tensor, clip: float) -> Tensor:
    """E max((V - R)², (V_old + clip(V - V_old, ±ε) - R)²), clipped around the OLD value; inputs [B]."""
    near = old_value + (value - old_value).clamp(-clip, clip)
    return torch.max((value - target).square(), (near - target).square()).mean()


def policy_gradient(log_prob: Tensor, advantage: Tensor) -> Tensor:
    """-E log π(a|s) A; inputs [B], A carries no gradient."""
    return -(log_prob * advantage).mean()


def twin_q(q: Tensor, target: Tensor) -> Tensor:
    """Σᵢ ½E(Qᵢ - y)²; q is [E, B], target [B]."""
    return 0.5 * (q - target).square().mean(1).sum()


def twin_huber(q: Tensor, target: Tensor) -> Tensor:
    """Σᵢ E Huber(Qᵢ - y) with δ = 1; q is [E, B], target [B]."""
    return F.smooth_l1_loss(q, target.expand_as(q), reduction="none").mean(1).sum()


def huber_td(q: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
    """E w Huber(Q - y) with δ = 1; inputs [B]."""
    if weight is None:
        return F.smooth_l1_loss(q, target)
    return (weight * F.smooth_l1_loss(q, target, reduction="none")).mean()


def quantile_huber(z: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
    """E w Σᵢ Eⱼ |τᵢ - 1{yⱼ < zᵢ}| Huber(yⱼ - zᵢ), τᵢ = (i - ½)/K: QR-DQN, equation 10; z [B, K], target [B, K']."""
    tau = (torch.arange(z.shape[1], device=z.device, dtype=z.dtype) + 0.5) / z.shape[1]
    z, target = z[:, :, None], target[:, None, :]
    far = F.smooth_l1_loss(z.expand(-1, -1, target.shape[2]), target.expand(-1, z.shape[1], -1), reduction="none")
    each = ((tau[:, None] - (target < z).to(z.dtype)).abs() * far).mean(2).sum(1)
    return each.mean() if weight is None else (weight * each).mean()


def importance(weight: Tensor, beta: float) -> Tensor:
    """wᵝ / max wᵝ with w = 1/(N P(i)), at most 1 (Schaul et al. 2016, section 3.4); weight [B]."""
    return (weight / weight.max()) ** beta


def temperature(log_alpha: Tensor, entropy: Tensor, target_entropy: float) -> Tensor:
    """α(H - H̄) through log α: gradient descent lowers α while the entropy H is above its target H̄."""
    return log_alpha.exp() * (entropy.detach() - target_entropy)
