"""One writer per run folder: a lock that a killed process gives up at once, on a shared disk as well as it can.

The lock is `lockf`'s on the file .lock: the system drops it when its process ends, however it ends, no child inherits
it, and most network file systems pass it on. For those that do not, the file also says who holds it and is written
anew every few seconds: a holder on another machine that was heard of recently is respected, one that was not is gone.
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
from cairn.train.disk import writing

LOCK = ".lock"
BEAT = 15.0  # s between two signs of life
STALE = 90.0  # s without one, after which a holder on another machine is taken to be gone
SIZE = 512  # bytes, always as many: a sign of life needs no room on the disk
BUSY = (errno.EACCES, errno.EAGAIN)
UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)

_held: dict[tuple[int, int, int], str] = {}  # process, device and inode of the locks held here: `lockf` is per process
_guard = threading.Lock()


class Lock:
    """Use as a context. CairnError on entry where another process, or thread, writes this folder."""

    def __init__(self, folder: Path, *, resume: bool = False) -> None:
        self.folder, self.path, self.resume = folder, folder / LOCK, resume
        self.token = secrets.token_hex(8)
        self.handle = -1
        self.stop = threading.Event()
        self.lost = False  # another has taken over, because we were not heard of for long

    def __enter__(self) -> Self:
        with _guard:
            self._take()
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
            os.close(self.handle)  # and with it the lock

    def check(self) -> None:
        """CairnError where another has taken over: whatever is written now would be mixed with its files."""
        if self.lost or self._reads().get("token") != self.token:
            self.lost = True
            raise CairnError(f"another process has taken over {self.folder}; this one stops and writes no more.")

    # -- taking it

    def _take(self) -> None:
        known = _key(self.path)
        if known is not None and known in _held:  # not even opened: closing it would give up the lock held here
            raise self._refusal({"host": socket.gethostname(), "pid": os.getpid()})
        while True:
            self.handle = self._open()
            try:
                free = self._locked()
                found = self._reads()
                if not free or _alive(found) or self._elsewhere(found):
                    raise self._refusal(found if found or free else self._patiently())
                if _key(self.path) == _key(self.handle):
                    break
            except BaseException:
                os.close(self.handle)
                raise
            os.close(self.handle)  # it was removed by whoever held it: there is a new one, or none
        self.key = _key(self.handle) or (0, 0, 0)
        if found:
            who = f"{found.get('host')}, process {found.get('pid')}"
            print(
                f"cairn: the run in {self.folder} was left without an end ({who}); this one goes on.", file=sys.stderr
            )
        with writing(self.path):
            self._write()
        _held[self.key] = self.token

    def _open(self) -> int:
        with writing(self.path):
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise CairnError(f"{self.path} is not a file of Cairn; remove it, or name another folder.")
        return handle

    def _locked(self) -> bool:
        """Whether the lock is ours now."""
        try:
            fcntl.lockf(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in BUSY:
                return False
            if error.errno not in UNSUPPORTED:
                raise CairnError(f"{self.path} cannot be locked: {error.strerror}.") from error
            return True  # no locks on this file system: what the file says must do
        return True

    def _elsewhere(self, found: dict[str, Any]) -> bool:
        """Whether the lock is held on another machine that was heard of recently, by the file system's own clock."""
        if not found or found.get("kernel") == _kernel():
            return False
        heard = os.fstat(self.handle).st_mtime
        with contextlib.suppress(OSError):
            os.utime(self.handle)
            now = os.fstat(self.handle).st_mtime
            os.utime(self.handle, (heard, heard))
            return now - heard < STALE
        return time.time() - heard < STALE

    def _patiently(self) -> dict[str, Any]:
        """Who holds it: whoever has just taken it has not yet said."""
        for _ in range(20):
            if found := self._reads():
                return found
            time.sleep(0.01)
        return {}

    def _refusal(self, found: dict[str, Any]) -> CairnError:
        who = f"process {found.get('pid')} on {found.get('host')}" if found else "another process"
        more = ""
        if found and found.get("kernel") not in (None, _kernel()):
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
    """Of which running system this is one: within it, locks are sure."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return socket.gethostname()


def _started(pid: int) -> str:
    """When a process began, as the system counts; '' where it is not there or has ended."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if told[0] in "ZX" else told[19]
    except (OSError, IndexError):
        return ""


def _alive(found: dict[str, Any]) -> bool:
    """Whether the process that a lock names runs on this machine. `lockf` forgets a lock whose file its own process
    opened and closed once more, as a copy of the folder does."""
    pid = found.get("pid")
    if found.get("kernel") != _kernel() or not isinstance(pid, int) or pid == os.getpid():
        return False
    return _started(pid) == found.get("started") != ""
