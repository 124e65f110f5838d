"""Multi-layer perceptrons, single and as an ensemble whose members run in one batched product."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Activation = Literal["relu", "tanh", "silu"]
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu, "tanh": torch.tanh, "silu": F.silu}


class Linear(nn.Module):
    """y = xW + b for `members` independent layers: x is [E, B, in], or [B, in] shared by all; y is [E, B, out]."""

    def __init__(self, members: int, fan_in: int, fan_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(members, fan_in, fan_out))
        self.bias = nn.Parameter(torch.empty(members, 1, fan_out))
        bound = 1 / math.sqrt(fan_in)  # torch's own default for a linear layer
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        return affine(x, self.weight, self.bias)


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    if len(weight) == 1:
        return torch.addmm(bias[0], x.view(-1, x.shape[-1]), weight[0])[None]
    return torch.baddbmm(bias, x.expand(len(weight), *x.shape[-2:]), weight)


class Ensemble(nn.Module):
    """`members` MLPs of the same shape; [B, in] -> [E, B, out]. One product a layer does the work of all.

    Where `fan_out` is None the output is that of the last hidden layer.
    """

    def __init__(
        self,
        members: int,
        fan_in: int,
        hidden: Sequence[int],
        fan_out: int | None,
        *,
        activation: Activation = "relu",
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        widths = [fan_in, *hidden] + ([] if fan_out is None else [fan_out])
        layers = [Linear(members, a, b) for a, b in pairwise(widths)]
        self.layers = nn.ModuleList(layers)
        self.hidden = len(hidden)
        self.activation = _ACTIVATIONS[activation]
        self.layer_norm = layer_norm
        # Small networks spend their time in Python: walk the parameters themselves, not three modules deep.
        self.stack = [(layer.weight, layer.bias) for layer in layers]

    def forward(self, x: Tensor, frozen: bool = False, member: int | None = None) -> Tensor:
        """[B, in] -> [E, B, out], or [1, B, out] of one `member` alone.

        `frozen` lets gradients pass to x but not to the weights: what an actor's loss wants of its critic.
        """
        one = slice(None) if member is None else slice(member, member + 1)
        for depth, (weights, biases) in enumerate(self.stack):
            weight, bias = (weights, biases) if member is None else (weights[one], biases[one])
            x = affine(x, weight.detach(), bias.detach()) if frozen else affine(x, weight, bias)
            if depth < self.hidden:
                if self.layer_norm:
                    x = F.layer_norm(x, x.shape[-1:])
                x = self.activation(x)
        return x


class MLP(Ensemble):
    """An ensemble of one: [B, in] -> [B, out]."""

    def __init__(
        self,
        fan_in: int,
        hidden: Sequence[int],
        fan_out: int | None,
        *,
        activation: Activation = "relu",
        layer_norm: bool = False,
    ) -> None:
        super().__init__(1, fan_in, hidden, fan_out, activation=activation, layer_norm=layer_norm)

    def forward(self, x: Tensor, frozen: bool = False, member: int | None = None) -> Tensor:
        return super().forward(x, frozen)[0]


def flat(obs: Tensor) -> Tensor:
    """[B, ...] of any type -> [B, width] float."""
    return obs.flatten(1).float()


def orthogonal_(layer: Linear, gain: float) -> None:
    """Orthogonal weights and zero biases, member by member: the initialisation on-policy agents want."""
    for weight in layer.weight.data:
        nn.init.orthogonal_(weight, gain)
    nn.init.zeros_(layer.bias)
