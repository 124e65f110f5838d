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


def huber_td(q: Tensor, target: Tensor) -> Tensor:
    """E Huber(Q - y) with δ = 1; inputs [B]."""
    return F.smooth_l1_loss(q, target)


def temperature(log_alpha: Tensor, entropy: Tensor, target_entropy: float) -> Tensor:
    """α(H - H̄) through log α: α falls while the policy is more random than H̄ asks."""
    return log_alpha.exp() * (entropy.detach() - target_entropy)
