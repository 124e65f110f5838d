"""Random actions for exploration."""

from __future__ import annotations

import numpy as np
import torch
from torch import Generator

from cairn.core.layout import allowed
from cairn.core.types import ActionSpec, Array, Box, Discrete, MultiDiscrete, Spec


def random_actions(spec: Spec, obs: Array, generator: Generator) -> Array:
    """Uniform actions [N] or [N, k] for observations [N, ...]; only allowed options are drawn."""
    if spec.masked:
        return _allowed_actions(spec, obs, generator)
    return _uniform(spec.action, len(obs), generator)


def _uniform(action: ActionSpec, count: int, generator: Generator) -> Array:
    if isinstance(action, Box):
        return torch.empty(count, action.dim).uniform_(-1, 1, generator=generator).numpy()
    if isinstance(action, Discrete):
        return torch.randint(action.n, (count,), generator=generator).numpy()
    if isinstance(action, MultiDiscrete):
        return np.stack([torch.randint(n, (count,), generator=generator).numpy() for n in action.nvec], 1)
    parts = [_uniform(part, count, generator).reshape(count, -1) for part in action.parts]
    return np.concatenate(parts, 1, dtype=np.float32)


def _allowed_actions(spec: Spec, obs: Array, generator: Generator) -> Array:
    """Only discrete options can be forbidden, so the action consists of one or several choices."""
    masks = torch.from_numpy(allowed(spec, obs)).float().split(list(spec.action.choices), 1)
    drawn = [torch.multinomial(mask, 1, generator=generator) for mask in masks]
    return torch.cat(drawn, 1).reshape(len(obs), *spec.action_shape).numpy()
