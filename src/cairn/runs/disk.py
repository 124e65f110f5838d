"""Errors of full and read-only disks, as one sentence that names the file."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from cairn.core.errors import CairnError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DiskError(CairnError):
    """A file could not be written. A run adds the path of its last checkpoint."""

    def __init__(self, what: str, *, full: bool = False) -> None:
        super().__init__(f"{what}.")
        self.what, self.full = what, full


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Context that turns an OSError into a DiskError for `path`."""
    try:
        yield
    except OSError as error:
        raise failure(path, error) from error


def failure(path: Path, error: OSError) -> DiskError:
    """The DiskError for an OSError at `path`."""
    if error.errno in FULL:
        return DiskError(f"the disk is full: {path} could not be written, and what was saved before stands", full=True)
    return DiskError(f"{path} could not be written: {error.strerror or error}")
