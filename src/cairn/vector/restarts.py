"""Counts how often workers were replaced, and decides when a pool gives up."""

from __future__ import annotations

import sys

from cairn.core.errors import EnvError

MAX_RESTARTS_IN_A_ROW = 3


class Restarts:
    """The failures of `count` workers. A worker that fails repeatedly without an answer ends the run."""

    def __init__(self, count: int, *, happened: str) -> None:
        self.total = 0
        self.in_a_row = [0] * count  # failures of each worker since its last answer
        self.happened = happened  # "its worker was restarted", for the message

    def failed(self, worker: int, error: EnvError) -> None:
        """Count and print a failure; the caller then replaces the worker. Raises EnvError if there were too many."""
        self.total += 1
        self.in_a_row[worker] += 1
        if self.in_a_row[worker] > MAX_RESTARTS_IN_A_ROW:
            raise EnvError(error.index, f"{error.what} ({self.happened} {MAX_RESTARTS_IN_A_ROW} times)")
        print(f"cairn: environment {error.index} {error.what}; {self.happened}.", file=sys.stderr)

    def answered(self, worker: int) -> None:
        """Reset the count of a worker's failures in a row."""
        self.in_a_row[worker] = 0
