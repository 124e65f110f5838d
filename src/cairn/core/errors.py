"""Errors that are shown to the user as one sentence, without a traceback."""

from __future__ import annotations

import re
from collections.abc import Iterable


class CairnError(Exception):
    """A mistake the user can correct. The message says what is wrong, with the value, and what to do instead."""

    exit_code = 2


class EnvError(CairnError):
    """An environment raised an exception, did not answer in time, or returned invalid values.

    Attributes:
        index: Number of the environment, from 0.
        what: What it did, as a clause that follows "environment N".
    """

    exit_code = 1

    def __init__(self, index: int, what: str) -> None:
        super().__init__(f"environment {index} {what}")
        self.index = index
        self.what = what


def closest(name: str, known: Iterable[str]) -> str:
    """' Did you mean X?' for the known name that `nearest` finds; "" where there is none."""
    found = nearest(name, known)
    return f" Did you mean {found}?" if found is not None else ""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to a mistyped one; None where there is none, or several.

    At most one letter in four may be wrong, missing, added or swapped with its neighbour, or the end of the name may be
    missing. Of several versions of a task that are equally close, the newest is returned.
    """
    asked = name.strip("-").lower()
    near: dict[str, int] = {}
    longer: list[str] = []
    for one in known:
        word = one.strip("-").lower()
        slips = _slips(asked, word)
        if slips <= len(asked) // 4 or (slips == 1 and len(asked) >= 3):
            near[one] = slips
        elif len(asked) >= 4 and word.startswith(asked):
            longer.append(one)
    if near:
        longer = [one for one, slips in near.items() if slips == min(near.values())]
    elif len(longer) > 1 and not all(re.fullmatch(r"-v\d+", one[len(asked) :]) for one in longer):
        return None
    return max(longer) if longer else None


def _slips(one: str, other: str) -> int:
    """Edit distance, where swapping two neighbours is one edit; the length of the longer word if it is large."""
    if abs(len(one) - len(other)) > max(len(one) // 4, 1):
        return max(len(one), len(other))  # the distance cannot be small: skip the work
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before, last = last, row
    return last[-1]
