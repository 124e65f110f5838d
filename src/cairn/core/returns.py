"""Returns and advantages. Termination ends the sum; truncation bootstraps from the value of the successor."""

from __future__ import annotations

import torch
from torch import Tensor


def discounted(reward: Tensor, terminated: Tensor, truncated: Tensor, last_value: Tensor, *, gamma: float) -> Tensor:
    """Gₜ = rₜ + γ Gₜ₊₁ within an episode, rₜ + γ V(s'ₜ) where it is truncated, rₜ where it terminates.

    Every input is [T, N]; `last_value` is V(s'ₜ), used where the episode is truncated and at t = T-1.
    """
    out = torch.empty_like(reward)
    follow = last_value[-1]
    for t in range(len(reward) - 1, -1, -1):
        follow = torch.where(truncated[t], last_value[t], follow)
        follow = torch.where(terminated[t], torch.zeros_like(follow), follow)
        follow = reward[t] + gamma * follow
        out[t] = follow
    return out


def gae(
    reward: Tensor,
    value: Tensor,
    next_value: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    *,
    gamma: float,
    lam: float,
) -> Tensor:
    """Aₜ = δₜ + γλ(1-endₜ)Aₜ₊₁ with δₜ = rₜ + γ(1-termₜ)V(s'ₜ) - V(sₜ); every input is [T, N]."""
    delta = reward + gamma * ~terminated * next_value - value
    carry = gamma * lam * ~(terminated | truncated)
    out = torch.empty_like(reward)
    advantage = torch.zeros_like(reward[0])
    for t in range(len(reward) - 1, -1, -1):
        advantage = torch.addcmul(delta[t], carry[t], advantage)
        out[t] = advantage
    return out


def n_step(reward: Tensor, ended: Tensor, terminated: Tensor, *, gamma: float) -> tuple[Tensor, Tensor, Tensor]:
    """R = Σ γⁱrᵢ up to the first end among n steps, its discount γᵏ(1 - term), and k-1, the index of the last step.

    reward, ended, terminated are [n, B]; returns three tensors [B]. `ended` must be True wherever the sum has to stop.
    """
    n = len(reward)
    alive = torch.cat([torch.ones_like(ended[:1]), ~ended[:-1]]).cumprod(0)  # 1 while step i belongs to the sum
    powers = gamma ** torch.arange(n + 1, dtype=reward.dtype, device=reward.device)
    total = (reward * alive * powers[:n, None]).sum(0)
    last = alive.sum(0).long() - 1
    stop = terminated.gather(0, last[None])[0]
    return total, powers[last + 1] * ~stop, last
