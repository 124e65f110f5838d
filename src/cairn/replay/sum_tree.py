"""A sum tree in NumPy: draw in proportion to a weight that changes, a whole batch at once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from cairn.core.types import Array

WIDTH = 64  # children of a node: three levels hold a quarter of a million leaves, and a level costs a few NumPy calls


class SumTree:
    """`size` weights of at least 0. Every node is the sum of its children, computed anew whenever one of them is set:
    nothing drifts, and a tree filled from its leaves is the tree they were taken from, to the bit."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.levels: list[Array] = []  # from the leaves up to one node's children
        while not self.levels or size > 1:
            size = -(-size // WIDTH)
            self.levels.append(np.zeros(size * WIDTH))

    @property
    def leaves(self) -> Array:
        return self.levels[0][: self.size]

    @property
    def total(self) -> float:
        return float(self.levels[-1].sum())

    def set(self, at: Array, weight: Array | float) -> None:
        """Where `at` holds a leaf twice, the last of its weights counts."""
        self.levels[0][at] = weight
        for below, above in pairwise(self.levels):
            at = at // WIDTH
            above[at] = below.reshape(-1, WIDTH)[at].sum(1)

    def find(self, share: Array) -> Array:
        """[B] in [0, total) -> the leaves under which these lie, weights laid end to end. Never one of weight 0."""
        node = np.zeros(len(share), np.int64)
        for level in reversed(self.levels):
            reach = level.reshape(-1, WIDTH)[node].cumsum(1)
            share = np.minimum(share, np.nextafter(reach[:, -1], 0))  # rounding may carry it past the last
            child = (reach <= share[:, None]).sum(1)
            before = np.take_along_axis(reach, np.maximum(child - 1, 0)[:, None], 1)[:, 0]
            share = share - np.where(child > 0, before, 0.0)
            node = node * WIDTH + child
        return node
