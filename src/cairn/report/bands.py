"""Curves of several seeds as one: their mean and their range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cairn.report.runs import ordered
from cairn.runs.curves import Point


@dataclass(frozen=True)
class Band:
    """Several seeds of one curve at the same steps [n]: mean, lowest, highest, and number of seeds."""

    steps: list[int]
    mean: list[float]
    low: list[float]
    high: list[float]
    seeds: list[int]


def band(curves: Sequence[Sequence[Point]], stopped: Sequence[bool]) -> Band | None:
    """At each step that any seed has, the seeds whose curve includes it, interpolated linearly.

    A seed that `stopped` because it was solved keeps its last value; one that was interrupted ends there.
    """
    pairs = [(ordered(c), s) for c, s in zip(curves, stopped, strict=True)]
    pairs = [(c, s) for c, s in pairs if c]
    if not pairs:
        return None
    steps = sorted({p.step for c, _ in pairs for p in c})
    rows = []
    for curve, solved in pairs:
        at = np.array(steps, float)
        values = np.interp(at, [p.step for p in curve], [p.value for p in curve])
        outside = (at < curve[0].step) | ((at > curve[-1].step) & (not solved))
        rows.append(np.where(outside, np.nan, values))
    table = np.array(rows)
    counts = (~np.isnan(table)).sum(0)
    return Band(
        steps,
        np.nanmean(table, 0).tolist(),
        np.nanmin(table, 0).tolist(),
        np.nanmax(table, 0).tolist(),
        counts.tolist(),
    )
