"""Multi-layer perceptrons, single or as an ensemble whose members share one batched product per layer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Activation = Literal["relu", "tanh", "silu", "elu", "gelu"]


class FastTanh(torch.autograd.Function):
    """tanh x = 2σ(2x) - 1: equal to 1e-7, and on a CPU several times as fast as torch.tanh."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return tanh x."""
        y = (2.0 * x).sigmoid_().mul_(2.0).sub_(1.0)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        """The gradient by x."""
        (y,) = ctx.saved_tensors
        out: Tensor = torch.ops.aten.tanh_backward(grad, y)
        return out


_fast_tanh: Callable[[Tensor], Tensor] = FastTanh.apply


def tanh(x: Tensor) -> Tensor:
    """Return tanh x, by `FastTanh` for large tensors on a CPU."""
    if x.is_cuda or x.numel() < 2**16:
        return x.tanh()
    return _fast_tanh(x)


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "tanh": tanh,
    "silu": F.silu,
    "elu": F.elu,
    "gelu": F.gelu,
}


class Linear(nn.Module):
    """y = xW + b. With `members`, that many layers at once: x is [E, B, in] or shared [B, in], y is [E, B, out]."""

    def __init__(self, fan_in: int, fan_out: int, members: int | None = None) -> None:
        super().__init__()
        lead = () if members is None else (members,)
        self.weight = nn.Parameter(torch.empty(*lead, fan_in, fan_out))
        self.bias = nn.Parameter(torch.empty(*lead, *([] if members is None else [1]), fan_out))
        bound = 1 / math.sqrt(fan_in)  # the default of torch.nn.Linear
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        """[B, in] -> [B, out], or [E, B, out] with members."""
        return affine(x, self.weight, self.bias)


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Compute xW + b for one layer (W is [in, out]) or for E at once (W is [E, in, out])."""
    if weight.dim() == 2:
        return torch.addmm(bias, x, weight)
    if weight.shape[-1] == 1:  # one column each: a product and a sum are faster than a matrix product
        return (x * weight.transpose(1, 2)).sum(-1, keepdim=True) + bias
    return torch.baddbmm(bias, x.expand(len(weight), *x.shape[-2:]), weight)


class MLP(nn.Module):
    """[B, in] -> [B, out]; with `members` an ensemble of such networks, [B, in] -> [E, B, out].

    All members run in one batched product per layer. If `fan_out` is None, the output is that of the last hidden layer.
    """

    def __init__(
        self,
        fan_in: int,
        hidden: Sequence[int],
        fan_out: int | None,
        *,
        members: int | None = None,
        activation: Activation = "relu",
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        widths = [fan_in, *hidden] + ([] if fan_out is None else [fan_out])
        layers = [Linear(a, b, members) for a, b in pairwise(widths)]
        self.layers = nn.ModuleList(layers)
        self.hidden = len(hidden)
        self.activation = _ACTIVATIONS[activation]
        self.layer_norm = layer_norm
        # For small networks, Python's overhead dominates: a list of parameters is faster to walk than nested modules.
        self.stack = [(layer.weight, layer.bias) for layer in layers]

    def orthogonal_(self, gain: float) -> None:
        """Apply `orthogonal_` to every layer."""
        for weight, bias in self.stack:
            _orthogonal(weight, bias, gain)

    def forward(self, x: Tensor, frozen: bool = False, member: int | None = None) -> Tensor:
        """Run all members, or only `member` of an ensemble: [B, in] -> [B, out].

        `frozen` passes gradients to x but not to the weights, as the loss of an actor needs it of its critic.
        """
        for depth, (weight, bias) in enumerate(self.stack):
            if frozen:
                x = affine(x, weight.detach(), bias.detach())
            elif member is not None:
                x = affine(x, weight[member], bias[member, 0])
            else:
                x = affine(x, weight, bias)
            if depth < self.hidden:
                if self.layer_norm:
                    x = F.layer_norm(x, bias.shape[-1:])
                x = self.activation(x)
        return x


def flat(obs: Tensor) -> Tensor:
    """[B, ...] of any type -> [B, width] float."""
    return obs.flatten(1).float()


def orthogonal_(layer: Linear, gain: float) -> None:
    """Initialise with orthogonal weights, for each member, and zero biases, as on-policy agents do."""
    _orthogonal(layer.weight, layer.bias, gain)


def _orthogonal(weight: Tensor, bias: Tensor, gain: float) -> None:
    for member in weight.data.view(-1, *weight.shape[-2:]):
        nn.init.orthogonal_(member, gain)
    nn.init.zeros_(bias)
