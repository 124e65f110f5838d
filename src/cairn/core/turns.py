"""Several runs in one process that take turns (`runs/together.py`). With one run nothing happens here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Turns(Protocol):
    """What runs that share a process ask of the one that schedules them."""

    def pause(self) -> None:
        """Let the other runs go on; return when it is this run's turn again."""

    def meet(self, request: Any) -> Any:
        """Return the result of a request, which is answered with those of the other runs once no run can go on."""

    def wait(self) -> None:
        """Wait until every other run waits too."""


_turns: Turns | None = None


def shared() -> Turns | None:
    """The schedule of this process; None if only one run is trained in it."""
    return _turns


@contextmanager
def taking_turns(turns: Turns) -> Iterator[None]:
    """Context in which runs of this process are scheduled by `turns`."""
    global _turns
    before, _turns = _turns, turns
    try:
        yield
    finally:
        _turns = before
