"""The alarm of the process: SIGALRM with a timer, from which deadlines count.

To take it and give it back is four system calls, after which the processor runs slower for a while: at every step they
would take as long as a step of CartPole. So it is kept from one step to the next, and given back when a vector closes,
after a fault, or when it ticks between two steps.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

LOOK_EVERY = 64  # deadlines between two looks whether the alarm is still ours


class Alarm:
    """Calls `now` at every tick. Whatever was set before is set again when the alarm is given back."""

    def __init__(self) -> None:
        self.handler = self._tick
        self.period = 0.0  # seconds between ticks; 0: the alarm is not ours
        self.before: Any = None  # the previous handler and timer
        self.now: Callable[[], None] | None = None  # None between two steps
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
            self.now()


ALARM = Alarm()
os.register_at_fork(after_in_child=ALARM.forget)
