"""A time limit for calls of environments in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from cairn.vector.alarm import ALARM

TICKS = 10  # timer signals of one deadline
STARTS_WITHIN = 600.0  # seconds to make environments, which `env_timeout` does not include


class Hang(Exception):
    """An environment did not answer within this many seconds."""


class Deadline:
    """`with Deadline(seconds):` raises Hang where its body takes longer; 0: no limit. Works in the main thread only.

    Counts ticks of the alarm, the first of which may come at once. A stopped process (Ctrl-Z) has none.

    The body must be a call: on Python 3.13.0 an error that a signal raises can escape from a loop that ends the body,
    past `__exit__`.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self.left = seconds, 0
        self.outer: tuple[float, Callable[[], None] | None] | None = None  # what the alarm did before the body

    def _tick(self) -> None:
        self.left -= 1
        if self.left < 0:
            ALARM.now = None
            ALARM.give_back()
            raise Hang(self.seconds)

    def __enter__(self) -> None:
        self.outer = None
        if self.seconds and threading.current_thread() is threading.main_thread():
            self.left, self.outer = TICKS, (ALARM.period, ALARM.now)
            ALARM.now = self._tick
            ALARM.take(self.seconds / TICKS)

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if self.outer is not None:
            period, ALARM.now = self.outer
            if ALARM.now is not None and period:
                ALARM.take(period)
            elif kind is not None or ALARM.lent:
                ALARM.give_back()
