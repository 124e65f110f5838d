"""Pickles come out as data, or not at all."""

import pickle
import sys
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cairn import CairnError
from cairn.interop.sb3 import safe_unpickle as inert
from tests.interop.zips import Bomb, box, dumps, statistics, thing

NUMBERS = (
    hnp.boolean_dtypes() | hnp.integer_dtypes() | hnp.unsigned_integer_dtypes() | hnp.floating_dtypes(sizes=(32, 64))
)
ADMITTED = f"{inert.NUMPY}|{inert.SPACES}|stable_baselines3\\.[\\w.]+"


@settings(deadline=None)
@given(hnp.arrays(NUMBERS, hnp.array_shapes(max_dims=3, max_side=4)), st.sampled_from([3, 4, 5]), st.booleans())
def test_arrays_come_out_as_they_were(array, protocol, fortran):
    array = np.asfortranarray(array) if fortran else array
    back = inert.array(inert.load(pickle.dumps(array, protocol), inert.NUMPY, "it"))
    np.testing.assert_array_equal(back, array)
    assert back.dtype.kind == array.dtype.kind


@pytest.mark.parametrize("scalar", [np.float64(0.1), np.float32(0.1), np.int64(-3), np.bool_(True), 7, 0.5, True])
def test_scalars_too(scalar):
    assert inert.array(inert.load(pickle.dumps(scalar), inert.NUMPY, "it")) == scalar


@pytest.mark.parametrize(
    "value", [np.array(["a"]), np.array([{}]), np.zeros(2, "c8"), np.zeros(2, "M8[s]"), "text", None]
)
def test_what_is_not_numbers_is_no_array(value):
    with pytest.raises((ValueError, CairnError)):
        inert.array(inert.load(pickle.dumps(value), inert.NUMPY, "it"))


def test_both_names_of_numpys_core_are_read():
    blob = pickle.dumps(np.arange(3.0), 3)
    old, new = blob.replace(b"numpy._core.", b"numpy.core."), blob.replace(b"numpy.core.", b"numpy._core.")
    assert old != new
    for each in (old, new):
        np.testing.assert_array_equal(inert.array(inert.load(each, inert.NUMPY, "it")), np.arange(3.0))


def test_objects_are_records_and_nothing_is_imported():
    before = set(sys.modules)
    made = inert.load(dumps(thing("antigravity.Kite", box=box([-1.0], [2.0]))), rf"{ADMITTED}|antigravity\.Kite", "it")
    assert inert.name_of(made) == "antigravity.Kite" and inert.name_of(made.state["box"]) == "gym.spaces.box.Box"
    assert inert.array(made.state["box"].state["high"]).tolist() == [2.0]
    assert set(sys.modules) == before


@pytest.mark.parametrize("name", ["os.system", "builtins.eval", "numpy.load", "numpy.random._pickle", "gym.make"])
def test_other_names_are_refused_by_name(name):
    module, _, label = name.rpartition(".")
    with pytest.raises(CairnError, match="which does not belong in such a file; nothing in it was executed"):
        inert.load(f"c{module}\n{label}\n.".encode(), ADMITTED, "it")


@pytest.mark.parametrize("protocol", range(6))
def test_a_bomb_does_not_go_off(protocol, tmp_path):
    marker = tmp_path / "boom"
    with pytest.raises(CairnError, match="'posix.system', which does not belong"):
        inert.load(pickle.dumps([np.zeros(2), Bomb(marker)], max(protocol, 3)), ADMITTED, "it")
    with pytest.raises(CairnError):
        inert.load(pickle.dumps(Bomb(marker), protocol), ADMITTED, "it")
    assert not marker.exists()


def test_what_admitted_names_are_asked_to_do_is_not_done(tmp_path):
    """numpy's own functions are never called, whatever they are given."""
    blob = b"cnumpy.random._pickle\n__bit_generator_ctor\n(Vno such generator\ntR."
    assert inert.load(blob, ADMITTED, "it").args == ("no such generator",)


def test_cut_anywhere_it_is_damaged():
    blob = statistics(np.zeros(3), np.ones(3))
    for length in range(len(blob)):
        with pytest.raises(CairnError, match="it is cut short or damaged"):
            inert.load(blob[:length], ADMITTED, "it")


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_altered_anywhere_it_is_read_or_refused(data):
    blob = bytearray(statistics(np.zeros(3), np.ones(3), protocol=data.draw(st.sampled_from([3, 4, 5]))))
    for _ in range(3):
        blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    try:
        inert.load(bytes(blob), ADMITTED, "it")
    except CairnError:
        pass


@pytest.mark.parametrize("claim", [b"r\xff\xff\xff\x7f", b"\x96\0\0\0\0\1\0\0\0", b"\x8e\0\0\0\0\1\0\0\0"])
def test_a_claim_of_memory_is_not_believed(claim):
    """Two billion memories, four gigabytes of an array, four of bytes."""
    tracemalloc.start()
    try:
        inert.load(b"\x80\x05K\x01" + claim + b".", ADMITTED, "it")
    except CairnError:
        pass
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()


def doubled(build):
    """Sixty values, each of which holds the one before it twice."""
    return b"\x80\x02K\x01\x85q\x00" + b"".join(b"0h%ch%c\x86q%c" % (i, i, i + 1) for i in range(60)) + b"0" + build


@pytest.mark.parametrize(
    "blob",
    [
        doubled(b"}h\x3cK\x01s."),  # a key whose hash never ends
        doubled(b"}(h\x3cK\x01u."),
        doubled(b"(h\x3cK\x01d."),
        doubled(b"ccollections\nOrderedDict\n]h\x3cK\x01\x86a\x85R."),
        doubled(b"h\x3c."),  # a value that could not be printed
        b"\x80\x02]q\x00h\x00a.",  # a list within itself
        b"\x80\x02]" + b"K\x01a" * 600_000 + b".",
        b"\x80\x02" + b"]" * 3000 + b"a" * 2999 + b".",
        b"\x80\x04\x8f.",  # a set
        b"\x80\x02" + b"".join(b"cgym.spaces.a.C%d\nx\n0" % i for i in range(2000)) + b"N.",
    ],
)
def test_pickles_that_would_never_end_are_refused(blob):
    began = time.monotonic()
    with pytest.raises(CairnError):
        inert.load(blob, f"{inert.NUMPY}|{inert.SPACES}", "file")
    assert time.monotonic() - began < 5


def test_an_array_does_not_make_room_for_what_it_claims():
    made = type("_frombuffer", (inert.Record,), {"__module__": "numpy.core.numeric"})(10**12, None, (1,), "C")
    with pytest.raises(ValueError, match="not an array"):
        inert.array(made)
