"""How the library is compiled; setup.py reads this file by itself, so it imports only the standard library."""

from __future__ import annotations

import hashlib
from pathlib import Path

SOURCE = Path(__file__).with_name("core.cpp")
HEADERS = [SOURCE.with_name("product.h")]
# No -march: the loops are compiled for several processors, and the right one is chosen when the library is loaded.
FLAGS = ["-std=c++17", "-O3", "-fPIC", "-fno-math-errno", "-fno-trapping-math"]


def source_hash(source: Path = SOURCE) -> str:
    """A digest of the source and the flags. A library of another source is not used."""
    files = [path.read_bytes() for path in (source, *HEADERS)]
    return hashlib.sha256(b"".join(files) + " ".join(FLAGS).encode()).hexdigest()[:16]


def macro(source: Path = SOURCE) -> tuple[str, str]:
    """The macro that tells the library its own digest."""
    return "CAIRN_SOURCE", f'"{source_hash(source)}"'
