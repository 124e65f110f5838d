"""How well a critic and a network's units are: what is logged of them, and asked only when it is written."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from cairn.nets.cnn import CNN
from cairn.nets.mlp import MLP, affine


def critic_diagnostics(net: nn.Module, obs: Tensor, value: Tensor, target: Tensor) -> dict[str, Callable[[], Tensor]]:
    """Of an actor-critic, from what its value was for some observations and what it should have been."""
    return {
        "train/explained_variance": lambda: explained_variance(value, target),
        "train/dead_units": lambda: dead_units((net, obs[:64])),
    }


def explained_variance(value: Tensor, target: Tensor) -> Tensor:
    """1 - Var[R - V] / Var[R]: 1 where V tells returns apart as they fall out, 0 where it might as well be a constant.

    Returns that are alike to 3 % leave nothing to explain, and count as explained.
    """
    spread = target.var(correction=0)
    left = (target - value).var(correction=0)
    return torch.where(spread > 1e-3 * target.square().mean(), 1 - left / spread, torch.ones_like(spread))


def dead_units(*shown: tuple[nn.Module, Tensor]) -> Tensor:
    """The share of a network's hidden units that are 0 for every row of [B, ...]; of several networks, the largest.
    No gradient reaches a ReLU unit that is 0 whatever it is shown, so it stays so.

    An ensemble's units all count; of a convolution those of its dense layer do. Tanh and SiLU give no unit to count.
    """
    silent = [torch.cat([(y == 0).all(-2).flatten() for y in hidden(net, x)]) for net, x in shown]
    return torch.stack([x.float().mean() for x in silent]).amax()


@torch.no_grad()
def hidden(net: nn.Module, x: Tensor) -> list[Tensor]:
    """What each hidden layer gives, [B, units] or, of an ensemble, [E, B, units]."""
    body = next(part for part in net.modules() if isinstance(part, (MLP, CNN)))
    if isinstance(body, CNN):
        found: list[Tensor] = []
        if body.out is None:
            return [body(x)]
        hook = body.out.register_forward_pre_hook(lambda _, args: found.append(args[0]))
        try:
            body(x)
        finally:
            hook.remove()
        return found
    layers, x = [], x.flatten(1)
    for weight, bias in body.stack[: body.hidden]:
        x = affine(x, weight, bias)
        x = body.activation(torch.nn.functional.layer_norm(x, x.shape[-1:]) if body.layer_norm else x)
        layers.append(x)
    return layers
