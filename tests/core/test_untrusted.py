"""Files that anybody may have written: whatever they hold, one sentence and no harm."""

import io
import json
import os
import socket
import struct
import time
import zipfile

import numpy as np
import pytest
import safetensors.numpy

from cairn.core import untrusted_zip
from cairn.core.errors import CairnError
from cairn.core.untrusted import (
    NotThere,
    check_tensors,
    parse_json,
    printable,
    read_bytes,
    read_json,
    read_text,
    shown,
)
from cairn.core.untrusted_zip import opened_zip, read_npz, unpacked


def refused(call, *says):
    """The sentence of the CairnError that a call must raise, within five seconds."""
    began = time.monotonic()
    with pytest.raises(CairnError) as caught:
        call()
    assert time.monotonic() - began < 5
    text = str(caught.value)
    assert text.isprintable() and len(text) < 700, text
    assert all(word in text for word in says), text
    return text


# -- what is shown


def test_escape_codes_and_line_ends_do_not_reach_the_terminal():
    assert shown("a\x1b[2Jb\rc\u202ed\ne") == "a�[2Jb�c�d e"
    assert printable("a\x1b]0;title\x07\nb") == "a�]0;title�\nb"
    assert shown("x" * 1000).endswith("…") and len(shown("x" * 1000)) == 120
    assert shown("\ud800") == "�"


def test_a_value_that_would_be_written_out_for_ever_is_cut_short():
    value = ("a",)
    for _ in range(200):
        value = (value, value)
    assert len(shown(value)) <= 120
    assert shown(10**5000) == "a whole number of 16,610 bits"
    assert shown({"a": [1, 2]}) == "{'a': [1, 2]}"


# -- files


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(tmp_path)  # a socket's path is short
        server.bind("socket")
        os.chdir(here)
    (tmp_path / "link").symlink_to("/dev/zero")
    refused(lambda: read_bytes(tmp_path / "fifo", 10), "is a pipe")
    refused(lambda: read_bytes(tmp_path / "socket", 10), "is a socket")
    refused(lambda: read_bytes(tmp_path, 10), "is a folder")
    refused(lambda: read_bytes(tmp_path / "link", 10), "is a device")
    refused(lambda: read_text(tmp_path / "link"), "is a device")


def test_links_are_followed_only_where_they_are_wanted(tmp_path):
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert read_bytes(tmp_path / "link", 10) == b"text"
    refused(lambda: read_bytes(tmp_path / "link", 10, links=False), "is a symbolic link")


def test_a_file_that_is_missing_too_large_or_of_an_impossible_name(tmp_path):
    with pytest.raises(NotThere, match="there is no file"):
        read_bytes(tmp_path / "none", 10)
    with pytest.raises(NotThere):
        read_bytes(tmp_path / "none" / "file", 10)
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(2**40)
    refused(lambda: read_bytes(tmp_path / "sparse", 2**20), "larger than 1 MiB")
    refused(lambda: read_bytes(tmp_path / "a\0b", 10), "cannot be read")
    refused(lambda: read_bytes(tmp_path / ("x" * 5000), 10), "cannot be read")
    refused(lambda: read_bytes(tmp_path / "esc\x1b[0m", 10), "esc�[0m")


def test_a_file_that_claims_to_be_empty_is_read_up_to_the_limit(tmp_path):
    """Files of /proc are regular, of size 0 and full of text."""
    refused(lambda: read_bytes("/proc/self/status", 10), "larger than 10 bytes")


# -- JSON


def test_json_is_read_as_it_was_written():
    body = {"a": [1, -2.5, None, True, '[{\\"é'], "b": {"c": {}}}
    assert parse_json(json.dumps(body), "x") == body
    assert parse_json(b"[Infinity, -Infinity]", "x") == [float("inf"), float("-inf")]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[" * 200_000, "nested more than"),
        ("[" * 200_000 + "]" * 200_000, "nested more than"),
        ('{"a":' * 200_000 + "1" + "}" * 200_000, "nested more than"),
        ("[" + "0," * 1_000_001 + "0]", "more than 1,000,000 values"),
        ("[" + "[]," * 1_000_000 + "0]", "more than 1,000,000 values"),
        ("1" * 5000, "5,000 digits"),
        ("[-" + "1" * 50 + "]", "51 digits"),
        ('{"a": 1, "a": 2}', "two members of the same name"),
        ("", "not JSON"),
        ("[1, 2", "not JSON"),
        ('"' + '\\"' * 2_000_000, "not JSON"),
        ('["' + "\\" * 999_999, "not JSON"),
        ('"' * 2_000_001, "not JSON"),
        ("]" * 10, "not JSON"),
        (b"\xff\xfe[\x00", "not JSON"),
        (b"\x00", "not JSON"),
    ],
)
def test_json_beyond_the_limits_is_one_sentence(tmp_path, text, says):
    path = tmp_path / "file.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    refused(lambda: read_json(path), "file.json", says)


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "[-Infinity]", "1e999", "-1e999"])
def test_numbers_that_are_not_finite_are_refused_where_that_is_asked(text):
    parse_json(text, "x")
    refused(lambda: parse_json(text, "x", finite=True), "not a finite number")


# -- tensors


def tensors(head, body=b""):
    blob = head if isinstance(head, bytes) else json.dumps(head).encode()
    return struct.pack("<Q", len(blob)) + blob + body


def test_tensors_that_fit_are_told_by_their_shapes():
    blob = safetensors.numpy.save({"a": np.ones((2, 3), np.float32), "b": np.zeros((0, 5), np.int64), "c": np.ones(())})
    assert check_tensors(blob, "x") == {"a": (2, 3), "b": (0, 5), "c": ()}


def entry(**changed):
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changed}


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"\xff" * 8,
        struct.pack("<Q", 10) + b"{}",
        tensors([1]),
        tensors(b"[" * 100_000),
        tensors({"a": 1}, b"\0" * 8),
        tensors({"a": entry(shape=[10**9, 10**9])}, b"\0" * 8),
        tensors({"a": entry(shape=[2**62, 4])}, b"\0" * 8),
        tensors({"a": entry(shape=[-2])}, b"\0" * 8),
        tensors({"a": entry(shape=[True, 2])}, b"\0" * 8),
        tensors({"a": entry(shape=[1] * 40 + [2])}, b"\0" * 8),
        tensors({"a": entry(shape="2")}, b"\0" * 8),
        tensors({"a": entry(dtype="F4")}, b"\0" * 8),
        tensors({"a": entry(dtype=["F32"])}, b"\0" * 8),
        tensors({"a": entry(data_offsets=[0, 8, 8])}, b"\0" * 8),
        tensors({"a": entry(), "b": entry()}, b"\0" * 8),
        tensors({"a": entry()}, b"\0" * 9),
        tensors({"a": entry()}, b"\0" * 7),
        tensors({"a" * 300: entry()}, b"\0" * 8),
    ],
)
def test_tensors_that_do_not_fit_their_bytes_are_refused(blob):
    refused(lambda: check_tensors(blob, "a.safetensors"), "a.safetensors")


# -- zips


def zipped(members, method=zipfile.ZIP_DEFLATED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as out:
        for name, data in members:
            out.writestr(name, data)
    return file.getvalue()


def everything(blob):
    with opened_zip(blob, "x.zip") as found:
        return {name: unpacked(found, name) for name in found.namelist()}


def test_a_zip_is_read_as_it_was_written():
    members = [("a", b"x" * 3_000_000), ("b/c", b""), ("d", os.urandom(2_000_000))]
    assert everything(zipped(members)) == dict(members)
    assert everything(zipped(members, zipfile.ZIP_STORED)) == dict(members)


def test_zips_that_would_fill_the_memory_are_refused(monkeypatch):
    zeros = zipped([("a", bytes(300 * 2**20))])
    refused(lambda: everything(zeros), "would unpack to 314,572,800 bytes")
    many = zipped([(str(i), b"") for i in range(10_001)])
    refused(lambda: everything(many), "more than 10,000 members")
    refused(lambda: everything(zipped([("a", b"x")], zipfile.ZIP_BZIP2)), "another method than deflate")
    refused(lambda: everything(zipped([("n" * 300, b"x")])), "longer than 255 characters")
    monkeypatch.setattr(untrusted_zip, "ZIP_INDEX", 1000)
    refused(lambda: everything(zipped([(str(i), b"") for i in range(100)])), "not a zip")


def test_a_member_never_unpacks_to_more_than_it_declares():
    blob = zipped([("a", bytes(200 * 2**20))])
    size = struct.pack("<I", 200 * 2**20)
    lying = blob.replace(size, struct.pack("<I", 100))
    assert lying != blob
    import tracemalloc

    tracemalloc.start()
    refused(lambda: everything(lying), "damaged")
    assert tracemalloc.get_traced_memory()[1] < 20 * 2**20
    tracemalloc.stop()


def test_members_that_overlap_or_share_a_name_are_refused():
    blob = zipped([("a", b"1" * 100), ("b", b"2" * 100)], zipfile.ZIP_STORED)
    at = blob.rfind(b"PK\x01\x02")  # of b, in the list of members
    same = blob[: at + 42] + struct.pack("<I", 0) + blob[at + 46 :]
    refused(lambda: everything(same), "overlaps")
    with pytest.warns(UserWarning):
        twice = zipped([("a", b"1"), ("a", b"2")])
    refused(lambda: everything(twice), "the same name")


@pytest.mark.parametrize("at", range(0, 240, 7))
def test_a_damaged_zip_is_read_whole_or_refused(at):
    blob = bytearray(zipped([("a", b"1" * 100), ("b", b"2" * 100)]))
    blob[at % len(blob)] ^= 0xFF
    try:
        everything(bytes(blob))
    except CairnError:
        pass
    refused(lambda: everything(bytes(blob[: at % len(blob)])), "x.zip")


# -- NumPy archives


def npz(path, **arrays):
    np.savez_compressed(path, **arrays)
    return path


def test_arrays_are_read_as_they_were_written(tmp_path):
    made = {
        "a": np.arange(6, dtype=np.int64).reshape(2, 3),
        "b": np.asfortranarray(np.random.default_rng(0).normal(size=(3, 4))),
        "c": np.array("CartPole-v1"),
        "d": np.zeros((0, 4), np.float32),
        "e": np.array([True, False]),
        "f": np.array(2.5, ">f4"),
    }
    read = read_npz(npz(tmp_path / "x.npz", **made), list("abcde"), optional=["f", "g"])
    assert list(read) == list("abcdef")
    for name, value in made.items():
        assert np.array_equal(read[name], value) and read[name].dtype == value.dtype


def npy(descr="'<f8'", shape="(2,)", data=b"\0" * 16, order="False"):
    head = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x93NUMPY\x01\x00\xff\xff",
        npy(shape="(1000000000000,)"),
        npy(shape="(4611686018427387904, 4, 1)"),
        npy(shape="(-2,)"),
        npy(shape="(" * 5000),
        npy(shape="(2, 0, 1000000000000000)"),
        npy("'|O'"),
        npy("'<U0'", "(1000000000000,)", b""),
        npy("[('a', '<f8')]"),
        npy("'<f7'", "(2,)", b"\0" * 14),
        npy("__import__('os')"),
        npy("'<U2'", "(2,)", b"\xff" * 16),
    ],
)
def test_arrays_that_do_not_fit_their_bytes_are_refused(tmp_path, data):
    (tmp_path / "x.npz").write_bytes(zipped([("a.npy", data)]))
    refused(lambda: read_npz(tmp_path / "x.npz", ["a"]), "a in")


def test_an_archive_without_an_array_says_which(tmp_path):
    refused(lambda: read_npz(npz(tmp_path / "x.npz", a=np.ones(2)), ["b"]), "lacks b")
