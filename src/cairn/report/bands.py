"""Curves of several seeds as one: their mean and the range between the lowest and the highest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cairn.report.runs import ordered
from cairn.runs.curves import Point


@dataclass(frozen=True)
class Band:
    """Several seeds of one curve at the same steps [n]: their mean, the lowest, the highest, and how many there are."""

    steps: list[int]
    mean: list[float]
    low: list[float]
    high: list[float]
    seeds: list[int]


def band(curves: Sequence[Sequence[Point]], stopped: Sequence[bool]) -> Band | None:
    """At each step measured by any seed, those whose curve spans it, straight lines between their points.

    A seed that `stopped` since it was solved stands at its last value from there on; one that broke off counts no more.
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
