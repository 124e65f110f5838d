"""Seeds derived from one root seed and a name, so that random streams are independent."""

from __future__ import annotations

import zlib

import numpy as np


def derive(seed: int, *path: int | str) -> int:
    """A 63-bit seed for the stream that `path` names: equal inputs give equal seeds, other inputs other seeds."""
    words = [zlib.crc32(p.encode()) if isinstance(p, str) else p for p in path]
    state = np.random.SeedSequence([seed, len(words), *words]).generate_state(2, np.uint32)
    return int(state[0]) | (int(state[1] >> 1) << 32)


def derive_many(seed: int, count: int, *path: int | str) -> list[int]:
    """`count` seeds for parallel environments, each below 2³¹, which every environment accepts."""
    return [derive(seed, *path, i) & 0x7FFFFFFF for i in range(count)]
