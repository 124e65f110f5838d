"""What several training seeds say together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RESAMPLES = 5_000


def interquartile_mean(values: Sequence[float]) -> float:
    """The mean of the middle half (Agarwal et al. 2021): a value on the edge counts with the share of it inside."""
    ordered = np.sort(np.asarray(values, float))
    n = len(ordered)
    inside = np.clip(np.minimum(np.arange(1, n + 1) - n / 4, 3 * n / 4 - np.arange(n)), 0, 1)
    return float((ordered * inside).sum() / inside.sum())


def bootstrap(values: Sequence[float], *, level: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """Between which two interquartile means `level` of the resampled sets of seeds lie."""
    drawn = np.random.default_rng(seed).choice(np.asarray(values, float), (RESAMPLES, len(values)))
    found = [interquartile_mean(row) for row in drawn]
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
