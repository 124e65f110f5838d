"""Which networks can be trained by hand: plain ones of float32 on a CPU."""

from __future__ import annotations

from typing import Any

import torch

from cairn.native.library import MOST
from cairn.nets.mlp import MLP

ACTIVATIONS = ("relu", "tanh")


def plain_mlp(net: Any, activation: str, *, layers: int = 0) -> str:
    """Why a network cannot be trained by hand: a clause; "" if it can. `layers` come after it."""
    if not isinstance(net, MLP):
        return "its network is not a plain one of dense layers"
    if net.layer_norm:
        return "its network has layer normalisation"
    if activation not in ACTIVATIONS:
        return f"its activation is {activation}, not {' or '.join(ACTIVATIONS)}"
    if len(net.stack) + layers > MOST:
        return f"its network has more than {MOST} layers"
    weight = net.stack[0][0]
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        return "its network is not on the CPU in float32"
    return ""


def plain_encoder(encoder: Any) -> str:
    """Likewise for what stands before the network."""
    return "its observations are read by another network" if encoder.raw or encoder.features is not None else ""
