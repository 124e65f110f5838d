"""The convolutional network that read Atari screens first (Mnih et al. 2015)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cairn.core.types import Spec
from cairn.nets.mlp import Linear, orthogonal_

LAYERS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # channels, kernel, stride
FEATURES = 512
SMALLEST = 36  # pixels a side that the three layers need
AT_ONCE = 512  # images that pass together where no gradient is wanted: they need not fit into memory all at once


def sees_images(spec: Spec) -> bool:
    """Whether observations are images for `NatureCNN`: three axes of bytes, channels first or last, large enough."""
    return spec.obs_dtype == "uint8" and len(spec.obs_shape) == 3 and min(sorted(spec.obs_shape)[1:]) >= SMALLEST


class Convolution(nn.Module):
    """Kernels [out, in, k, k] laid over the image every `stride` pixels, and a bias; in the precision of the image."""

    def __init__(self, fan_in: int, fan_out: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.weight = nn.Parameter(torch.empty(fan_out, fan_in, kernel, kernel))
        self.bias = nn.Parameter(torch.empty(fan_out))
        bound = 1 / math.sqrt(fan_in * kernel**2)  # torch's own default
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor, unit: float = 1.0) -> Tensor:
        """`unit` is what counts as 1 in the image."""
        weight = self.weight if unit == 1.0 else self.weight / unit
        return F.conv2d(x, weight.to(x.dtype), self.bias.to(x.dtype), self.stride)


class NatureCNN(nn.Module):
    """Images [B, channels, height, width] of bytes, or channels last -> [B, 512]; with `fan_out` -> [B, fan_out].

    Bytes become numbers from 0 to 1 by way of the first layer's weights, which are fewer. Channels lie last in memory:
    on a CPU that is half as fast again. With `bf16` all but the last product is done in half precision; parameters,
    their gradients and what comes out are whole.
    """

    def __init__(self, spec: Spec, fan_out: int | None = None, *, bf16: bool = False, orthogonal: bool = False) -> None:
        super().__init__()
        self.last = spec.obs_shape[-1] < spec.obs_shape[0]  # channels
        self.dtype = torch.bfloat16 if bf16 else torch.float32
        channels, *sides = (spec.obs_shape[-1], *spec.obs_shape[:-1]) if self.last else spec.obs_shape
        self.stack = []
        for width, kernel, stride in LAYERS:
            self.stack.append(Convolution(channels, width, kernel, stride))
            channels, sides = width, [(side - kernel) // stride + 1 for side in sides]
        self.convolutions = nn.ModuleList(self.stack)
        self.dense = Linear(channels * math.prod(sides), FEATURES)
        self.out = None if fan_out is None else Linear(FEATURES, fan_out)
        if orthogonal:
            for layer in self.stack:
                nn.init.orthogonal_(layer.weight, math.sqrt(2))
                nn.init.zeros_(layer.bias)
            orthogonal_(self.dense, math.sqrt(2))

    def forward(self, images: Tensor) -> Tensor:
        if torch.is_grad_enabled() or len(images) <= AT_ONCE:
            return self._read(images)
        return torch.cat([self._read(part) for part in torch.split(images, AT_ONCE)])

    def _read(self, images: Tensor) -> Tensor:
        x = images.permute(0, 3, 1, 2) if self.last else images
        x = x.to(self.dtype, memory_format=torch.channels_last)
        x = self.stack[0](x, unit=255.0).relu_()
        for layer in self.stack[1:]:
            x = layer(x).relu_()
        weight, bias = self.dense.weight.to(self.dtype), self.dense.bias.to(self.dtype)
        x = torch.addmm(bias, x.flatten(1), weight).relu_().float()
        return x if self.out is None else self.out(x)
