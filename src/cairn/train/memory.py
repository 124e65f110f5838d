"""How the process asks for memory."""

from __future__ import annotations

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEEP = 256 * 2**20


def keep_freed_memory() -> None:
    """Tell glibc to hold on to freed blocks instead of giving them back to the system.

    An update allocates the same few megabytes again and again. Given back, their pages are faulted in anew each time:
    that was a fifth of an SAC update. Elsewhere than on glibc nothing happens.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(M_MMAP_THRESHOLD, KEEP)
        libc.mallopt(M_TRIM_THRESHOLD, KEEP)
    except (OSError, AttributeError):
        pass
