"""The error for numbers that are not finite."""

from __future__ import annotations

import numpy as np

from cairn.core.errors import EnvError
from cairn.core.types import Array


def refuse_not_finite(first: int, obs: Array, reward: Array | None = None) -> None:
    """Raise EnvError for the first environment with numbers that are not finite; `first` is its number in row 0."""
    for i in range(len(obs)):
        if reward is not None and not np.isfinite(reward[i]):
            raise EnvError(first + i, "returned a reward that is not finite")
        if not np.isfinite(obs[i]).all():
            raise EnvError(first + i, "returned an observation that is not finite, or too large for float32")
