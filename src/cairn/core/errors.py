"""Errors that reach a person as one sentence, never as a traceback."""

from __future__ import annotations

import difflib
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
    """' Did you mean X?' for the nearest known name, or nothing."""
    match = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean {match[0]}?" if match else ""
