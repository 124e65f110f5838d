"""Statistics over several training seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RESAMPLES = 5_000


def interquartile_mean(values: Sequence[float]) -> float:
    """The mean of the middle half of the values (Agarwal et al. 2021); border values count partly."""
    ordered = np.sort(np.asarray(values, float))
    n = len(ordered)
    inside = np.clip(np.minimum(np.arange(1, n + 1) - n / 4, 3 * n / 4 - np.arange(n)), 0, 1)
    return float((ordered * inside).sum() / inside.sum())


def bootstrap(values: Sequence[float], *, level: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """The bootstrap interval of the interquartile mean that contains a share `level` of the resamples."""
    drawn = np.random.default_rng(seed).choice(np.asarray(values, float), (RESAMPLES, len(values)))
    found = [interquartile_mean(row) for row in drawn]
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
