"""The subgoals of open episodes, and what became of those lately asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cairn.core.types import Array

RECENT = 0.01  # weight of a new window in the running figures


@dataclass
class SubgoalState:
    """What a hierarchy remembers of each of N environments: the point it makes for, and the steps since it was chosen.

    asked [N, d] is the point the high level named, target [N, d] the nearest to it that can be reached, which the low
    level is shown; clock [N] int64, 0 where a subgoal is to be chosen next
    """

    asked: Tensor
    target: Tensor
    clock: Tensor

    def forget(self, which: Array) -> None:
        """[N] bool: these begin an episode."""
        self.clock[torch.from_numpy(which).to(self.clock.device)] = 0

    def recorded(self) -> Array:
        """The points asked for, which the replay stores: a copy."""
        out: Array = self.asked.cpu().numpy().copy()
        return out


class Subgoals:
    """What became of the subgoals lately asked for: the share reached, and how far off the others ended."""

    def __init__(self, near: float) -> None:
        self.near = near
        self.figures: dict[str, torch.Tensor] = {}

    def note(self, achieved: Array, target: Array) -> None:
        """Windows that closed: where they ended [n, d], and where they were to end."""
        for apart in np.linalg.norm(achieved - target, axis=-1).tolist():
            self._mix("hiro/subgoal_reached", float(apart <= self.near))
            if apart > self.near:
                self._mix("hiro/subgoal_miss", apart)

    def _mix(self, name: str, value: float) -> None:
        old = self.figures.get(name)
        new = torch.tensor(value)
        self.figures[name] = new if old is None else torch.lerp(old, new, RECENT)
