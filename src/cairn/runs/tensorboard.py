"""Writes scalars for TensorBoard.

TensorBoard's own writer uses a thread: on a full disk it prints a traceback, and the training never learns of it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from cairn.runs.disk import failure

PREFIX = "events.out.tfevents."


class Board:
    """One event file. With `purge_step`, TensorBoard drops what earlier files say of that step and later ones."""

    def __init__(self, folder: Path, *, purge_step: int | None = None) -> None:
        self.handle, self.size, self.purge_step = -1, 0, purge_step
        stem = f"{PREFIX}{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}"
        k = 0
        while os.path.lexists(folder / f"{stem}.{k}"):
            k += 1
        self.path = folder / f"{stem}.{k}"

    def _begin(self) -> None:
        self.path.parent.mkdir(exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self.handle = os.open(self.path, flags, 0o666)
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))
        if self.purge_step is not None:
            start = SessionLog(status=SessionLog.START)
            self._write(Event(wall_time=time.time(), step=self.purge_step, session_log=start))

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write values at a step. Raises DiskError."""
        if not values:
            return
        found = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        try:
            if self.handle < 0:
                self._begin()
            self._write(Event(wall_time=time.time(), step=step, summary=Summary(value=found)))
        except OSError as error:
            if self.handle >= 0:
                with contextlib.suppress(OSError):
                    os.ftruncate(self.handle, self.size)
            raise failure(self.path, error) from error

    def _write(self, event: Event) -> None:
        RecordWriter(self).write(event.SerializeToString())

    def write(self, blob: bytes) -> None:
        """Write a record with its length and checksums; called by RecordWriter."""
        left = memoryview(blob)
        while left:
            left = left[os.write(self.handle, left) :]
        self.size += len(blob)

    def close(self) -> None:
        """Close the file."""
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1
