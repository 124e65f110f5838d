"""A time limit for calls of environments in this process."""

from __future__ import annotations

import threading

from cairn.vector.alarm import ALARM, Timed

TICKS = 10  # timer signals of one deadline
STARTS_WITHIN = 600.0  # seconds to make environments, which `env_timeout` does not include


class Hang(Exception):
    """An environment did not answer within this many seconds."""


class Deadline:
    """`with Deadline(seconds):` raises Hang where its body takes longer; 0: no limit. Works in the main thread only.

    Counts timer ticks, so that the time of a stopped process (Ctrl-Z) does not count.

    The body must be a call: on Python 3.13.0 an error that a signal raises can escape from a loop that ends the body,
    past `__exit__`.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.outer: Timed | None = None  # in whose body this one runs
        self.left = 0
        self.runs = False

    def __enter__(self) -> None:
        self.runs = bool(self.seconds) and threading.current_thread() is threading.main_thread()
        if self.runs:
            self.left = TICKS + 1  # the first tick may come at once
            self.outer, ALARM.now = ALARM.now, self
            ALARM.take(self.period)

    @property
    def period(self) -> float:
        return self.seconds / TICKS

    def tick(self) -> None:
        self.left -= 1
        if self.left <= 0:
            ALARM.now = None
            ALARM.give_back()
            raise Hang(self.seconds)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self.runs:
            return
        ALARM.now = self.outer
        if self.outer is not None:
            ALARM.take(self.outer.period)
        elif kind is not None or ALARM.lent:
            ALARM.give_back()
