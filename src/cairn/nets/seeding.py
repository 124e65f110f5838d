"""Networks initialised from a seed, without touching the random state of whoever makes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Inside, torch's global generator on the CPU is seeded, as `torch.manual_seed` would; after, it is as it was.

    Networks are made on the CPU and then moved, so the same seed gives the same weights on every device.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
