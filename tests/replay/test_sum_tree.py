"""The sum tree against a cumulative sum."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cairn.replay.sum_tree import WIDTH, SumTree


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([1, 2, WIDTH, WIDTH + 1, 1000, WIDTH**2, WIDTH**2 + 1]), st.integers(0, 99))
def test_finds_the_leaf_a_cumulative_sum_finds(size, seed):
    rng = np.random.default_rng(seed)
    tree, plain = SumTree(size), np.zeros(size)
    for _ in range(5):
        at = rng.integers(0, size, 20)
        weight = rng.integers(0, 4, 20).astype(float)  # whole numbers: sums are exact
        tree.set(at, weight)
        plain[at] = weight
    np.testing.assert_array_equal(tree.leaves, plain)
    assert tree.total == plain.sum()
    if tree.total == 0:
        return
    share = np.concatenate([rng.random(50) * tree.total, np.arange(tree.total)])
    np.testing.assert_array_equal(tree.find(share), np.searchsorted(plain.cumsum(), share, side="right"))


def test_rounding_never_leads_to_a_leaf_of_no_weight():
    rng = np.random.default_rng(0)
    for _ in range(200):
        tree = SumTree(300)
        at = rng.choice(300, 5, replace=False)
        tree.set(at, rng.random(5) * 10.0 ** rng.integers(-12, 12, 5))
        share = np.concatenate([rng.random(30) * tree.total, [0.0, tree.total, np.nextafter(tree.total, 0)]])
        assert set(tree.find(share).tolist()) <= set(at.tolist())


def test_filled_from_its_leaves_it_is_the_same_to_the_bit():
    rng = np.random.default_rng(1)
    tree, again = SumTree(5000), SumTree(5000)
    for _ in range(100):
        tree.set(rng.integers(0, 5000, rng.integers(1, 40)), rng.random())
    again.set(np.arange(5000), tree.leaves)
    for a, b in zip(tree.levels, again.levels, strict=True):
        np.testing.assert_array_equal(a, b)


def test_draws_are_in_proportion():
    tree = SumTree(200)
    tree.set(np.array([3, 70, 199]), np.array([1.0, 2.0, 5.0]))
    found = tree.find(np.random.default_rng(0).random(40_000) * tree.total)
    assert np.bincount(found)[[3, 70, 199]] / 40_000 == pytest.approx([1 / 8, 2 / 8, 5 / 8], abs=0.01)
