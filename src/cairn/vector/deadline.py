"""A time limit for calls of environments in this process.

It needs the process's alarm, SIGALRM with a timer. To take it and give it back is four system calls, after which the
processor runs slower for a while: at every step they would take as long as a step of CartPole. So the alarm is kept
from one step to the next, and given back when `give_back` is called or when it ticks between two steps.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

TICKS = 10  # timer signals of one deadline
STARTS_WITHIN = 600.0  # seconds to make environments, which `env_timeout` does not include
LOOK_EVERY = 64  # deadlines between two looks whether the alarm is still ours


class Hang(Exception):
    """An environment did not answer within this many seconds."""


class Alarm:
    """The alarm of the process. Whatever was set before is set again when it is given back."""

    def __init__(self) -> None:
        self.handler = self._tick
        self.period = 0.0  # seconds between ticks; 0: the alarm is not ours
        self.before: Any = None  # the previous handler and timer
        self.now: Deadline | None = None  # whose body runs
        self.taken = 0

    def take(self, period: float) -> None:
        """Tick every `period` seconds; nothing needs to be done where it does so already."""
        self.taken += 1
        if period == self.period and (self.taken % LOOK_EVERY or self._ours()):
            return
        handler = signal.signal(signal.SIGALRM, self.handler)
        timer = signal.setitimer(signal.ITIMER_REAL, period, period)
        if handler != self.handler:
            self.before = handler, timer
        self.period = period

    def _ours(self) -> bool:
        ticking = signal.getitimer(signal.ITIMER_REAL)[1] > 0
        return ticking and signal.getsignal(signal.SIGALRM) == self.handler

    @property
    def lent(self) -> bool:
        """Whether someone else's timer was running, which stands still meanwhile."""
        return self.before is not None and self.before[1][0] > 0

    def give_back(self) -> None:
        """Set the handler and the timer that were set before. Only the main thread can."""
        if not self.period or threading.current_thread() is not threading.main_thread():
            return
        self.period, (handler, timer) = 0.0, self.before
        if signal.getsignal(signal.SIGALRM) == self.handler:  # else someone else has it by now
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler)
            if timer[0]:
                signal.setitimer(signal.ITIMER_REAL, *timer)

    def forget(self) -> None:
        """In a forked process, which inherits no timer."""
        self.period, self.now = 0.0, None

    def _tick(self, *_: Any) -> None:
        if not signal.getitimer(signal.ITIMER_REAL)[1]:  # not ours: someone set an alarm of his own between two steps
            self.give_back()
            signal.raise_signal(signal.SIGALRM)
        elif self.now is None:
            self.give_back()
        else:
            self.now.left -= 1
            if self.now.left <= 0:
                late, self.now = self.now, None
                self.give_back()
                raise Hang(late.seconds)


ALARM = Alarm()
os.register_at_fork(after_in_child=ALARM.forget)


class Deadline:
    """`with Deadline(seconds):` raises Hang where its body takes longer; 0: no limit. Works in the main thread only.

    Counts timer ticks, so that the time of a stopped process (Ctrl-Z) does not count.

    The body must be a call: on Python 3.13.0 an error that a signal raises can escape from a loop that ends the body,
    past `__exit__`.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.outer: Deadline | None = None  # in whose body this one runs
        self.left = 0
        self.runs = False

    def __enter__(self) -> None:
        self.runs = bool(self.seconds) and threading.current_thread() is threading.main_thread()
        if self.runs:
            self.left = TICKS + 1  # the first tick may come at once
            self.outer, ALARM.now = ALARM.now, self
            ALARM.take(self.seconds / TICKS)

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if not self.runs:
            return
        ALARM.now = self.outer
        if self.outer is not None:
            ALARM.take(self.outer.seconds / TICKS)
        elif kind is not None or ALARM.lent:
            ALARM.give_back()
