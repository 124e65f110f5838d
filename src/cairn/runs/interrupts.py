"""SIGINT and SIGTERM, handed to every run of this process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

Listener = Callable[[int, "FrameType | None"], None]


class Interrupts:
    """Listens while there is someone to tell; gives back the handlers of before afterwards. In the main thread only."""

    def __init__(self) -> None:
        self.listeners: list[Listener] = []
        self.before: dict[int, Any] = {}

    def tell(self, listener: Listener) -> None:
        """Call `listener` at each of these signals until `leave`."""
        if threading.current_thread() is not threading.main_thread():
            return
        if not self.listeners:
            for number in (signal.SIGINT, signal.SIGTERM):
                self.before[number] = signal.signal(number, self._all)
        self.listeners.append(listener)

    def leave(self, listener: Listener) -> None:
        """Do not call `listener` any more."""
        if listener not in self.listeners:
            return
        self.listeners.remove(listener)
        if not self.listeners:
            for number, handler in self.before.items():
                signal.signal(number, handler)

    def _all(self, number: int, frame: FrameType | None) -> None:
        for listener in tuple(self.listeners):
            listener(number, frame)


INTERRUPTS = Interrupts()
