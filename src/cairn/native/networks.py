"""Networks with gradients written by hand, in torch: the reference of `compiled.py`, and its form without a compiler.

A layer is y = act(xW + b). With d the gradient of the loss by xW + b:  dW = xᵀd,  db = Σ d over the rows,  dx = dWᵀ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from cairn.nets.mlp import MLP, Linear
from cairn.nets.optim import Flat, Optimizer, lerp_


@dataclass(frozen=True)
class Layer:
    """One layer: W [in, out], b [out] and the gradients of both, all of them views into flat vectors."""

    weight: Tensor
    bias: Tensor
    weight_grad: Tensor
    bias_grad: Tensor


def layers_of(net: MLP | Linear, member: int | None = None) -> list[Layer]:
    """The layers of a network, or of one member of an ensemble."""
    stack = net.stack if isinstance(net, MLP) else [(net.weight, net.bias)]
    found = []
    for weight, bias in stack:
        assert weight.grad is not None and bias.grad is not None  # `Flat` made both
        parts = [weight.data, bias.data, weight.grad, bias.grad]
        w, b, dw, db = parts if member is None else [part[member] for part in parts]
        found.append(Layer(w, b.view(-1), dw, db.view(-1)))
    return found


class Net(Protocol):
    """A network. What a call returns is overwritten by the next call of the same method."""

    def forward(self, x: Tensor) -> Tensor:
        """[B, in] -> [B, out]."""

    def backward(
        self, grad: Tensor, *, learn: bool = True, inputs: int | None = None, pick: Tensor | None = None
    ) -> Tensor:
        """Gradients for the last `forward`, given that of its output [B, out].

        With `learn` those of weights and biases are written into the flat gradient. With `inputs` those of the inputs
        from that column on are returned. With `pick` [B'] only these rows count, `grad` is [B', out], and nothing is
        learned.
        """


class Core(Protocol):
    """The arithmetic that an update needs."""

    def net(self, layers: Sequence[Layer], hidden: int, activation: str) -> Net:
        """A network of these layers, the first `hidden` of them with an activation: relu or tanh."""

    def step(self, opt: Optimizer) -> None:
        """Adam with the gradient in `opt.flat.grad`."""

    def lerp(self, target: Flat, source: Flat, tau: float) -> None:
        """θ' ← (1-τ)θ' + τθ."""

    def toss(self, net: Net, x: Tensor, random: Tensor, dice: Tensor) -> Tensor:
        """Of each row of x [B, in] the argmax of the network's outputs; where `random` [B] bool, `dice` [B]."""

    def td(self, seen: Errors) -> Learned:
        """The gradient of the loss of Q-learning."""


@dataclass(frozen=True)
class Errors:
    """What the loss of Q-learning depends on: E w Huber(Q(s, a) - y), y = R + discount · judged[argmax chooser].

    q, judged, chooser [B, actions]; action, reward, discount [B]; weight [B] or None; `bounds` clip y.
    """

    q: Tensor
    judged: Tensor
    chooser: Tensor
    action: Tensor
    reward: Tensor
    discount: Tensor
    weight: Tensor | None
    bounds: tuple[float, ...] | None


@dataclass(frozen=True)
class Learned:
    """The gradient by q [B, actions], the loss [], the mean of Q(s, a) [] and |y - Q(s, a)| [B]."""

    q_grad: Tensor
    loss: Tensor
    mean: Tensor
    error: Tensor


class PlainNet:
    """`Net` in torch."""

    def __init__(self, layers: Sequence[Layer], hidden: int, activation: str) -> None:
        self.layers, self.hidden, self.tanh = layers, hidden, activation == "tanh"
        self.buffers: dict[int, list[Tensor]] = {}  # outputs of the layers, by the number of rows
        self.x = self.y = list[Tensor]()

    def forward(self, x: Tensor) -> Tensor:
        rows = len(x)
        if rows not in self.buffers:
            self.buffers[rows] = [torch.empty(rows, one.weight.shape[1]) for one in self.layers]
        self.y, self.x = self.buffers[rows], [x, *self.buffers[rows]]
        for depth, layer in enumerate(self.layers):
            y = torch.addmm(layer.bias, self.x[depth], layer.weight, out=self.y[depth])
            if depth < self.hidden:
                y.tanh_() if self.tanh else y.relu_()
        return self.y[-1]

    def backward(
        self, grad: Tensor, *, learn: bool = True, inputs: int | None = None, pick: Tensor | None = None
    ) -> Tensor:
        for depth in reversed(range(len(self.layers))):
            layer = self.layers[depth]
            if depth < self.hidden:
                y = self.y[depth] if pick is None else self.y[depth][pick]
                grad = grad * (1 - y * y) if self.tanh else grad * (y > 0)
            if learn:
                torch.mm(self.x[depth].t(), grad, out=layer.weight_grad)
                torch.sum(grad, 0, out=layer.bias_grad)
            if depth > 0:
                grad = grad @ layer.weight.t()
            elif inputs is not None:
                return grad @ layer.weight[inputs:].t()
        return grad


class PlainCore:
    """`Core` in torch."""

    def net(self, layers: Sequence[Layer], hidden: int, activation: str) -> Net:
        return PlainNet(layers, hidden, activation)

    def step(self, opt: Optimizer) -> None:
        opt.move()

    def lerp(self, target: Flat, source: Flat, tau: float) -> None:
        lerp_(target, source, tau)

    def toss(self, net: Net, x: Tensor, random: Tensor, dice: Tensor) -> Tensor:
        return torch.where(random, dice, net.forward(x).argmax(-1))

    def td(self, seen: Errors) -> Learned:
        target = seen.reward + seen.discount * seen.judged.gather(1, seen.chooser.argmax(-1, keepdim=True))[:, 0]
        if seen.bounds is not None:
            target = target.clamp(*seen.bounds)
        at = seen.action[:, None]
        q = seen.q.gather(1, at)[:, 0]
        error, each = q - target, F.smooth_l1_loss(q, target, reduction="none")
        slope = error.clamp(-1, 1) / len(q)
        if seen.weight is not None:
            slope, each = slope * seen.weight, each * seen.weight
        grad = torch.zeros_like(seen.q).scatter_(1, at, slope[:, None])
        return Learned(grad, each.mean(), q.mean(), error.abs())
