"""Rules of goals and regions of points, by hand and against brute force."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cairn.core.goals import Distance, Region, Within
from cairn.core.serialise import from_json, to_json
from cairn.core.types import Box, Spec

CORNER = st.tuples(st.integers(-5, 5), st.integers(-5, 5))


def test_distance_pays_how_far_off_it_is():
    achieved, desired = np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([[3.0, 4.0], [1.0, 1.0]])
    assert Distance().reward(achieved, desired).tolist() == [-5.0, 0.0]
    assert Distance(scale=0.1).reward(achieved[None], desired).shape == (1, 2)
    assert not Distance().terminated(achieved, desired).any()


def test_within_pays_from_its_base_up():
    achieved, desired = np.array([[0.0], [1.0]], np.float32), np.array([[0.4], [0.0]], np.float32)
    assert Within(0.5).reward(achieved, desired).tolist() == [0.0, -1.0]
    assert Within(0.5, base=0.0).reward(achieved, desired).tolist() == [1.0, 0.0]
    assert Within(0.5, ends=True).terminated(achieved, desired).tolist() == [True, False]


@settings(max_examples=100, deadline=None)
@given(
    boxes=st.lists(st.tuples(CORNER, st.tuples(st.integers(0, 4), st.integers(0, 4))), min_size=1, max_size=4),
    point=st.tuples(st.floats(-12, 12), st.floats(-12, 12)),
)
def test_the_nearest_point_of_a_region_is_the_nearest_of_a_fine_grid(boxes, point):
    region = Region(tuple((low, (low[0] + size[0], low[1] + size[1])) for low, size in boxes))
    at = np.array(point)
    got = region.nearest(at)
    grid = [np.array(p) for (x0, y0), (x1, y1) in region.boxes for p in _grid(x0, y0, x1, y1)]
    best = min(np.linalg.norm(at - p) for p in grid)
    assert np.linalg.norm(at - got) <= best + 1e-9
    assert region.holds(got[None])[0]
    assert region.holds(at[None])[0] == np.array_equal(got, at)
    same = region.nearest(torch.tensor(point, dtype=torch.float64)[None, None])
    np.testing.assert_allclose(same[0, 0].numpy(), got)


def _grid(x0, y0, x1, y1):
    return [(x, y) for x in np.linspace(x0, x1, 9) for y in np.linspace(y0, y1, 9)]


def test_axes_a_region_does_not_speak_of_are_free_and_points_are_copied():
    region = Region((((0.0,), (1.0,)),))
    points = np.array([[2.0, 7.0], [0.5, -3.0]])
    assert region.nearest(points).tolist() == [[1.0, 7.0], [0.5, -3.0]]
    assert points[0, 0] == 2.0


def test_a_region_is_saved_with_the_spec_and_old_specs_can_be_read():
    spec = Spec((4,), "float32", Box((1,), (-1.0,), (1.0,)), reachable=Region((((0.0, 0.0), (1.0, 2.0)),)))
    assert from_json(Spec, to_json(spec)) == spec
    old = to_json(spec)
    del old["reachable"]
    assert from_json(Spec, old).reachable is None


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_points_keep_their_type(kind):
    assert Region((((0, 0), (1, 1)),)).nearest(np.zeros((2, 3, 2), kind)).dtype == kind
