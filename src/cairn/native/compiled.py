"""The same arithmetic as `networks.py`, by the library that was compiled from `core.cpp`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_float, c_void_p
from typing import Any

import torch
from torch import Tensor

from cairn.native.library import MOST, NetStruct
from cairn.native.networks import Errors, Layer, Learned, Net
from cairn.nets.optim import Flat, Optimizer


class CompiledNet:
    """`Net` in C++. The struct holds addresses, so the tensors behind them are kept here."""

    def __init__(self, lib: Any, layers: Sequence[Layer], hidden: int, activation: str) -> None:
        self.lib, self.layers = lib, layers
        self.widths = [layers[0].weight.shape[0], *(one.weight.shape[1] for one in layers)]
        self.struct = NetStruct(layers=len(layers), hidden=hidden, tanh=int(activation == "tanh"))
        self.at = byref(self.struct)
        for i, width in enumerate(self.widths):
            self.struct.width[i] = width
        for i, one in enumerate(layers):
            parts = {"weight": one.weight, "bias": one.bias, "weight_grad": one.weight_grad, "bias_grad": one.bias_grad}
            for name, tensor in parts.items():
                assert tensor.is_contiguous()
                getattr(self.struct, name)[i] = tensor.data_ptr()
        self.rows = 0  # room in the buffers
        self.y = list[Tensor]()
        self.scratch = list[Tensor]()
        self.views: dict[int, Tensor] = {}  # of the output, by the number of rows
        self.x = torch.empty(0, self.widths[0])
        self.x_grad = torch.empty(0)

    def reserve(self, rows: int) -> None:
        """Make room for this many rows."""
        if rows <= self.rows:
            return
        self.rows, self.views = rows, {}
        self.y = [torch.empty(rows, width) for width in self.widths[1:]]
        self.scratch = [torch.empty(rows, max(self.widths)) for _ in range(2)]
        for i, tensor in enumerate(self.y):
            self.struct.y[i] = tensor.data_ptr()
        for i, tensor in enumerate(self.scratch):
            self.struct.scratch[i] = tensor.data_ptr()

    def forward(self, x: Tensor) -> Tensor:
        x = _in_rows(x)
        rows = x.shape[0]
        self.reserve(rows)
        self.x = x
        self.lib.forward(self.at, x.data_ptr(), x.stride(0), rows)
        out = self.views.get(rows)
        if out is None:
            out = self.views[rows] = self.y[-1][:rows]
        return out

    def backward(
        self, grad: Tensor, *, learn: bool = True, inputs: int | None = None, pick: Tensor | None = None
    ) -> Tensor:
        grad, rows = grad.contiguous(), len(grad)
        start, address = 0, None
        if inputs is not None:
            start = inputs
            self.x_grad = torch.empty(rows, self.widths[0] - inputs)
            address = self.x_grad.data_ptr()
        which = None if pick is None else pick.data_ptr()
        x = self.x
        self.lib.backward(self.at, x.data_ptr(), x.stride(0), grad.data_ptr(), rows, learn, address, start, which)
        return self.x_grad


def _in_rows(x: Tensor) -> Tensor:
    """x [B, in], copied where the numbers of a row are not side by side."""
    return x.contiguous() if x.stride(1) != 1 or x.stride(0) < x.shape[1] else x


class CompiledCore:
    """`Core` in C++."""

    def __init__(self, lib: ctypes.CDLL) -> None:
        self.lib = lib
        self.rows: tuple[int, int] = (0, 0)  # of the buffers of `td`
        self.q_grad = self.told = self.error = torch.empty(0)

    def net(self, layers: Sequence[Layer], hidden: int, activation: str) -> Net:
        assert len(layers) <= MOST
        return CompiledNet(self.lib, layers, hidden, activation)

    def step(self, opt: Optimizer) -> None:
        flat = opt.flat
        parts = [one.data_ptr() for one in (flat.data, flat.grad, opt.first, opt.second, opt.count)]
        self.lib.adam(*parts, flat.data.numel(), opt.lr, opt.eps, opt.max_norm or 0.0)

    def lerp(self, target: Flat, source: Flat, tau: float) -> None:
        self.lib.lerp(target.data.data_ptr(), source.data.data_ptr(), target.data.numel(), tau)

    def toss(self, net: Net, x: Tensor, random: Tensor, dice: Tensor) -> Tensor:
        assert isinstance(net, CompiledNet)
        x, rows = _in_rows(x), len(x)
        net.reserve(rows)
        self.lib.toss(net.at, x.data_ptr(), x.stride(0), rows, random.data_ptr(), dice.data_ptr())
        return dice

    def td(self, seen: Errors) -> Learned:
        rows, actions = seen.q.shape
        if self.rows != (rows, actions):
            self.rows = rows, actions
            self.q_grad, self.told, self.error = torch.empty(rows, actions), torch.empty(2), torch.empty(rows)
        fields: list[Any] = []
        for one in (seen.action, seen.reward, seen.discount, seen.weight):
            fields += [c_void_p(None), 0] if one is None else [one.data_ptr(), one.stride(0)]
        bounds = None if seen.bounds is None else (c_float * 2)(*seen.bounds)
        out = self.q_grad.data_ptr(), self.told.data_ptr(), self.error.data_ptr()
        shown = seen.q.data_ptr(), seen.judged.data_ptr(), seen.chooser.data_ptr()
        self.lib.td(*shown, *fields, bounds, rows, actions, *out)
        return Learned(self.q_grad, self.told[0], self.told[1], self.error)
