"""A time limit for calls of environments in this process."""

from __future__ import annotations

import signal
import threading
from typing import Any

TICKS = 10  # timer signals of one deadline
STARTS_WITHIN = 600.0  # s that making environments may take; a time-out of steps and resets does not count it


class Hang(Exception):
    """An environment has not answered for this many seconds."""


class Deadline:
    """`with Deadline(seconds):` raises Hang inside its body where the body takes longer; 0 is no limit.

    It uses SIGALRM, the process's only alarm, and holds it no longer than the body runs: the handler and the timer that
    were set before are put back at the end, also after an error. Only the main thread can be interrupted, so in other
    threads it does nothing. It counts ticks and not the clock: while the process is stopped (Ctrl-Z, a sleeping
    laptop), at most one tick adds up.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.before: Any = None  # the handler and the timer of before, while the body runs
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
