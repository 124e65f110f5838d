"""Figures of played episodes: success, falls, subgoals asked and reached, cells visited."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cairn.core.types import Array
from cairn.doctor.levels.play import Played
from cairn.doctor.levels.ways import cells_of

BINS = 4  # ranges of distance
DIRECTIONS = ("+x", "+x+y", "+y", "-x+y", "-x", "-x-y", "-y", "+x-y")
FEWEST = 5  # subgoals that a range or a direction needs for a share to be told


@dataclass(frozen=True)
class Asked:
    """Subgoals of one range of distances: how far, how many of all, how many were reached, and what was left."""

    least: float
    most: float
    count: int
    share: float  # of all subgoals
    reached: float | None  # share of these; None where they are too few
    left: float | None  # median distance at the end of their time


@dataclass(frozen=True)
class Figures:
    """What some episodes of one director show. `success` is None where the task does not tell it."""

    episodes: int
    success: float | None
    mean_return: float
    reached: float | None  # share of all subgoals, None where there was none
    covered: float | None  # mean share of the distance to a subgoal that was covered in its time
    asked: tuple[Asked, ...]
    directions: dict[str, float]  # share of subgoals reached, by direction in the first two axes
    fell: float | None  # share of episodes with a fall; None where the task does not tell
    falls_per_1000: float | None  # falls per 1,000 steps


def figures(played: Sequence[Played], *, every: int, near: float, edges: Array | None = None) -> Figures:
    """The figures of the episodes that ended, or of all if none did.

    Args:
        played: The episodes.
        every: Steps that a subgoal has; those that an end cut short are left out.
        near: Distance within which a subgoal counts as reached.
        edges: Ends of the ranges of distance; by default four of equal width.
    """
    whole = [one for one in played if one.ended]
    told = [one.success for one in whole if one.success is not None]
    away, left = asked_and_left(played, every)
    far = np.linalg.norm(away, axis=1)
    edges = edges_of(far) if edges is None else edges
    steps = sum(len(one.fallen) for one in played)
    return Figures(
        episodes=len(whole),
        success=float(np.mean([bool(one.success) for one in whole])) if told else None,
        mean_return=float(np.mean([one.total for one in whole])) if whole else math.nan,
        reached=float((left <= near).mean()) if len(left) else None,
        covered=float(np.clip(1 - left / np.maximum(far, near), 0, 1).mean()) if len(left) else None,
        asked=tuple(_ranges(far, left, near, edges)),
        directions=_directions(away, left, near),
        fell=float(np.mean([any(one.fallen) for one in played if one.fallen])) if steps else None,
        falls_per_1000=1000 * sum(_falls(one.fallen) for one in played) / steps if steps else None,
    )


def asked_and_left(played: Sequence[Played], every: int) -> tuple[Array, Array]:
    """The displacements asked [n, d] and the distances left [n], of all subgoals that had their time."""
    away: list[Array] = []
    left: list[float] = []
    for one in played:
        for step, target in one.asked:
            if step + every < len(one.path):
                away.append(target - one.path[step])
                left.append(float(np.linalg.norm(target - one.path[step + every])))
    return np.array(away, float).reshape(len(left), -1 if left else 0), np.array(left)


def edges_of(far: Array) -> Array:
    """The ends of four equal ranges of these distances."""
    return np.linspace(0, float(far.max()) if len(far) and far.max() > 0 else 1.0, BINS + 1)


def _ranges(far: Array, left: Array, near: float, edges: Array) -> list[Asked]:
    out = []
    place = np.clip(np.searchsorted(edges, far, side="left") - 1, 0, len(edges) - 2)
    for k in range(len(edges) - 1):
        inside = left[place == k]
        enough = len(inside) >= FEWEST
        out.append(
            Asked(
                float(edges[k]),
                float(edges[k + 1]),
                len(inside),
                len(inside) / max(len(left), 1),
                float((inside <= near).mean()) if enough else None,
                float(np.median(inside)) if enough else None,
            )
        )
    return out


def _directions(away: Array, left: Array, near: float) -> dict[str, float]:
    if not len(away) or away.shape[1] < 2:
        return {}
    sector = np.round(np.arctan2(away[:, 1], away[:, 0]) / (math.pi / 4)).astype(int) % len(DIRECTIONS)
    found = {name: left[sector == k] for k, name in enumerate(DIRECTIONS)}
    return {name: float((some <= near).mean()) for name, some in found.items() if len(some) >= FEWEST}


def _falls(fallen: Sequence[bool]) -> int:
    """How often an episode went from standing to lying."""
    return sum(now and not before for before, now in zip((False, *fallen), fallen, strict=False))


def visited_cells(played: Sequence[Played], size: Array) -> set[tuple[int, ...]]:
    """The cells of `size` [p] that the paths went through, in the first p axes."""
    paths = [np.stack(one.path)[:, : len(size)] for one in played if one.path]
    return cells_of(np.concatenate(paths), size) if paths else set()
