"""Waking up from an environment that hangs in this process."""

from __future__ import annotations

import signal
import threading
from typing import Any

TICKS = 10  # of a deadline
STARTS_WITHIN = 600.0  # s that making environments may take; a time-out of steps and resets does not count it


class Hang(Exception):
    """An environment has not answered for this many seconds."""


class Deadline:
    """A context whose body is woken by Hang where it takes longer; only the main thread can be woken.

    It counts ticks and not the clock: while we are stopped ourselves (Ctrl-Z, a sleeping laptop), one at most adds up.
    An alarm that somebody else has set is put back.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.before: Any = None  # whose alarm it was, and when it is due
        self.left = TICKS

    def _tick(self, *_: Any) -> None:
        self.left -= 1
        if self.left <= 0:
            raise Hang(self.seconds)

    def __enter__(self) -> None:
        self.before = None
        if self.seconds and threading.current_thread() is threading.main_thread():
            self.left, handler = TICKS, signal.signal(signal.SIGALRM, self._tick)
            self.before = handler, signal.setitimer(signal.ITIMER_REAL, self.seconds / TICKS, self.seconds / TICKS)

    def __exit__(self, *_: Any) -> None:
        if self.before is not None:
            handler, timer = self.before
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler)
            if timer[0]:
                signal.setitimer(signal.ITIMER_REAL, *timer)
