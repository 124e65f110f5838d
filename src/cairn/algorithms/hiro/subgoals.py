"""The subgoals of open episodes, and statistics of recent subgoals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cairn.algorithms.hiro.exploring import Trail
from cairn.core.errors import CairnError
from cairn.core.policy_module import PolicyModule
from cairn.core.types import Array

RECENT = 0.01  # weight of a new window in the running figures


@dataclass
class SubgoalState:
    """The subgoals of N environments.

    asked [N, d] is the point that the high level chose, target [N, d] the nearest reachable point, which the low level
    sees; clock [N] int64 counts the steps since the choice and is 0 where a new subgoal is due. `trails` [N] are what
    an explorer knows of the episodes, None where one begins
    """

    asked: Tensor
    target: Tensor
    clock: Tensor
    trails: list[Trail | None] = field(default_factory=list)

    def forget(self, which: Array) -> None:
        """Make a new subgoal due in the environments `which` [N] bool, whose episodes begin."""
        self.clock[torch.from_numpy(which).to(self.clock.device)] = 0
        self.trails = [None if begins else trail for trail, begins in zip(self.trails, which, strict=False)]

    def recorded(self) -> Array:
        """A copy of the chosen points [N, d], which the replay stores."""
        out: Array = self.asked.cpu().numpy().copy()
        return out


class Subgoals:
    """Running statistics of subgoals: the share that was reached, and the distance of the others."""

    def __init__(self, near: float) -> None:
        self.near = near
        self.figures: dict[str, torch.Tensor] = {}

    def note(self, achieved: Array, target: Array) -> None:
        """Add windows that closed: their final points and their targets, both [n, d]."""
        for apart in np.linalg.norm(achieved - target, axis=-1).tolist():
            self._mix("hiro/subgoal_reached", float(apart <= self.near))
            if apart > self.near:
                self._mix("hiro/subgoal_miss", apart)

    def _mix(self, name: str, value: float) -> None:
        old = self.figures.get(name)
        new = torch.tensor(value)
        self.figures[name] = new if old is None else torch.lerp(old, new, RECENT)


class SubgoalPolicy(PolicyModule):
    """Both levels as one module without branches. Its state is the target, and the steps since the choice."""

    def __init__(self, agent: Any) -> None:
        super().__init__(agent)
        if agent.cfg.subgoals == "random":
            raise CairnError("a hierarchy whose subgoals are random cannot be exported; set agent.subgoals to learned.")
        memory: SubgoalState = agent.memory(1)
        self.state = {"target": memory.target, "clock": memory.clock}

    def forward(self, obs: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        """The actions [N] or [N, dim] and the next state, for obs [N, ...] and the state."""
        target, clock = more
        chosen = self.agent.within_reach(self.agent.choose(obs, explore=False))
        target = torch.where((clock == 0)[:, None], chosen, target)
        action = self.agent.low.act(self.agent.low_view(obs, target), explore=False)
        return action, target, (clock + 1) % self.agent.cfg.every
