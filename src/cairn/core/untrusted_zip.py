"""Zips and NumPy archives from untrusted sources, checked before anything is unpacked. See `untrusted`."""

from __future__ import annotations

import io
import math
import os
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal

import numpy as np

from cairn.core.errors import CairnError
from cairn.core.types import Array
from cairn.core.untrusted import GIB, MIB, NAME, TENSOR_AXES, named, opened, shown

ZIP = 8 * GIB  # bytes of a zip, packed and unpacked
ZIP_MEMBERS = 10_000
ZIP_INDEX = 4 * MIB  # bytes of the list of members
ZIP_FREE = 256 * MIB  # a zip may unpack to this many bytes, whatever its size,
ZIP_RATIO = 20  # or to this many times its size
CHUNK = MIB  # bytes unpacked at a time


class _Guarded(io.RawIOBase):
    """A file that returns at most `most` bytes per read: `zipfile` reads the list of members in one call."""

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
    """Open a zip after checking the number, names, sizes and overlaps of its members.

    `source` is a path, or the bytes of a zip that messages call `name`. Errors while it is open become CairnErrors.
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
    except Exception as error:  # zipfile raises many types of errors for damaged zips
        raise CairnError(f"{named(name)} is not a zip, or is cut short or damaged.") from error


def _check_members(members: Sequence[zipfile.ZipInfo], size: int, name: str, most: int) -> None:
    def refuse(why: str) -> CairnError:
        return CairnError(f"{named(name)} is refused: {why}.")

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
    """A member of a checked zip, cut at its declared size; `ZipFile.read` would unpack all of it first."""
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
    """Arrays of numbers or text from a NumPy archive. Raises CairnError where one of `names` is missing."""
    with opened_zip(path, most=most) as found:
        members = set(found.namelist())
        for name in names:
            if f"{name}.npy" not in members:
                raise CairnError(f"{named(path)} lacks {name}: it was written by something else, or is damaged.")
        wanted = [name for name in (*names, *optional) if f"{name}.npy" in members]
        return {name: _npy(unpacked(found, f"{name}.npy"), f"{name} in {path}") for name in wanted}


def _npy(data: bytes, source: str) -> Array:
    """One array. The shape in its header must match the number of its bytes."""
    damaged = CairnError(f"{named(source)} is damaged, or no array of numbers.")
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
            raise CairnError(f"{named(source)} is damaged: its size is not that of its shape.")
        if dtype.kind == "U" and (np.frombuffer(data, f"{dtype.byteorder}u4", offset=start) > sys.maxunicode).any():
            raise damaged  # such text would fail later, wherever it is used
        flat = np.frombuffer(data, dtype, offset=start)
        return flat.reshape(shape, order="F" if told["order"] == b"True" else "C")
    except (TypeError, ValueError) as error:
        raise damaged from error
