"""Convolutional networks that read images: the one that read Atari screens first, and a deeper one of residual blocks.

Parameters, their gradients and what comes out are whole; with `bf16` all but the last product is in half precision.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cairn.core.errors import CairnError
from cairn.core.types import Spec
from cairn.nets.mlp import Linear, orthogonal_

LAYERS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # channels, kernel, stride
BLOCKS = (16, 32, 32)  # channels
SMALLEST = 36  # pixels a side that the three layers need
AT_ONCE = (512, 8192)  # images that pass together on a CPU, on a GPU, where no gradient is wanted: memory is finite

Vision = Literal["nature", "impala"]


def sees_images(spec: Spec) -> bool:
    """Whether observations are images for these: three axes of bytes, channels first or last, large enough."""
    return spec.obs_dtype == "uint8" and len(spec.obs_shape) == 3 and min(sorted(spec.obs_shape)[1:]) >= SMALLEST


def no_images(spec: Spec, who: str) -> None:
    """CairnError where an agent without convolutions is shown images."""
    if sees_images(spec):
        raise CairnError(f"{who} does not support image observations; use dqn, ppo or a2c.")


class Convolution(nn.Module):
    """Kernels [out, in, k, k] laid over the image every `stride` pixels, and a bias; in the precision of the image."""

    def __init__(self, fan_in: int, fan_out: int, kernel: int, stride: int = 1, padding: int = 0) -> None:
        super().__init__()
        self.stride, self.padding = stride, padding
        self.weight = nn.Parameter(torch.empty(fan_out, fan_in, kernel, kernel))
        self.bias = nn.Parameter(torch.empty(fan_out))
        bound = 1 / math.sqrt(fan_in * kernel**2)  # torch's own default
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor, unit: float = 1.0) -> Tensor:
        """`unit` is what counts as 1 in the image."""
        weight = self.weight if unit == 1.0 else self.weight / unit
        return F.conv2d(x, weight.to(x.dtype), self.bias.to(x.dtype), self.stride, self.padding)

    def on_blocks(self, x: Tensor, unit: float = 1.0, *, whole_pixels: bool = False) -> Tensor:
        """The same of what `blocks` made of bytes, or `squares` of `whole_pixels`: a kernel of blocks laid on each."""
        side, (fan_out, fan_in, kernel, _) = self.stride, self.weight.shape
        assert self.padding == 0 and kernel % side == 0
        many = kernel // side
        weight = self.weight if unit == 1.0 else self.weight / unit
        weight = weight.view(fan_out, fan_in, many, side, many, side)
        weight = weight.permute((0, 3, 5, 1, 2, 4) if whole_pixels else (0, 1, 3, 5, 2, 4))
        weight = weight.reshape(fan_out, -1, many, many)
        return F.conv2d(x, weight.to(x.dtype), self.bias.to(x.dtype))


def blocks(images: Tensor) -> Tensor:
    """Bytes [B, channels, height, width] -> [B, 16 channels, height / 4, width / 4]: pixels of a square as channels.

    Four bytes of a row move as one number: of a square's channels the last to change is the image's own.
    """
    batch, channels, height, width = images.shape
    rows = images.reshape(-1).contiguous().view(torch.int32).view(batch, channels, height // 4, 4, width // 4)
    found = rows.permute(0, 2, 4, 1, 3).reshape(-1).contiguous().view(torch.uint8)
    return found.view(batch, height // 4, width // 4, channels * 16).permute(0, 3, 1, 2)


def squares(x: Tensor, side: int) -> Tensor:
    """[B, channels, height, width], channels last in memory -> the same of squares, their pixels one after another."""
    batch, channels, height, width = x.shape
    cut = x.permute(0, 2, 3, 1).reshape(batch, height // side, side, width // side, side, channels)
    found = cut.transpose(2, 3).reshape(batch, height // side, width // side, side * side * channels)
    return found.permute(0, 3, 1, 2)


class CNN(nn.Module):
    """Images [B, channels, height, width] of bytes, or channels last -> [B, features]; with `fan_out` -> [B, fan_out].

    Bytes become numbers from 0 to 1 by way of the first layer's weights, which are fewer. Channels lie last in memory:
    on a CPU that is half as fast again. With `layer_norm` what leaves a layer is centred and scaled before it is cut
    off at 0 (of `ImpalaCNN` the dense one alone).
    """

    usual: int  # features of a stream: the dense layer may hold several side by side

    def __init__(
        self,
        spec: Spec,
        fan_out: int | None = None,
        *,
        bf16: bool = False,
        orthogonal: bool = False,
        streams: int = 1,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        self.layer_norm = layer_norm
        self.last = spec.obs_shape[-1] < spec.obs_shape[0]  # channels
        self.dtype = torch.bfloat16 if bf16 else torch.float32
        self.features = streams * self.usual
        channels, *sides = (spec.obs_shape[-1], *spec.obs_shape[:-1]) if self.last else spec.obs_shape
        self.dense = Linear(self.build(channels, sides, orthogonal), self.features)
        self.out = None if fan_out is None else Linear(self.features, fan_out)
        if orthogonal:
            orthogonal_(self.dense, math.sqrt(2))

    def build(self, channels: int, sides: list[int], orthogonal: bool) -> int:
        """Make the convolutions; how many numbers come out of them."""
        raise NotImplementedError

    def look(self, images: Tensor) -> Tensor:
        """What the convolutions make of bytes [B, channels, height, width]."""
        raise NotImplementedError

    def numbers(self, images: Tensor) -> Tensor:
        return images.to(self.dtype, memory_format=torch.channels_last)

    def forward(self, images: Tensor) -> Tensor:
        most = AT_ONCE[images.device.type == "cuda"]
        if torch.is_grad_enabled() or len(images) <= most:
            return self._read(images)
        return torch.cat([self._read(part) for part in torch.split(images, most)])

    def _read(self, images: Tensor) -> Tensor:
        x = self.look(images.permute(0, 3, 1, 2) if self.last else images)
        weight, bias = self.dense.weight.to(self.dtype), self.dense.bias.to(self.dtype)
        x = torch.addmm(bias, x.flatten(1), weight).float()
        x = (F.layer_norm(x, x.shape[1:]) if self.layer_norm else x).relu_()
        return x if self.out is None else self.out(x)


class NatureCNN(CNN):
    """Three convolutions and a dense layer (Mnih et al. 2015)."""

    usual = 512

    def build(self, channels: int, sides: list[int], orthogonal: bool) -> int:
        self.stack = []
        for width, kernel, stride in LAYERS:
            self.stack.append(Convolution(channels, width, kernel, stride))
            channels, sides = width, [(side - kernel) // stride + 1 for side in sides]
        self.convolutions = nn.ModuleList(self.stack)
        if orthogonal:
            for layer in self.stack:
                nn.init.orthogonal_(layer.weight, math.sqrt(2))
                nn.init.zeros_(layer.bias)
        return channels * math.prod(sides)

    def look(self, images: Tensor) -> Tensor:
        first, second, third = self.stack
        if self.in_blocks(images):
            x = self.bent(first.on_blocks(blocks(images).to(self.dtype), 255.0))
            x = self.bent(second.on_blocks(squares(x, second.stride), whole_pixels=True))
        else:
            x = self.bent(second(self.bent(first(self.numbers(images), 255.0))))
        return self.bent(third(x))

    def bent(self, x: Tensor) -> Tensor:
        return (F.group_norm(x, 1) if self.layer_norm else x).relu_()  # of one group: the whole layer

    def in_blocks(self, images: Tensor) -> bool:
        """Whether squares of pixels are seen as channels: in half precision a CPU takes a third less time for it."""
        fits = not any(side % 4 or (side // 4 - 1) % 2 for side in images.shape[2:])  # both layers' strides
        return fits and self.dtype == torch.bfloat16 and images.device.type == "cpu"


class ImpalaCNN(CNN):
    """Three times a convolution, the largest of every 3 x 3, and two residual blocks (Espeholt et al. 2018).

    Fifteen convolutions: several times the work of `NatureCNN`, and half its parameters.
    """

    usual = 256

    def build(self, channels: int, sides: list[int], orthogonal: bool) -> int:
        self.stages: list[list[Convolution]] = []
        for width in BLOCKS:
            widths = (channels, width, width, width, width)
            self.stages.append([Convolution(fan_in, width, 3, padding=1) for fan_in in widths])
            channels, sides = width, [(side + 1) // 2 for side in sides]
        self.convolutions = nn.ModuleList([layer for stage in self.stages for layer in stage])
        return channels * math.prod(sides)

    def look(self, images: Tensor) -> Tensor:
        x, unit = self.numbers(images), 255.0
        for first, *pairs in self.stages:
            x = F.max_pool2d(first(x, unit), 3, 2, 1)
            for a, b in (pairs[:2], pairs[2:]):
                x = x + b(a(x.relu()).relu_())
            unit = 1.0
        return x.relu_()


def image_net(
    kind: Vision,
    spec: Spec,
    fan_out: int | None = None,
    *,
    bf16: bool = False,
    orthogonal: bool = False,
    streams: int = 1,
    layer_norm: bool = False,
) -> CNN:
    """The network of that name; see `CNN` for its settings."""
    networks: dict[Vision, type[CNN]] = {"nature": NatureCNN, "impala": ImpalaCNN}
    return networks[kind](spec, fan_out, bf16=bf16, orthogonal=orthogonal, streams=streams, layer_norm=layer_norm)
