"""Q(s, ·) of discrete actions: plain, dueling (Wang et al. 2016), as quantiles of the return (Dabney et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from cairn.core.types import Spec
from cairn.nets.cnn import CNN, Vision, image_net, sees_images
from cairn.nets.mlp import MLP, Linear


class ReturnHead(nn.Module):
    """Over a body [B, ...] -> [B, features]: Q(s, ·) [B, actions], the mean of `quantiles` of the return.

    Where `dueling`, Z = V + A - mean A: the first half of the features tells V, the second A, so that a body whose
    last layer is twice as wide holds the paper's two streams.
    """

    def __init__(self, body: nn.Module, features: int, actions: int, *, quantiles: int = 1, dueling: bool = False):
        super().__init__()
        self.body, self.actions, self.dueling = body, actions, dueling
        self.split = features // 2 if dueling else 0
        self.value = Linear(self.split, quantiles) if dueling else None
        self.advantage = Linear(features - self.split, actions * quantiles)

    def quantiles(self, obs: Tensor) -> Tensor:
        """[B, actions, K]."""
        x = self.body(obs)
        advantage: Tensor = self.advantage(x[:, self.split :]).view(len(x), self.actions, -1)
        if self.value is None:
            return advantage
        value: Tensor = self.value(x[:, : self.split])[:, None]
        return value + advantage - advantage.mean(1, keepdim=True)

    def forward(self, obs: Tensor) -> Tensor:
        return self.quantiles(obs).mean(-1)


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
) -> nn.Module:
    """Images by a convolution, all else, `width` numbers, by layers of `hidden` units. 0 quantiles: the mean alone."""
    images = sees_images(spec)
    if not quantiles and not dueling:
        if images:
            return image_net(cnn, spec, actions, bf16=bf16, layer_norm=layer_norm)
        return MLP(width, hidden, actions, layer_norm=layer_norm)
    body: CNN | MLP
    if images:
        body = image_net(cnn, spec, bf16=bf16, layer_norm=layer_norm, streams=2 if dueling else 1)
        features = body.features
    else:
        *lower, last = hidden
        features = 2 * last if dueling else last
        body = MLP(width, (*lower, features), None, layer_norm=layer_norm)
    return ReturnHead(body, features, actions, quantiles=quantiles or 1, dueling=dueling)
