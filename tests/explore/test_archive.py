"""The archive of visited cells: what it counts, which way it keeps, how it draws, and that a checkpoint holds it."""

import numpy as np
import pytest
import torch

from cairn.core.state import pack, unpack
from cairn.explore.archive import Archive


def way(*points):
    return [np.array(point, np.float32) for point in points]


@pytest.fixture
def archive():
    return Archive((2.0, 2.0), width=2, longest=4)


def test_a_cell_keeps_the_shortest_way_and_counts_its_visits(archive):
    archive.visit(np.array([0.9, -0.9]), way((5, 5), (1, 1)))
    archive.visit(np.array([-0.9, 0.9]), way((1, 1)))
    archive.visit(np.array([0.0, 0.0]), way((7, 7), (8, 8), (9, 9)))
    assert len(archive) == 1 and archive.visits[0] == 3
    drawn = archive.draw(torch.Generator().manual_seed(0))
    np.testing.assert_array_equal(np.stack(drawn), [(1, 1)])


def test_cells_are_told_apart_along_every_axis(archive):
    for point in ((0, 0), (1.1, 0), (0, 1.1), (-1.1, 0), (1.1, 1.1)):
        archive.visit(np.array(point), [])
    assert len(archive) == 5


def test_seldom_visited_cells_are_drawn_more_often(archive):
    """P ∝ 1 / √(visits + 1): with 3 and 0 further visits, 1 / √(1 + 1) against 1 / √(4 + 1)."""
    archive.visit(np.array([0.0, 0.0]), way((0, 0)))
    for _ in range(4):
        archive.visit(np.array([4.0, 0.0]), way((4, 0)))
    generator = torch.Generator().manual_seed(0)
    often = np.mean([archive.draw(generator)[0][0] == 4 for _ in range(4000)])
    assert often == pytest.approx(5**-0.5 / (5**-0.5 + 2**-0.5), abs=0.03)


def test_nothing_is_drawn_from_an_empty_archive(archive):
    assert archive.draw(torch.Generator().manual_seed(0)) == []


def test_further_cells_than_fit_are_left_out():
    archive = Archive((1.0,), width=1, longest=2, most=3)
    for x in range(5):
        archive.visit(np.array([float(x)]), way((x,)))
    archive.visit(np.array([1.0]), [])
    assert len(archive) == 3 and archive.visits[:3].tolist() == [1, 2, 1]


def test_a_checkpoint_holds_it(archive):
    draw = np.random.default_rng(0)
    for _ in range(50):
        archive.visit(draw.uniform(-9, 9, 2), list(draw.uniform(-9, 9, (draw.integers(4), 2)).astype(np.float32)))
    again = Archive((2.0, 2.0), width=2, longest=4)
    again.visit(np.array([100.0, 100.0]), [])  # what it held is gone
    unpack({"archive": again}, pack({"archive": archive}))
    for one in (archive, again):
        one.visit(np.array([0.0, 0.0]), [])
        one.visit(np.array([30.0, 0.0]), way((1, 2)))
    assert len(archive) == len(again)
    for name, tensor in archive.state().items():
        assert torch.equal(tensor, again.state()[name]), name
