"""A time limit for calls of environments in this process."""

from __future__ import annotations

import signal
import threading
from typing import Any

TICKS = 10  # timer signals of one deadline
STARTS_WITHIN = 600.0  # seconds to make environments, which `env_timeout` does not include


class Hang(Exception):
    """An environment did not answer within this many seconds."""


class Deadline:
    """`with Deadline(seconds):` raises Hang where its body takes longer; 0: no limit. Works in the main thread only.

    Uses SIGALRM, and restores the previous handler and timer at the end, also after an error. Counts timer ticks, so
    that the time of a stopped process (Ctrl-Z) does not count.

    The body must be a call: on Python 3.13.0 an error that a signal raises can escape from a loop that ends the body,
    past `__exit__`.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.before: Any = None  # the previous handler and timer, while the body runs
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
