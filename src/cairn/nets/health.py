"""Diagnostics of critics and hidden units, computed only when a log is due."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from cairn.nets.cnn import CNN
from cairn.nets.mlp import MLP, affine


def critic_diagnostics(net: nn.Module, obs: Tensor, value: Tensor, target: Tensor) -> dict[str, Callable[[], Tensor]]:
    """Explained variance and dead units of an actor-critic, from values [B] and their targets [B]."""
    return {
        "train/explained_variance": lambda: explained_variance(value, target),
        "train/dead_units": lambda: dead_units((net, obs[:64])),
    }


def explained_variance(value: Tensor, target: Tensor) -> Tensor:
    """1 - Var[R - V] / Var[R], at most 1; returns that differ by less than 3 % count as explained."""
    spread = target.var(correction=0)
    left = (target - value).var(correction=0)
    return torch.where(spread > 1e-3 * target.square().mean(), 1 - left / spread, torch.ones_like(spread))


def dead_units(*shown: tuple[nn.Module, Tensor]) -> Tensor:
    """The share of hidden units that are 0 for every row of an input [B, ...]; the largest of several networks.

    A dead ReLU unit gets no gradient. An ensemble counts the units of all members, a CNN those of its dense layer.
    """
    silent = [torch.cat([(y == 0).all(-2).flatten() for y in hidden(net, x)]) for net, x in shown]
    return torch.stack([x.float().mean() for x in silent]).amax()


@torch.no_grad()
def hidden(net: nn.Module, x: Tensor) -> list[Tensor]:
    """The outputs of each hidden layer: [B, units], or [E, B, units] for an ensemble."""
    body = next((part for part in net.modules() if isinstance(part, (MLP, CNN))), None)
    if body is None:  # a network of the user's own
        return [torch.ones(1, 1)]
    x = _input_of(body, net, x)
    if isinstance(body, CNN):
        return [_input_of(body.out, body, x) if body.out is not None else body(x)]
    layers = []
    for weight, bias in body.stack[: body.hidden]:
        x = affine(x, weight, bias)
        x = body.activation(torch.nn.functional.layer_norm(x, x.shape[-1:]) if body.layer_norm else x)
        layers.append(x)
    return layers


def _input_of(part: nn.Module, net: nn.Module, x: Tensor) -> Tensor:
    """What reaches a part of a network when the network is given x; x itself if the part is the network."""
    if part is net:
        return x
    found: list[Tensor] = []
    hook = part.register_forward_pre_hook(lambda _, args: found.append(args[0]))
    try:
        net(x)
    finally:
        hook.remove()
    return found[0]
