"""An archive of visited cells with the way to each, after Go-Explore (Ecoffet et al. 2021).

Observed positions fall into cells of a grid. For each cell the archive counts the visits and keeps the shortest list of
subgoals that once led there from the beginning of an episode. Cells that were visited seldom are drawn more often:
P(cell) ∝ 1 / √(visits + 1). Nothing has to be known about the task: cells come from what was observed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Generator, Tensor

from cairn.core.types import Array

MOST_CELLS = 4096


class Archive:
    """Cells of `size`, with the subgoals that lead to them.

    It is a part of an agent (`core.state.Stateful`), so that checkpoints hold it. Further cells than `most` are not
    kept.

    Args:
        size: The size of a cell along each axis.
        width: Coordinates of a subgoal.
        longest: Most subgoals of an episode.
        most: Most cells.
    """

    def __init__(self, size: Sequence[float], width: int, longest: int, most: int = MOST_CELLS) -> None:
        self.size = np.array(size)
        self.cell = torch.zeros(most, len(size), dtype=torch.int64)
        self.visits = torch.zeros(most, dtype=torch.int64)
        self.length = torch.zeros(most, dtype=torch.int64)
        self.way = torch.zeros(most, longest, width)
        self.count = torch.zeros((), dtype=torch.int64)
        self.rows: dict[tuple[int, ...], int] = {}  # row of each cell; made anew where a checkpoint was loaded

    def state(self) -> Mapping[str, Tensor]:
        """The tensors that a checkpoint holds; filling them in place restores the archive."""
        self.rows = {}
        kept = {"cell": self.cell, "visits": self.visits, "length": self.length, "way": self.way}
        return {**kept, "count": self.count}

    def __len__(self) -> int:
        return int(self.count)

    def _rows(self) -> dict[tuple[int, ...], int]:
        if len(self.rows) != len(self):
            self.rows = {tuple(cell): row for row, cell in enumerate(self.cell[: len(self)].tolist())}
        return self.rows

    def visit(self, position: Array, way: Sequence[Array]) -> None:
        """Count a visit of the cell of `position` [k], which the subgoals `way` led to from the start of an episode."""
        key = tuple(np.floor(position / self.size + 0.5).astype(np.int64).tolist())
        rows = self._rows()
        row = rows.get(key)
        if row is None:
            if len(self) == len(self.cell):
                return
            row = rows[key] = len(self)
            self.cell[row] = torch.tensor(key)
            self.count += 1
        elif len(way) >= int(self.length[row]):
            self.visits[row] += 1
            return
        self.visits[row] += 1
        self.length[row] = len(way)
        if way:
            self.way[row, : len(way)] = torch.from_numpy(np.stack(way))

    def draw(self, generator: Generator) -> list[Array]:
        """The subgoals that lead to a cell which was visited seldom; none if there is no cell yet."""
        if not len(self):
            return []
        seldom = (self.visits[: len(self)] + 1.0).rsqrt()
        row = int(torch.multinomial(seldom, 1, generator=generator))
        return list(self.way[row, : int(self.length[row])].numpy().copy())
