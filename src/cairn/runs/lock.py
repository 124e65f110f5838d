"""One writer per run folder: a lock that a killed process gives up at once, on a shared disk as well as it can.

The lock is `lockf`'s on the file .lock: the system drops it when its process ends, however it ends, no child inherits
it, and most network file systems pass it on. For those that do not, the file also says who holds it and is written
anew every few seconds: a holder on another machine that was heard of recently is respected, one that was not is gone.
Where the system grants the lock and only the sign of life is recent (a job was killed and put on another machine), the
next one waits for two beats.
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
BEAT = 15.0  # s between two signs of life
LOOK = 0.5  # s between two looks, while a sign of life is waited for
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
        self.granted = False  # whether the file system has locks, and gave us this one
        self.until = 0.0  # until when a sign of life is waited for, and the last one
        self.last_sign: dict[str, Any] = {}
        self.stop = threading.Event()
        self.lost = False  # another has taken over, because we were not heard of for long

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
            os.close(self.handle)  # and with it the lock

    def check(self) -> None:
        """CairnError where another has taken over: whatever is written now would be mixed with its files."""
        if self.lost or self._reads().get("token") != self.token:
            self.lost = True
            raise CairnError(f"another process has taken over {self.folder}; this one stops and writes no more.")

    # -- taking it

    def _take(self) -> bool:
        """Take it, or return False where it is too early to say whether it can be taken. CairnError where it cannot."""
        known = _key(self.path)
        if known is not None and known in _held:  # not even opened: closing it would give up the lock held here
            raise self._refusal({"host": socket.gethostname(), "pid": os.getpid()})
        self.handle = self._open()  # anew for every look, so that a network file system asks its server
        try:
            free = self._locked()
            found = self._reads()
            if not free or _alive(found):
                raise self._refusal(found if found or free else self._patiently())
            wait = self._elsewhere(found) and not self._silent(found)
            if wait or _key(self.path) != _key(self.handle):  # or it was removed by whoever held it
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
        """Whether the lock is ours now."""
        try:
            fcntl.lockf(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in BUSY:
                return False
            if error.errno not in UNSUPPORTED:
                raise CairnError(f"{self.path} cannot be locked: {error.strerror}.") from error
            return True  # no locks on this file system: what the file says must do
        self.granted = True
        return True

    def _elsewhere(self, found: dict[str, Any]) -> bool:
        """Whether the lock is held on another machine that was heard of recently, by the file system's own clock."""
        if not found or found.get("kernel") == _kernel():
            return False
        return self._now() - os.fstat(self.handle).st_mtime < STALE

    def _now(self) -> float:
        """The time by the file system's own clock: that of a new file. The lock's own times are left alone."""
        probe = self.path.with_name(f"{LOCK}-{self.token}")
        try:
            probe.touch()
            now = probe.stat().st_mtime
            probe.unlink()
        except OSError:
            return time.time()
        return now

    def _silent(self, found: dict[str, Any]) -> bool:
        """Whether no sign of life came for two beats; False while it is too early. CairnError where one came."""
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
        """Who holds it: whoever has just taken it has not yet said."""
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
    """Of which running system, and which container of it, this is one: within it, locks and process ids are sure."""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
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
