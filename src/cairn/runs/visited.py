"""The cells that a run visited, from the archive in its newest checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cairn.core.agent import Agent
from cairn.core.errors import CairnError
from cairn.core.types import Array
from cairn.runs.policy_files import checkpoints, read_card, read_tensors


@dataclass(frozen=True)
class Visited:
    """Cells of a goal space: their numbers [n, k], their visits [n] and their size [k]. A cell's middle is cell · size.

    `placed` says that the first axes of a cell are those of a subgoal.
    """

    cells: Array
    visits: Array
    size: Array
    placed: bool


def read_visited(path: Path, agent: Agent) -> Visited | None:
    """What the archive of a run folder or of a checkpoint holds; None where there is none.

    Raises CairnError where the files are damaged.
    """
    newest = [path] if (path / "training.json").exists() else checkpoints(path / "checkpoints")
    if not newest or not agent.levels:
        return None
    size = cell_size(agent)
    tensors = read_tensors(newest[-1] / "training.safetensors", read_card(newest[-1] / "training.json"))
    if not {"archive.cell", "archive.visits", "archive.count"} <= tensors.keys():
        return None
    cell, visits = tensors["archive.cell"].numpy(), tensors["archive.visits"].numpy()
    count = int(tensors["archive.count"])
    if not 0 <= count <= len(cell) == len(visits) or cell.ndim != 2 or cell.shape[1] != len(size):
        raise CairnError(f"{newest[-1]} has an archive that does not fit its agent.")
    return Visited(cell[:count], visits[:count], size, _are_places(agent))


def cell_size(agent: Agent) -> Array:
    """The size of a cell of a hierarchy's archive [k]."""
    return np.array(agent.cfg.cell or agent.cfg.subgoal_range, float)


def _are_places(agent: Agent) -> bool:
    """Whether the cells are made of the first entries of a subgoal, and maybe more."""
    positions = agent.positions
    first = list(range(positions.start, positions.stop)) if positions is not None else []
    return all(a == b for a, b in zip(agent.cfg.cells or first, first, strict=False))
