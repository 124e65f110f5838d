"""Initialise networks from a seed without changing torch's global random state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Context in which torch's global CPU generator is seeded; its state is restored afterwards.

    Networks are made on the CPU and then moved, so one seed gives the same weights on every device.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
