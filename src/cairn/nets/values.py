"""Q(s, ·) of discrete actions: plain, dueling (Wang et al. 2016), or as quantiles (Dabney et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from cairn.core.types import Spec
from cairn.nets.cnn import CNN, Vision, image_net, sees_images
from cairn.nets.features import FeatureNet
from cairn.nets.mlp import MLP, Activation, Linear
from cairn.nets.recurrent import MemoryKind, Recurrent
from cairn.nets.recurrent_values import RecurrentValues


class ReturnHead(nn.Module):
    """Q(s, ·) [B, actions], the mean of `quantiles` of the return, from the features of a body [B, features].

    With `dueling`, Z = V + A - mean A, where the first half of the features gives V and the second A. The body's last
    layer is twice as wide, to hold both streams of the paper.
    """

    def __init__(self, body: nn.Module, features: int, actions: int, *, quantiles: int = 1, dueling: bool = False):
        super().__init__()
        self.body, self.actions, self.count, self.dueling = body, actions, quantiles, dueling
        self.split = features // 2 if dueling else 0
        self.value = Linear(self.split, quantiles) if dueling else None
        self.advantage = Linear(features - self.split, actions * quantiles)

    def quantiles(self, obs: Tensor) -> Tensor:
        """Quantiles of the return [B, actions, K]."""
        x = self.body(obs)
        advantage: Tensor = self.advantage(x[:, self.split :]).view(-1, self.actions, self.count)
        if self.value is None:
            return advantage
        value: Tensor = self.value(x[:, : self.split])[:, None]
        return value + advantage - advantage.mean(1, keepdim=True)

    def forward(self, obs: Tensor) -> Tensor:
        """Q(s, ·) [B, actions]."""
        return self.quantiles(obs).mean(-1)


class After(nn.Module):
    """Values on top of a feature network."""

    def __init__(self, before: FeatureNet, head: nn.Module) -> None:
        super().__init__()
        self.before, self.head = before, head

    def quantiles(self, obs: Tensor) -> Tensor:
        """Quantiles of the return [B, actions, K]."""
        assert isinstance(self.head, ReturnHead)  # q_net makes one if there are quantiles
        return self.head.quantiles(self.before(obs))

    def forward(self, obs: Tensor) -> Tensor:
        """Q(s, ·) [B, actions]."""
        out: Tensor = self.head(self.before(obs))
        return out


def q_net(
    spec: Spec,
    width: int,
    hidden: Sequence[int],
    actions: int,
    *,
    cnn: Vision = "nature",
    bf16: bool = False,
    quantiles: int = 0,
    dueling: bool = False,
    layer_norm: bool = False,
    activation: Activation = "relu",
    before: FeatureNet | None = None,
    memory: MemoryKind = "none",
    memory_size: int = 0,
) -> nn.Module:
    """The Q-network of a task: convolutional for images, else an MLP of `hidden` units over `width` inputs.

    `quantiles=0` predicts only the mean of the return. `before` makes the features that the MLP reads; with memory it
    reads also the output of a recurrent cell of `memory_size` units.
    """
    if before is not None or memory != "none":
        settings: Any = {"quantiles": quantiles, "dueling": dueling, "layer_norm": layer_norm}
        settings["activation"] = activation
        width = width if before is None else before.features
        core = None if memory == "none" else Recurrent(memory, width, memory_size)
        width += 0 if core is None else core.size
        numbers = replace(spec, obs_shape=(width,), obs_dtype="float32", parts=(), masked=0)
        head = q_net(numbers, width, hidden, actions, **settings)
        if core is not None:
            return RecurrentValues(core, head, before)
        assert before is not None
        return After(before, head)
    images = sees_images(spec)
    if not quantiles and not dueling:
        if images:
            return image_net(cnn, spec, actions, bf16=bf16, layer_norm=layer_norm)
        return MLP(width, hidden, actions, layer_norm=layer_norm, activation=activation)
    body: CNN | MLP
    if images:
        body = image_net(cnn, spec, bf16=bf16, layer_norm=layer_norm, streams=2 if dueling else 1)
        features = body.features
    else:
        *lower, last = hidden
        features = 2 * last if dueling else last
        body = MLP(width, (*lower, features), None, layer_norm=layer_norm, activation=activation)
    return ReturnHead(body, features, actions, quantiles=quantiles or 1, dueling=dueling)
