"""Errors that reach a person as one sentence, never as a traceback."""

from __future__ import annotations

import re
from collections.abc import Iterable


class CairnError(Exception):
    """Something the user can mend. The message names the thing, what is wrong with it and what to do."""

    exit_code = 2


class EnvError(CairnError):
    """An environment raised, hung or returned something that is not a number."""

    exit_code = 1

    def __init__(self, index: int, what: str) -> None:
        super().__init__(f"environment {index} {what}")
        self.index = index
        self.what = what


def closest(name: str, known: Iterable[str]) -> str:
    """' Did you mean X?' for the one known name that is a typing mistake away, or nothing."""
    found = nearest(name, known)
    return f" Did you mean {found}?" if found is not None else ""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one known name that is a typing mistake away; None where there is none, or several.

    A mistake is one letter in four wrong, missing, added or swapped with its neighbour, or the end of the name left
    out. Of two versions of a task that are equally near the newer one counts.
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
    """Letters to change, add, leave out or swap with their neighbour to turn one word into the other."""
    if abs(len(one) - len(other)) > max(len(one) // 4, 1):
        return max(len(one), len(other))  # too far apart to be counted
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
