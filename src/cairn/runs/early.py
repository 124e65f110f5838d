"""When an evaluation need not be played to its end: it is clear that its score stays below what would matter."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from cairn.core.types import Episode

LEAST = 10  # episodes before which nothing is clear
DEVIATIONS = 6.0  # of the predicted mean from the bar; Student's t with 9 degrees of freedom is there once in 10,000


def hopeless(played: Sequence[Episode], episodes: int, bar: float, metric: str) -> bool:
    """Whether the score of `episodes` episodes, of which these are the first, will be below `bar`.

    Success is certain to stay below if all other episodes succeed and it still does. A mean return is predicted: with n
    returns of mean m and standard deviation s, and k to come, that of all is m ± (k / (n + k)) s √(1/n + 1/k).
    """
    n, left = len(played), episodes - len(played)
    if metric == "success":
        return sum(bool(one.success) for one in played) + left < bar * episodes
    returns = np.array([one.total for one in played])
    if n < LEAST or left <= 0 or np.ptp(returns) == 0:  # equal returns do not tell how others differ
        return False
    spread = left / episodes * float(returns.std(ddof=1)) * sqrt(1 / n + 1 / left)
    return float(returns.mean()) + DEVIATIONS * spread < bar
