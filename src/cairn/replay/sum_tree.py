"""A sum tree in NumPy: sampling in proportion to changing weights, a whole batch at once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from cairn.core.types import Array

WIDTH = 64  # children per node; three levels hold 262,144 leaves, and a level costs a few NumPy calls


class SumTree:
    """`size` weights of at least 0, as the leaves of a tree in which every node is the sum of its children.

    A node is recomputed from all its children whenever one changes. So rounding errors do not accumulate, and a tree
    that
    is rebuilt from its leaves is equal bit by bit.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.levels: list[Array] = []  # from the leaves to the children of the root
        while not self.levels or size > 1:
            size = -(-size // WIDTH)
            self.levels.append(np.zeros(size * WIDTH))

    @property
    def leaves(self) -> Array:
        """The weights [size]."""
        return self.levels[0][: self.size]

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self.levels[-1].sum())

    def set(self, at: Array, weight: Array | float) -> None:
        """Set the weights at these indices; of an index that occurs twice, the last weight counts."""
        self.levels[0][at] = weight
        for below, above in pairwise(self.levels):
            at = at // WIDTH
            above[at] = below.reshape(-1, WIDTH)[at].sum(1)

    def find(self, share: Array) -> Array:
        """The leaves [B] at these positions [B] in [0, total) of the cumulative sum; never a leaf of weight 0."""
        node = np.zeros(len(share), np.int64)
        for level in reversed(self.levels):
            reach = level.reshape(-1, WIDTH)[node].cumsum(1)
            share = np.minimum(share, np.nextafter(reach[:, -1], 0))  # rounding may exceed the last
            child = (reach <= share[:, None]).sum(1)
            before = np.take_along_axis(reach, np.maximum(child - 1, 0)[:, None], 1)[:, 0]
            share = share - np.where(child > 0, before, 0.0)
            node = node * WIDTH + child
        return node
