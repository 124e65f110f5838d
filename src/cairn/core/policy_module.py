"""What an agent computes when it acts, as a torch module that can be exported and run without Cairn."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from cairn.core.actions import Simple
from cairn.core.types import ActionSpec, Box, Composite, Discrete, MultiDiscrete

MASK = "action_mask"  # the further input of a policy with masks: [N, options] bool, True where allowed


class PolicyModule(nn.Module):
    """The function (obs, *extra, *state) -> (action, *state), deterministic, for batches of N rows.

    Observations are rows as agents see them; actions are in Cairn's units. This class calls `act`, which is right for
    every
    agent whose `act` takes only observations and has no branch that depends on their values. Other agents inherit from
    it,
    name their further inputs and override `forward`:

    extra  further inputs, such as masks of allowed actions: name -> an example of one row
    state  what is carried from step to step: name -> the row at the start of an episode, zeros
    """

    extra: Mapping[str, Tensor] = MappingProxyType({})
    state: Mapping[str, Tensor] = MappingProxyType({})

    def __init__(self, agent: Any) -> None:
        super().__init__()
        self.agent = agent
        if agent.spec.masked:
            self.extra = {MASK: torch.ones(1, agent.spec.masked, dtype=torch.bool)}

    def forward(self, obs: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        """The actions [N] or [N, dim] for obs [N, ...], without their masks, and, in subclasses, the next state."""
        action: Tensor = self.agent.act(self.rows(obs, *more), explore=False)
        return (action,)

    def rows(self, obs: Tensor, *masks: Tensor) -> Tensor:
        """Observations as the agent takes them: followed by their masks, where the task has any."""
        return torch.cat([obs, *(mask.to(obs.dtype) for mask in masks)], 1) if masks else obs


class InEnvUnits(nn.Module):
    """A policy module with the environment's own actions: scaled, clipped to the bounds, in its shape.

    `outputs` names them: "action", or one for each part of a Dict or Tuple.
    """

    def __init__(self, policy: PolicyModule, space: ActionSpec) -> None:
        super().__init__()
        self.policy, self.space = policy, space
        self.outputs = ["action"]
        if isinstance(space, Composite):
            self.outputs = ["action" + "".join(path) for path in space.paths]

    def forward(self, obs: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        """The environment's actions [N] or [N, *shape], in parts if it has any, and the next state."""
        action, *state = self.policy(obs, *more)
        if not isinstance(self.space, Composite):
            return in_env_units(self.space, action), *state
        columns = zip(self.space.parts, action.split(list(self.space.widths), 1), strict=True)
        parts = [(part, x.reshape(-1, *part.shape_inside)) for part, x in columns]
        whole = [(part, x if isinstance(part, Box) else x.round().long()) for part, x in parts]
        return *(in_env_units(part, x) for part, x in whole), *state


def in_env_units(space: Simple, action: Tensor) -> Tensor:
    """`space.to_env` for tensors, with the same operations, so that results are equal bit by bit."""
    if isinstance(space, Discrete):
        return action + space.start
    if isinstance(space, MultiDiscrete):
        return (action + torch.tensor(space.start)).to(getattr(torch, space.dtype)).reshape(-1, *space.shape)
    low, high = torch.tensor(space.low), torch.tensor(space.high)
    if space.bounded:
        action = low + (action.clamp(-1.0, 1.0) + 1.0) * (0.5 * (high - low))
    action = torch.minimum(torch.maximum(action, low), high)
    if space.dtype != "float32":
        exact = action.double()
        low, high = (torch.tensor(end, dtype=torch.float64) for end in (space.low, space.high))
        exact = torch.minimum(torch.maximum(exact.round() if space.whole else exact, low), high)
        action = exact.to(getattr(torch, space.dtype))
    return action.reshape(-1, *space.shape)
