"""Independent distributions side by side, for actions of several parts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor

if TYPE_CHECKING:  # heads.py imports this file
    from cairn.nets.heads import Distribution


@dataclass(frozen=True)
class Joint:
    """Independent distributions side by side; an action is a row of floats [B, sum of widths]."""

    parts: tuple[Distribution, ...]
    shapes: tuple[tuple[int, ...], ...]  # shape of one action of each part

    def _row(self, actions: list[Tensor]) -> Tensor:
        return torch.cat([action.flatten(1) if action.dim() > 1 else action[:, None] for action in actions], 1).float()

    def _split(self, row: Tensor) -> list[Tensor]:
        found = row.split([math.prod(shape) for shape in self.shapes], -1)
        return [x if shape else x[:, 0] for x, shape in zip(found, self.shapes, strict=True)]

    def sample(self, generator: Generator) -> Tensor:
        return self._row([part.sample(generator) for part in self.parts])

    def mode(self) -> Tensor:
        return self._row([part.mode() for part in self.parts])

    def log_prob(self, action: Tensor) -> Tensor:
        return _sum([part.log_prob(x) for part, x in zip(self.parts, self._split(action), strict=True)])

    def entropy(self) -> Tensor:
        return _sum([part.entropy() for part in self.parts])


def _sum(terms: list[Tensor]) -> Tensor:
    return torch.stack(terms).sum(0)
