"""Readers of files from untrusted sources: as data, within limits, or a CairnError.

Every reader of policies, recipes, results, logs, demonstrations and other libraries' files uses this module, and
`untrusted_zip` for zips. A path must lead to a regular file: a FIFO, a device, a socket or a folder is refused before
anything is read. Sizes that a file declares are compared with its bytes before memory is allocated. The work is linear
in the size of the file. SECURITY.md lists the limits.
"""

from __future__ import annotations

import json
import math
import os
import re
import reprlib
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from cairn.core.errors import CairnError

KIB, MIB, GIB = 2**10, 2**20, 2**30

TEXT = 256 * MIB  # bytes of a log
JSON = 16 * MIB  # bytes of a JSON file
JSON_DEPTH = 64  # levels of nested objects and lists
JSON_ITEMS = 1_000_000  # values in all
INT_DIGITS = 40  # digits of one integer
TENSORS = 4 * GIB  # bytes of a file of tensors
TENSOR_COUNT = 100_000
TENSOR_HEADER = 16 * MIB  # bytes that name and lay out the tensors
TENSOR_AXES = 16
NAME = 255  # characters of a member's or a tensor's name
MODULE_ID = re.compile(r"[^\W\d][\w.]*:(?!\d+\Z)[\w./-]+")  # my_tasks:Mine-v0, but not host:80

DTYPES = {"BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "F16": 2, "BF16": 2, "I32": 4, "F32": 4, "I64": 8, "F64": 8}


_NO_WAITING = sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"))


class NotThere(CairnError):
    """The file does not exist."""


# -- values from a file, for messages


def printable(value: object) -> str:
    """Text that is safe to print: control characters, escape codes and lone surrogates become �."""
    return "".join(c if c.isprintable() or c in "\n\t\xa0\u3000" else "�" for c in str(value))


def shown(value: object, most: int = 120) -> str:
    """A value from a file as one line of at most `most` printable characters; nested values are cut short."""
    text = value if isinstance(value, str) else _brief(value)
    text = printable(text[: 4 * most]).replace("\n", " ").replace("\t", " ")
    return text if len(text) <= most else text[: most - 1] + "…"


class _Brief(reprlib.Repr):
    """The standard short repr, except that it does not write out integers of a million digits."""

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
    """Open a regular file of at most `most` bytes for reading. `links=False` refuses a symbolic link.

    Raises:
        NotThere: The file does not exist.
        CairnError: It is not a regular file, is too large, or cannot be read.
    """
    flags = os.O_RDONLY | _NO_WAITING | (0 if links else getattr(os, "O_NOFOLLOW", 0))
    try:
        _must_be_regular(path, os.stat(path, follow_symlinks=links), most)  # opening a device can have side effects
        handle = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        raise NotThere(f"there is no file {shown(str(path), 300)}.") from None
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it
        raise CairnError(f"{named(path)} cannot be read: {_reason(error)}.") from error
    with os.fdopen(handle, "rb") as file:
        _must_be_regular(path, os.fstat(file.fileno()), most)  # the file may have been replaced in between
        try:
            yield file
        except OSError as error:
            raise CairnError(f"{named(path)} cannot be read: {_reason(error)}.") from error


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
        raise CairnError(f"{named(path)} is {kinds.get(stat.S_IFMT(found.st_mode), 'no file')}, not a regular file.")
    if found.st_size > most:
        raise _too_large(path, most)


def _too_large(path: Path, most: int) -> CairnError:
    size = f"{most // MIB:,} MiB" if most >= MIB else f"{most:,} bytes"
    return CairnError(f"{named(path)} is refused: it is larger than {size}.")


def named(path: object) -> str:
    """A path as part of a message."""
    return shown(str(path), 300)


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def read_bytes(path: Path, most: int, *, links: bool = True) -> bytes:
    """The contents of a regular file of at most `most` bytes. Raises as `opened` does."""
    with opened(path, most, links=links) as file:
        data = file.read(most + 1)  # the file may have grown
    if len(data) > most:
        raise _too_large(path, most)
    return data


def read_text(path: Path, most: int = TEXT, *, links: bool = True) -> str:
    """The contents of a text file; bytes that are not UTF-8 become �. Raises as `opened` does."""
    return read_bytes(path, most, links=links).decode("utf-8", "replace")


# -- JSON


def read_json(path: Path, most: int = JSON, *, finite: bool = False, links: bool = True) -> Any:
    """The value in a JSON file. `finite` refuses NaN and infinity. Raises CairnError."""
    return parse_json(read_bytes(path, most, links=links), str(path), finite=finite)


def parse_json(data: bytes | str, source: str, *, finite: bool = False) -> Any:
    """The value of a JSON text. Raises CairnError, which names `source`, for invalid JSON and exceeded limits."""
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CairnError(f"{named(source)} cannot be read: it is cut short or not JSON.") from error
    _check_nesting(text, source)

    def number(digits: str) -> int:
        if len(digits) > INT_DIGITS:
            raise CairnError(f"{named(source)} is refused: a number in it has {len(digits):,} digits.")
        return int(digits)

    def real(digits: str) -> float:
        value = float(digits)
        if finite and not math.isfinite(value):
            raise CairnError(f"{named(source)} is refused: {shown(digits, 40)} in it is not a finite number.")
        return value

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise CairnError(f"{named(source)} is refused: an object in it has two members of the same name.")
        return found

    try:
        return json.loads(text, parse_int=number, parse_float=real, parse_constant=real, object_pairs_hook=members)
    except (ValueError, RecursionError) as error:
        raise CairnError(f"{named(source)} cannot be read: it is cut short or not JSON.") from error


_STRING = re.compile(r'(?s)"(?:[^"\\]++|\\.)*+"?')  # possessive: no backtracking, so the scan is linear
_NOT_STRUCTURE = re.compile(r"[^\[\]{},]+")


def _check_nesting(text: str, source: str) -> None:
    """Check depth and number of values before anything is built."""
    marks = _NOT_STRUCTURE.sub("", _STRING.sub("", text))
    if marks.count(",") + marks.count("[") + marks.count("{") > JSON_ITEMS:
        raise CairnError(f"{named(source)} is refused: it holds more than {JSON_ITEMS:,} values.")
    depth = 0
    for mark in marks:
        if mark in "[{":
            depth += 1
            if depth > JSON_DEPTH:
                raise CairnError(f"{named(source)} is refused: it is nested more than {JSON_DEPTH} levels deep.")
        elif mark != ",":
            depth -= 1


# -- tensors


def check_tensors(blob: bytes, source: str) -> dict[str, tuple[int, ...]]:
    """The shapes in the header of a safetensors file, checked against its bytes. Reads no tensor."""
    damaged = CairnError(f"{named(source)} is not a safetensors file, or is damaged.")
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
        raise CairnError(f"{named(source)} is refused: it holds more than {TENSOR_COUNT:,} tensors.")
    shapes, spans = {}, []
    for name, told in head.items():
        if not (len(name) <= NAME and isinstance(told, dict) and told.keys() == {"dtype", "shape", "data_offsets"}):
            raise damaged
        shape, size, span = told["shape"], _item_size(told["dtype"]), told["data_offsets"]
        if not (_naturals(shape, TENSOR_AXES) and _naturals(span, 2) and len(span) == 2 and size):
            raise damaged
        if math.prod(shape) * size != span[1] - span[0]:
            raise CairnError(f"{named(source)} is damaged: the size of {shown(name)} is not that of its shape.")
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
