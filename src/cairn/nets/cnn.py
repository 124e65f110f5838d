"""Convolutional networks for images. With `bf16` all layers but the last compute in half precision."""

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
SMALLEST = 36  # pixels per side that the three layers need
AT_ONCE = (512, 8192)  # images per forward pass without gradient, on a CPU and on a GPU

Vision = Literal["nature", "impala"]


def sees_images(spec: Spec) -> bool:
    """Whether observations are images for these networks: uint8, three axes, at least SMALLEST pixels a side."""
    return spec.obs_dtype == "uint8" and len(spec.obs_shape) == 3 and min(sorted(spec.obs_shape)[1:]) >= SMALLEST


def has_images(spec: Spec) -> bool:
    """Whether an observation is an image or has one among its parts: a convolution reads it."""
    return sees_images(spec) or any(part.form == "image" for part in spec.parts)


def no_parts(spec: Spec, who: str) -> None:
    """Raise CairnError if observations have several parts that are not all numbers; `who` names the agent."""
    if spec.mixed:
        raise CairnError(
            f"{who} reads observations of one array, and this task shows {spec.seen}; use dqn, ppo, a2c, reinforce, sac"
            " or td3."
        )


def no_images(spec: Spec, who: str) -> None:
    """Raise CairnError if observations have images; `who` names the agent, which has no convolutions."""
    no_parts(spec, who)
    if sees_images(spec):
        raise CairnError(f"{who} does not support image observations; use dqn, ppo, a2c, reinforce, sac or td3.")


class Convolution(nn.Module):
    """2D convolution with bias, weight [out, in, k, k]; computes in the precision of its input."""

    def __init__(self, fan_in: int, fan_out: int, kernel: int, stride: int = 1, padding: int = 0) -> None:
        super().__init__()
        self.stride, self.padding = stride, padding
        self.weight = nn.Parameter(torch.empty(fan_out, fan_in, kernel, kernel))
        self.bias = nn.Parameter(torch.empty(fan_out))
        bound = 1 / math.sqrt(fan_in * kernel**2)  # torch's own default
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor, unit: float = 1.0) -> Tensor:
        """[B, in, H, W] -> [B, out, H', W'] of x / `unit`."""
        weight = self.weight if unit == 1.0 else self.weight / unit
        return F.conv2d(x, weight.to(x.dtype), self.bias.to(x.dtype), self.stride, self.padding)

    def on_blocks(self, x: Tensor, unit: float = 1.0, *, whole_pixels: bool = False) -> Tensor:
        """The same result from the output of `blocks`, or of `squares` with `whole_pixels`."""
        side, (fan_out, fan_in, kernel, _) = self.stride, self.weight.shape
        assert self.padding == 0 and kernel % side == 0
        many = kernel // side
        weight = self.weight if unit == 1.0 else self.weight / unit
        weight = weight.view(fan_out, fan_in, many, side, many, side)
        weight = weight.permute((0, 3, 5, 1, 2, 4) if whole_pixels else (0, 1, 3, 5, 2, 4))
        weight = weight.reshape(fan_out, -1, many, many)
        return F.conv2d(x, weight.to(x.dtype), self.bias.to(x.dtype))


def blocks(images: Tensor) -> Tensor:
    """uint8 [B, C, H, W] -> [B, 16 C, H / 4, W / 4]: 4 x 4 squares as channels. Moves 4 bytes of a row at once."""
    batch, channels, height, width = images.shape
    rows = images.reshape(-1).contiguous().view(torch.int32).view(batch, channels, height // 4, 4, width // 4)
    found = rows.permute(0, 2, 4, 1, 3).reshape(-1).contiguous().view(torch.uint8)
    return found.view(batch, height // 4, width // 4, channels * 16).permute(0, 3, 1, 2)


def squares(x: Tensor, side: int) -> Tensor:
    """[B, C, H, W] in channels-last memory -> [B, side² C, H / side, W / side], pixel by pixel."""
    batch, channels, height, width = x.shape
    cut = x.permute(0, 2, 3, 1).reshape(batch, height // side, side, width // side, side, channels)
    found = cut.transpose(2, 3).reshape(batch, height // side, width // side, side * side * channels)
    return found.permute(0, 3, 1, 2)


class CNN(nn.Module):
    """uint8 images [B, C, H, W] or [B, H, W, C] -> features [B, features], or [B, fan_out] if `fan_out` is given.

    Not the images but the first layer's weights are divided by 255: they are fewer. Memory is channels-last, 1.5 times
    as
    fast on a CPU. With `layer_norm`, layers are normalised before the ReLU (in `ImpalaCNN` only the dense one).
    """

    usual: int  # features per stream; the dense layer can hold several streams

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
        """Make the convolutions and return the number of their outputs."""
        raise NotImplementedError

    def look(self, images: Tensor) -> Tensor:
        """The convolutions' outputs for uint8 images [B, C, H, W]."""
        raise NotImplementedError

    def numbers(self, images: Tensor) -> Tensor:
        """Images in the network's precision, channels last in memory."""
        return images.to(self.dtype, memory_format=torch.channels_last)

    def forward(self, images: Tensor) -> Tensor:
        """Features of images [B, ...]; large batches are split where no gradient is needed."""
        most = AT_ONCE[images.device.type == "cuda"]
        if torch.is_grad_enabled() or len(images) <= most:
            return self._read(images)
        return torch.cat([self._read(part) for part in torch.split(images, most)])

    def _read(self, images: Tensor) -> Tensor:
        x = self.look(images.permute(0, 3, 1, 2) if self.last else images)
        weight, bias = self.dense.weight.to(self.dtype), self.dense.bias.to(self.dtype)
        x = torch.addmm(bias, x.flatten(1), weight).float()
        x = (F.layer_norm(x, bias.shape) if self.layer_norm else x).relu_()
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
        """ReLU, after layer normalisation if the network has it."""
        return (F.group_norm(x, 1) if self.layer_norm else x).relu_()  # one group is layer normalisation

    def in_blocks(self, images: Tensor) -> bool:
        """Whether 4 x 4 squares are read as channels, which saves a third of the time in bfloat16 on a CPU."""
        fits = not any(
            side % 4 or (side // 4 - 1) % 2 for side in images.shape[2:]
        )  # the strides of both layers must divide it
        return fits and self.dtype == torch.bfloat16 and images.device.type == "cpu"


class ImpalaCNN(CNN):
    """Three stages of a convolution, 3 x 3 max pooling and two residual blocks (Espeholt et al. 2018)."""

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
    """The network called `kind`; see `CNN` for the other arguments."""
    networks: dict[Vision, type[CNN]] = {"nature": NatureCNN, "impala": ImpalaCNN}
    return networks[kind](spec, fan_out, bf16=bf16, orthogonal=orthogonal, streams=streams, layer_norm=layer_norm)
