"""One writer per run folder: a lock that a killed process releases at once, if possible also on shared disks.

The lock is `lockf` on the file .lock. The system releases it when its process ends in any way, child processes do not
inherit it, and most network file systems support it. For the others, the file also names its holder and is rewritten
every few seconds. A holder on another machine is respected as long as the file was rewritten recently. If the system
grants the lock but the file is recent (a job was killed and restarted on another machine), the new process waits for
two
beats.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import secrets
import socket
import stat
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cairn.core.errors import CairnError
from cairn.runs.disk import writing

LOCK = ".lock"
BEAT = 15.0  # seconds between two writes of the holder
LOOK = 0.5  # seconds between two looks while waiting
STALE = 90.0  # seconds without one after which a holder on another machine counts as gone
SIZE = 512  # bytes of the file, constant, so that a rewrite needs no disk space
BUSY = (errno.EACCES, errno.EAGAIN)
UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)

_held: dict[tuple[int, int, int], str] = {}  # process, device, inode -> token of locks held here
_guard = threading.Lock()


class Lock:
    """A context. Entering raises CairnError where another process or thread writes this folder."""

    def __init__(self, folder: Path, *, resume: bool = False) -> None:
        self.folder, self.path, self.resume = folder, folder / LOCK, resume
        self.token = secrets.token_hex(8)
        self.handle = -1
        self.granted = False  # the file system has locks and granted this one
        self.until = 0.0  # until when to wait; what the file said
        self.last_sign: dict[str, Any] = {}
        self.stop = threading.Event()
        self.lost = False  # another process took over after a long silence

    def __enter__(self) -> Self:
        while True:
            with _guard:
                if self._take():
                    break
            time.sleep(min(LOOK, BEAT / 4))
        self.thread = threading.Thread(target=self._beat, name="cairn-lock", daemon=True)
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop.set()
        self.thread.join()
        with _guard, contextlib.suppress(OSError):
            _held.pop(self.key, None)
            if self._reads().get("token") == self.token:
                os.ftruncate(self.handle, 0)
            os.close(self.handle)  # releases the lock

    def check(self) -> None:
        """Raise CairnError where another process took over: further writes would mix with its files."""
        if self.lost or self._reads().get("token") != self.token:
            self.lost = True
            raise CairnError(f"another process has taken over {self.folder}; this one stops and writes no more.")

    # -- taking it

    def _take(self) -> bool:
        """Take the lock; False if it is too early to tell whether it is free. Raises CairnError if it is taken."""
        known = _key(self.path)
        if known is not None and known in _held:  # not opened, because closing it would release the lock
            raise self._refusal({"host": socket.gethostname(), "pid": os.getpid()})
        self.handle = self._open()  # opened again for every look, so that a network file system asks its server
        try:
            free = self._locked()
            found = self._reads()
            if not free or _alive(found):
                raise self._refusal(found if found or free else self._patiently())
            wait = self._elsewhere(found) and not self._silent(found)
            if wait or _key(self.path) != _key(self.handle):  # the holder may have removed the file
                os.close(self.handle)
                return False
        except BaseException:
            os.close(self.handle)
            raise
        self.key = _key(self.handle) or (0, 0, 0)
        if found:
            who = f"{found.get('host')}, process {found.get('pid')}"
            print(
                f"cairn: the run in {self.folder} was not closed by its last process ({who}); this one takes over.",
                file=sys.stderr,
            )
        with writing(self.path):
            self._write()
        _held[self.key] = self.token
        return True

    def _open(self) -> int:
        with writing(self.path):
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise CairnError(f"{self.path} is not a file of Cairn; remove it, or name another folder.")
        return handle

    def _locked(self) -> bool:
        """Whether the lock is granted."""
        try:
            fcntl.lockf(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in BUSY:
                return False
            if error.errno not in UNSUPPORTED:
                raise CairnError(f"{self.path} cannot be locked: {error.strerror}.") from error
            return True  # this file system has no locks: rely on what the file says
        self.granted = True
        return True

    def _elsewhere(self, found: dict[str, Any]) -> bool:
        """Whether another machine holds the lock and wrote recently, by the file system's own clock."""
        if not found or found.get("kernel") == _kernel():
            return False
        return self._now() - os.fstat(self.handle).st_mtime < STALE

    def _now(self) -> float:
        """The time by the file system's own clock, taken from a new file so that the lock stays unchanged."""
        probe = self.path.with_name(f"{LOCK}-{self.token}")
        try:
            probe.touch()
            now = probe.stat().st_mtime
            probe.unlink()
        except OSError:
            return time.time()
        return now

    def _silent(self, found: dict[str, Any]) -> bool:
        """Whether the holder wrote nothing for two beats; False while it is too early. Raises CairnError if it did."""
        if not self.granted:
            raise self._refusal(found)
        if not self.until:
            self.until, self.last_sign = time.monotonic() + 2 * BEAT, found
            print(
                f"cairn: {self.folder} was written by process {found.get('pid')} on {found.get('host')} a moment ago;"
                f" waiting up to {2 * BEAT:.0f} s to see whether that one still runs.",
                file=sys.stderr,
            )
        if found != self.last_sign:
            raise self._refusal(found)
        return time.monotonic() >= self.until

    def _patiently(self) -> dict[str, Any]:
        """The holder. A process that has just taken the lock may not have written its name yet."""
        for _ in range(20):
            if found := self._reads():
                return found
            time.sleep(0.01)
        return {}

    def _refusal(self, found: dict[str, Any]) -> CairnError:
        who = f"process {found.get('pid')} on {found.get('host')}" if found else "another process"
        more = ""
        if found and not self.granted and found.get("kernel") not in (None, _kernel()):
            more = f" If that one is gone, try again in {STALE:.0f} s."
        advice = "wait for it, or stop it" if self.resume else "wait for it, stop it, or name another folder"
        return CairnError(f"{self.folder} is being written by {who}; {advice}.{more}")

    # -- what the file says

    def _reads(self) -> dict[str, Any]:
        try:
            body = json.loads(os.pread(self.handle, SIZE, 0))
        except (OSError, ValueError, RecursionError):
            return {}
        return body if isinstance(body, dict) else {}

    def _write(self) -> None:
        body = {"host": socket.gethostname(), "pid": os.getpid(), "started": _started(os.getpid())}
        body |= {"kernel": _kernel(), "token": self.token, "heard": round(time.time())}
        os.pwrite(self.handle, json.dumps(body).encode().ljust(SIZE), 0)

    def _beat(self) -> None:
        while not self.stop.wait(BEAT):
            if self._reads().get("token") != self.token:
                self.lost = True
                return
            with contextlib.suppress(OSError):
                self._write()


def _key(file: Path | int) -> tuple[int, int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return os.getpid(), found.st_dev, found.st_ino


def _kernel() -> str:
    """Identifies the running system and container, within which locks and process ids are reliable."""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def _started(pid: int) -> str:
    """The start time of a process, in the system's units; '' if it does not exist or has ended."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if told[0] in "ZX" else told[19]
    except (OSError, IndexError):
        return ""


def _alive(found: dict[str, Any]) -> bool:
    """Whether the process that a lock names runs on this machine.

    Needed because `lockf` forgets a lock when its own process opens and closes the file again, as copying the folder
    does.
    """
    pid = found.get("pid")
    if found.get("kernel") != _kernel() or not isinstance(pid, int) or pid == os.getpid():
        return False
    return _started(pid) == found.get("started") != ""
