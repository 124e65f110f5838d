"""How the library is compiled; setup.py reads this file by itself, so it imports only the standard library."""

from __future__ import annotations

import hashlib
from pathlib import Path

SOURCES = tuple(Path(__file__).with_name(name) for name in ("core.cpp", "physics.cpp"))
HEADERS = tuple(Path(__file__).with_name(name) for name in ("product.h",))
# No -march: the loops are compiled for several processors, and the right one is chosen when the library is loaded.
FLAGS = ["-std=c++17", "-O3", "-fPIC", "-fno-math-errno", "-fno-trapping-math", "-pthread"]


def source_hash(sources: tuple[Path, ...] = (*SOURCES, *HEADERS)) -> str:
    """A digest of the sources and the flags. A library of other sources is not used."""
    text = b"".join(source.read_bytes() for source in sources)
    return hashlib.sha256(text + " ".join(FLAGS).encode()).hexdigest()[:16]


def macro() -> tuple[str, str]:
    """The macro that tells the library its own digest."""
    return "CAIRN_SOURCE", f'"{source_hash()}"'
