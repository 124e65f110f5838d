"""Numbers as text: percentages, metric values, large numbers, durations."""

from __future__ import annotations

import math
from collections.abc import Callable


def percent(share: float) -> str:
    """0.985 as 98.5 %."""
    return f"{100 * share:.4g} %"


def number(value: float, digits: int = 5) -> str:
    """12345.6 as 12,346: `digits` significant digits."""
    return f"{value:,.{digits}g}"


def writer(metric: str) -> Callable[[float], str]:
    """The function that formats values of a metric: success rates as percentages, returns as numbers."""
    return percent if metric == "success" else number


def tabled(figure: float, metric: str) -> str:
    """A value for the tables of recipes: a success rate as a percentage, a return with one decimal."""
    return f"{100 * figure:g} %" if metric == "success" else f"{figure:.1f}".removesuffix(".0")


def short(value: float) -> str:
    """1500000 as 1.5M, 0.1 as 0.1, 20000 as 20k."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size * 0.99995 * (10 if letter == "k" else 1):
            return f"{value / size:.4g}{letter}"
    return f"{value:.4g}" if abs(value) > 1e-12 else "0"


def duration(seconds: float) -> str:
    """3900 as 1 h 05 min, 65 as 1 min 05 s; - for infinity and NaN."""
    if not math.isfinite(seconds):
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
