"""Checks where a command may write, before any work is done, and whether it may import from the current folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from cairn.core.errors import CairnError
from cairn.core.untrusted import MODULE_ID


def import_from_here(*, trust: bool = False, task: str = "") -> None:
    """Allow imports from the current folder if the user gave --trust or named a task as module:id.

    The folder comes last on the path, so that its files do not hide installed modules.
    """
    if (trust or MODULE_ID.fullmatch(task)) and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def new_file(out: Path, flag: str = "--out") -> None:
    """Raise CairnError where `out` cannot be written, or belongs to a run."""
    from cairn.runs.owned_files import check_output

    writable_file(out, flag)
    check_output(out, flag.removeprefix("--"))


def policy_folder(out: Path) -> None:
    """Raise CairnError where `out` is not new, empty or the folder of an older policy."""
    from cairn.runs.owned_files import check_output
    from cairn.runs.policy_files import check_replaceable

    check_output(writable_folder(out, "--out"))
    check_replaceable(out)


def writable_file(path: Path, flag: str) -> Path:
    """The path. Raises CairnError where no file can be written there. Creates nothing."""
    if path.is_dir():
        raise CairnError(f"{flag} is {path}, which is a folder; name a file.")
    if path.exists() and not os.access(path, os.W_OK):
        raise CairnError(f"{flag} is {path}, which you may not write to; name another file.")
    _reachable(path.parent, flag, path)
    return path


def writable_folder(path: Path, flag: str) -> Path:
    """The path. Raises CairnError where no folder can be made or filled there. Creates nothing."""
    if path.exists() and not path.is_dir():
        raise CairnError(f"{flag} is {path}, which is a file; name a folder.")
    _reachable(path, flag, path)
    return path


def _reachable(folder: Path, flag: str, path: Path) -> None:
    for above in (folder, *folder.absolute().parents):
        if not os.path.lexists(above):
            continue
        if not above.is_dir():
            raise CairnError(f"{flag} is {path}, and {above} is not a folder; name another path.")
        if not os.access(above, os.W_OK | os.X_OK):
            raise CairnError(f"{flag} is {path}, and {above} is not writable; name another folder.")
        return
