"""Files that anybody may have written: read within limits, as data, or refused in one sentence.

Every reader of policies, recipes, results, logs, demonstrations and other libraries' files reads through this module.
A path must lead to a regular file: a FIFO, a device, a socket or a folder is refused before anything is read. Sizes
that a file declares are compared with its bytes before room is made for them. The work is linear in the file's size.
SECURITY.md lists the limits.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import reprlib
import stat
import struct
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from cairn.core.errors import CairnError

if TYPE_CHECKING:  # `cairn list` reads JSON and must not pay for numpy
    from cairn.core.types import Array

KIB, MIB, GIB = 2**10, 2**20, 2**30

TEXT = 256 * MIB  # bytes of a log
JSON = 16 * MIB  # bytes of a JSON file
JSON_DEPTH = 64  # objects and lists within one another
JSON_ITEMS = 1_000_000  # values in all
INT_DIGITS = 40  # of one number
TENSORS = 4 * GIB  # bytes of a file of tensors
TENSOR_COUNT = 100_000
TENSOR_HEADER = 16 * MIB  # bytes that name and lay out the tensors
TENSOR_AXES = 16
ZIP = 8 * GIB  # bytes of a zip, packed and unpacked
ZIP_MEMBERS = 10_000
ZIP_INDEX = 4 * MIB  # bytes of the list of members
ZIP_FREE = 256 * MIB  # a zip may unpack to this much, however small it is,
ZIP_RATIO = 20  # or to so many times its own size
CHUNK = MIB  # bytes unpacked at a time
NAME = 255  # characters of a member's or a tensor's name
MODULE_ID = re.compile(
    r"[^\W\d][\w.]*:(?!\d+\Z)[\w./-]+"
)  # a task or a name of a module: my_tasks:Mine-v0, not host:80

DTYPES = {"BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "F16": 2, "BF16": 2, "I32": 4, "F32": 4, "I64": 8, "F64": 8}


_NO_WAITING = sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"))


class NotThere(CairnError):
    """There is no such file."""


# -- what a file says, shown to a person


def printable(value: object) -> str:
    """Text that a terminal can show: control characters, escape codes and halves of surrogates become �."""
    return "".join(c if c.isprintable() or c in "\n\t\xa0\u3000" else "�" for c in str(value))


def shown(value: object, most: int = 120) -> str:
    """A value out of a file as one line of at most `most` printable characters; what is nested is cut short."""
    text = value if isinstance(value, str) else _brief(value)
    text = printable(text[: 4 * most]).replace("\n", " ").replace("\t", " ")
    return text if len(text) <= most else text[: most - 1] + "…"


class _Brief(reprlib.Repr):
    """The standard short repr, which would still write out a whole number of a million digits."""

    def repr_int(self, x: int, level: int) -> str:
        return repr(x) if x.bit_length() <= 128 else f"a whole number of {x.bit_length():,} bits"

    def repr_instance(self, x: object, level: int) -> str:
        return repr(x) if isinstance(x, (float, bool, type(None), Path)) else f"<{type(x).__name__}>"


def _brief(value: object) -> str:
    brief = _Brief()
    brief.maxlevel, brief.maxstring, brief.maxother = 3, 60, 60
    return brief.repr(value)


# -- files


@contextmanager
def opened(path: Path, most: int, *, links: bool = True) -> Iterator[IO[bytes]]:
    """A regular file of at most `most` bytes, open for reading. `links=False` refuses a symbolic link.

    NotThere where there is none; CairnError where it is anything else or cannot be read.
    """
    flags = os.O_RDONLY | _NO_WAITING | (0 if links else getattr(os, "O_NOFOLLOW", 0))
    try:
        _must_be_regular(path, os.stat(path, follow_symlinks=links), most)  # opening a device may already do something
        handle = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        raise NotThere(f"there is no file {shown(str(path), 300)}.") from None
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it
        raise CairnError(f"{_named(path)} cannot be read: {_reason(error)}.") from error
    with os.fdopen(handle, "rb") as file:
        _must_be_regular(path, os.fstat(file.fileno()), most)  # it may have been replaced in between
        try:
            yield file
        except OSError as error:
            raise CairnError(f"{_named(path)} cannot be read: {_reason(error)}.") from error


def _must_be_regular(path: Path, found: os.stat_result, most: int) -> None:
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFLNK: "a symbolic link",
    }
    if not stat.S_ISREG(found.st_mode):
        raise CairnError(f"{_named(path)} is {kinds.get(stat.S_IFMT(found.st_mode), 'no file')}, not a regular file.")
    if found.st_size > most:
        raise _too_large(path, most)


def _too_large(path: Path, most: int) -> CairnError:
    size = f"{most // MIB:,} MiB" if most >= MIB else f"{most:,} bytes"
    return CairnError(f"{_named(path)} is refused: it is larger than {size}.")


def _named(path: object) -> str:
    return shown(str(path), 300)


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def read_bytes(path: Path, most: int, *, links: bool = True) -> bytes:
    """The whole of a regular file of at most `most` bytes."""
    with opened(path, most, links=links) as file:
        data = file.read(most + 1)  # it may have grown
    if len(data) > most:
        raise _too_large(path, most)
    return data


def read_text(path: Path, most: int = TEXT, *, links: bool = True) -> str:
    """The whole of a text file; bytes that are no UTF-8 become �."""
    return read_bytes(path, most, links=links).decode("utf-8", "replace")


# -- JSON


def read_json(path: Path, most: int = JSON, *, finite: bool = False, links: bool = True) -> Any:
    """What a JSON file holds. `finite` refuses NaN and infinity."""
    return parse_json(read_bytes(path, most, links=links), str(path), finite=finite)


def parse_json(data: bytes | str, source: str, *, finite: bool = False) -> Any:
    """What a JSON text holds; CairnError, which names `source`, where it is none or past the limits."""
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CairnError(f"{_named(source)} cannot be read: it is cut short or not JSON.") from error
    _check_nesting(text, source)

    def number(digits: str) -> int:
        if len(digits) > INT_DIGITS:
            raise CairnError(f"{_named(source)} is refused: a number in it has {len(digits):,} digits.")
        return int(digits)

    def real(digits: str) -> float:
        value = float(digits)
        if finite and not math.isfinite(value):
            raise CairnError(f"{_named(source)} is refused: {shown(digits, 40)} in it is not a finite number.")
        return value

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise CairnError(f"{_named(source)} is refused: an object in it has two members of the same name.")
        return found

    try:
        return json.loads(text, parse_int=number, parse_float=real, parse_constant=real, object_pairs_hook=members)
    except (ValueError, RecursionError) as error:
        raise CairnError(f"{_named(source)} cannot be read: it is cut short or not JSON.") from error


_STRING = re.compile(r'(?s)"(?:[^"\\]++|\\.)*+"?')  # never fails once begun, so the scan is linear
_NOT_STRUCTURE = re.compile(r"[^\[\]{},]+")


def _check_nesting(text: str, source: str) -> None:
    """Depth and number of values, counted before anything is built."""
    marks = _NOT_STRUCTURE.sub("", _STRING.sub("", text))
    if marks.count(",") + marks.count("[") + marks.count("{") > JSON_ITEMS:
        raise CairnError(f"{_named(source)} is refused: it holds more than {JSON_ITEMS:,} values.")
    depth = 0
    for mark in marks:
        if mark in "[{":
            depth += 1
            if depth > JSON_DEPTH:
                raise CairnError(f"{_named(source)} is refused: it is nested more than {JSON_DEPTH} levels deep.")
        elif mark != ",":
            depth -= 1


# -- tensors


def check_tensors(blob: bytes, source: str) -> dict[str, tuple[int, ...]]:
    """The shapes that a file of safetensors declares, once they are found to fit its bytes; the tensors stay unread."""
    damaged = CairnError(f"{_named(source)} is not a safetensors file, or is damaged.")
    if len(blob) < 8:
        raise damaged
    (length,) = struct.unpack("<Q", blob[:8])
    if length > min(TENSOR_HEADER, len(blob) - 8):
        raise damaged
    head = parse_json(blob[8 : 8 + length], source)
    if not isinstance(head, dict):
        raise damaged
    head.pop("__metadata__", None)
    if len(head) > TENSOR_COUNT:
        raise CairnError(f"{_named(source)} is refused: it holds more than {TENSOR_COUNT:,} tensors.")
    shapes, spans = {}, []
    for name, told in head.items():
        if not (len(name) <= NAME and isinstance(told, dict) and told.keys() == {"dtype", "shape", "data_offsets"}):
            raise damaged
        shape, size, span = told["shape"], _item_size(told["dtype"]), told["data_offsets"]
        if not (_naturals(shape, TENSOR_AXES) and _naturals(span, 2) and len(span) == 2 and size):
            raise damaged
        if math.prod(shape) * size != span[1] - span[0]:
            raise CairnError(f"{_named(source)} is damaged: the size of {shown(name)} is not that of its shape.")
        shapes[name] = tuple(shape)
        spans.append(tuple(span))
    at = 0
    for start, stop in sorted(spans):
        if start != at:
            raise damaged
        at = stop
    if at != len(blob) - 8 - length:
        raise damaged
    return shapes


def _item_size(dtype: Any) -> int:
    return DTYPES.get(dtype, 0) if isinstance(dtype, str) else 0


def _naturals(value: Any, most: int) -> bool:
    return isinstance(value, list) and len(value) <= most and all(type(n) is int and 0 <= n < 2**48 for n in value)


# -- zips and NumPy archives


class _Guarded(io.RawIOBase):
    """A file that gives no more than so many bytes at once: `zipfile` reads the list of members in one go."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        self.file, self.most = file, most

    def read(self, size: int | None = -1, /) -> bytes:
        asked = self.most + 1 if size is None or size < 0 else size
        data = self.file.read(min(asked, self.most + 1))
        if len(data) > self.most:
            raise ValueError("more than may be read at once")
        return data

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self.file.seek(offset, whence)

    def tell(self) -> int:
        return self.file.tell()

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True


@contextmanager
def opened_zip(source: Path | bytes, name: str = "", *, most: int = ZIP) -> Iterator[zipfile.ZipFile]:
    """A zip whose members were checked before anything is unpacked: number, names, sizes, overlaps.

    `source` is a path, or the bytes of a zip that `name` names. What goes wrong while it is open is a CairnError.
    """
    if isinstance(source, bytes):
        with _zip(io.BytesIO(source), len(source), name, most) as found:
            yield found
    else:
        with opened(source, most) as file, _zip(file, os.fstat(file.fileno()).st_size, str(source), most) as found:
            yield found


@contextmanager
def _zip(file: IO[bytes], size: int, name: str, most: int) -> Iterator[zipfile.ZipFile]:
    try:
        guarded = _Guarded(file, ZIP_INDEX)
        with zipfile.ZipFile(guarded) as found:
            _check_members(found.infolist(), size, name, most)
            guarded.most = CHUNK
            yield found
    except (CairnError, OSError):
        raise
    except Exception as error:  # a damaged zip fails in many ways
        raise CairnError(f"{_named(name)} is not a zip, or is cut short or damaged.") from error


def _check_members(members: Sequence[zipfile.ZipInfo], size: int, name: str, most: int) -> None:
    def refuse(why: str) -> CairnError:
        return CairnError(f"{_named(name)} is refused: {why}.")

    if len(members) > ZIP_MEMBERS:
        raise refuse(f"it has more than {ZIP_MEMBERS:,} members")
    if len({m.filename for m in members}) < len(members):
        raise refuse("two of its members have the same name")
    total, limit = sum(m.file_size for m in members), min(most, max(ZIP_FREE, ZIP_RATIO * size))
    if total > limit:
        raise refuse(f"it would unpack to {total:,} bytes, more than the {limit:,} that a zip of its size may")
    at = 0
    for member in sorted(members, key=lambda m: m.header_offset):
        if len(member.filename) > NAME:
            raise refuse(f"a member's name is longer than {NAME} characters")
        if member.flag_bits & 1 or member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise refuse(f"{shown(member.filename)} in it is encrypted, or packed by another method than deflate")
        if member.header_offset < at or member.header_offset + member.compress_size > size:
            raise refuse(f"{shown(member.filename)} in it overlaps another member")
        at = member.header_offset + member.compress_size


def unpacked(zipped: zipfile.ZipFile, name: str) -> bytes:
    """A member of a checked zip. Never more than it declares: `ZipFile.read` unpacks first and compares then."""
    left, parts = zipped.getinfo(name).file_size, []
    with zipped.open(name) as member:
        while left > 0 and (part := member.read(min(left, CHUNK))):
            parts.append(part)
            left -= len(part)
    return b"".join(parts)


_NPY = re.compile(
    rb"\{'descr': '(?P<dtype>[<>|=]?[biufUS][0-9]{1,6})', 'fortran_order': (?P<order>True|False),"
    rb" 'shape': \((?P<shape>[0-9, ]{0,400})\), *\} *\n?"
)


def read_npz(path: Path, names: Sequence[str], *, optional: Sequence[str] = (), most: int = ZIP) -> Mapping[str, Array]:
    """The arrays of these names in a NumPy archive, of numbers or text; CairnError where one of `names` is missing."""
    with opened_zip(path, most=most) as found:
        members = set(found.namelist())
        for name in names:
            if f"{name}.npy" not in members:
                raise CairnError(f"{_named(path)} lacks {name}: it was written by something else, or is damaged.")
        wanted = [name for name in (*names, *optional) if f"{name}.npy" in members]
        return {name: _npy(unpacked(found, f"{name}.npy"), f"{name} in {path}") for name in wanted}


def _npy(data: bytes, source: str) -> Array:
    """One array; the shape that its header declares must be that of its bytes."""
    import numpy as np

    damaged = CairnError(f"{_named(source)} is damaged, or no array of numbers.")
    if data[:6] != b"\x93NUMPY" or data[6:8] not in (b"\x01\x00", b"\x02\x00", b"\x03\x00"):
        raise damaged
    wide: Literal[2, 4] = 2 if data[6] == 1 else 4
    start = 8 + wide + int.from_bytes(data[8 : 8 + wide], "little")
    told = _NPY.fullmatch(data[8 + wide : start]) if start <= len(data) else None
    if told is None:
        raise damaged
    try:
        dtype = np.dtype(told["dtype"].decode())
        shape = tuple(int(n) for n in told["shape"].replace(b" ", b"").split(b",") if n)
        if not dtype.itemsize or max(shape, default=0) >= 2**48 or len(shape) > TENSOR_AXES:
            raise damaged
        if math.prod(shape) * dtype.itemsize != len(data) - start:
            raise CairnError(f"{_named(source)} is damaged: its size is not that of its shape.")
        if dtype.kind == "U" and (np.frombuffer(data, f"{dtype.byteorder}u4", offset=start) > sys.maxunicode).any():
            raise damaged  # Python would take it for text and fail wherever that is read
        flat = np.frombuffer(data, dtype, offset=start)
        return flat.reshape(shape, order="F" if told["order"] == b"True" else "C")
    except (TypeError, ValueError) as error:
        raise damaged from error
