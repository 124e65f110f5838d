"""Processes of their own that start at once: forked from one that has imported torch and Cairn and done nothing else.

A fresh interpreter takes seconds to import torch. A fork of such a process is as good as a fresh one for what is killed
and resumed: it shares no memory, no file and no thread with the tests.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


class Forked:
    """A process that calls `module.function(*args)`; args are what JSON holds."""

    def __init__(self, module: str, function: str, *args: Any) -> None:
        handle, self.path = tempfile.mkstemp(dir=_folder())
        os.close(handle)
        self.pid: int = _ask(start=[module, function, args, self.path])
        self.code: int | None = None

    def poll(self) -> int | None:
        """Its exit code, -N for signal N, or None while it runs."""
        if self.code is None:
            self.code = _ask(poll=self.pid)
        return self.code

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        if self.code is None:
            self.code = _ask(wait=self.pid)
        return self.code

    def said(self) -> str:
        """What it has written to its standard output and error."""
        return Path(self.path).read_text()


@functools.cache
def _folder() -> str:
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    return folder.name


@functools.cache
def _parent() -> subprocess.Popen[str]:
    """The process that all are forked from. It ends when its standard input is closed, with the tests."""
    pipe = subprocess.PIPE
    parent = subprocess.Popen([sys.executable, "-m", "tests.processes"], cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
    atexit.register(parent.communicate)
    return parent


def _ask(**order: Any) -> Any:
    parent = _parent()
    assert parent.stdin is not None and parent.stdout is not None
    parent.stdin.write(json.dumps(order) + "\n")
    parent.stdin.flush()
    return json.loads(parent.stdout.readline())


def _start(module: str, function: str, args: list[Any], path: str) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        with open(os.devnull) as nothing, open(path, "w") as file:
            os.dup2(nothing.fileno(), 0)
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        getattr(importlib.import_module(module), function)(*args)
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _ended(pid: int, what: str) -> int | None:
    found, status = os.waitpid(pid, os.WNOHANG if what == "poll" else 0)
    return os.waitstatus_to_exitcode(status) if found else None


def main() -> None:
    importlib.import_module("cairn.runs.train")
    for line in sys.stdin:
        ((what, given),) = json.loads(line).items()
        print(json.dumps(_start(*given) if what == "start" else _ended(given, what)), flush=True)


if __name__ == "__main__":
    main()
