"""Reads pickles as data: nothing they name is imported or called.

A pickle is a program that names classes and calls them. Here each admitted name stands for an empty class, made for
this
reading, and any other name ends the reading. The result consists of numbers, texts, lists, dictionaries and
`Record`s.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from cairn.core.errors import CairnError
from cairn.core.types import Array
from cairn.core.untrusted import NAME, shown

# Names in pickles of arrays, generators and spaces, in all versions (numpy.core became numpy._core, gym gymnasium).
NUMPY = "|".join(
    [
        r"numpy\.(ndarray|dtype|bool_?|u?int\d+|float\d+)",
        r"numpy\._?core\.(multiarray\.(_reconstruct|scalar)|numeric\._frombuffer)",
        r"numpy\.random\.(_pickle|_mt19937|_pcg64|_philox|_sfc64|_generator|mtrand|bit_generator)\.\w+",
    ]
)
SPACES = r"gym(nasium)?\.(spaces\.\w+\.\w+|utils\.seeding\.[\w.]+)|collections\.OrderedDict"


def _counted(function: Any) -> Any:
    """Wrap a pickle operation so that it is counted."""

    def counted(reader: Any) -> None:
        reader.step()
        function(reader)

    return counted


def _put(into: Any, pairs: Iterable[tuple[Any, Any]]) -> None:
    if type(into) is not dict:
        raise TypeError("only dictionaries have items")
    for key, value in pairs:
        if not isinstance(key, KEYS):
            raise TypeError("a key is neither text nor a number")
        into[key] = value


def _mapping(pairs: Iterable[tuple[Any, Any]] = ()) -> dict[Any, Any]:
    """A dictionary with plain keys."""
    made: dict[Any, Any] = {}
    _put(made, pairs.items() if isinstance(pairs, dict) else pairs)
    return made


class Record:
    """An object as its pickle describes it: constructor arguments and state."""

    args: tuple[Any, ...]
    state: Any

    def __new__(cls, *args: Any, **kwargs: Any) -> Record:
        self = super().__new__(cls)
        self.args, self.state = args, {}
        return self

    def __setstate__(self, state: Any) -> None:
        self.state = state


OPERATIONS = 500_000  # operations of one pickle
CLASSES = 1_000  # classes that it names
EXPANDED = 1_000_000  # values, counted once per reference
UNPACKED = 2**28  # bytes of text and numbers, counted once per reference
DEPTH = 100
KEYS = (str, bytes, int, float, bool, type(None))  # hashing nested tuples can take for ever


class _Foreign(Exception):
    """A name that is not admitted."""


class _Reader(pickle._Unpickler):
    """The standard reader in Python. The one in C allocates whatever size a file claims."""

    def __init__(self, blob: bytes, admitted: str) -> None:
        self.file = io.BytesIO(blob)
        super().__init__(self.file)
        self.admitted = admitted
        self.operations = 0
        self.classes: dict[str, Any] = {}

    def find_class(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        if full not in self.classes:
            if len(full) > NAME or len(self.classes) >= CLASSES or not re.fullmatch(self.admitted, full):
                raise _Foreign(full)
            self.classes[full] = _mapping if name == "OrderedDict" else type(name, (Record,), {"__module__": module})
        return self.classes[full]

    def persistent_load(self, told: Any) -> Any:  # torch's tensors name their storages with this
        return told

    def step(self: Any) -> None:
        self.operations += 1
        if self.operations > OPERATIONS:
            raise ValueError("too many operations")

    def load_bytearray(self: Any) -> None:  # the standard one allocates first
        self.append(bytearray(self.read(int.from_bytes(self.read(8), "little"))))

    def load_setitem(self: Any) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        _put(self.stack[-1], [(key, value)])

    def load_setitems(self: Any) -> None:
        items = self.pop_mark()
        _put(self.stack[-1], zip(items[::2], items[1::2], strict=True))

    def load_dict(self: Any) -> None:
        items = self.pop_mark()
        self.append(_mapping(zip(items[::2], items[1::2], strict=True)))

    def load_build(self: Any) -> None:
        state, made = self.stack.pop(), self.stack[-1]
        if isinstance(made, Record):
            made.__setstate__(state)
        elif type(made) is not dict:  # an OrderedDict may have attributes, which are not needed
            raise TypeError("only objects have a state")

    dispatch = {
        **pickle._Unpickler.dispatch,
        pickle.BYTEARRAY8[0]: load_bytearray,
        pickle.SETITEM[0]: load_setitem,
        pickle.SETITEMS[0]: load_setitems,
        pickle.DICT[0]: load_dict,
        pickle.BUILD[0]: load_build,
    }
    for _op in (pickle.EMPTY_SET, pickle.ADDITEMS, pickle.FROZENSET, pickle.EXT1, pickle.EXT2, pickle.EXT4):
        del dispatch[_op[0]]  # sets hash their items; extensions name classes by number
    dispatch = {op: _counted(function) for op, function in dispatch.items()}


def load(blob: bytes, admitted: str, source: str) -> Any:
    """The contents of a pickle. Raises CairnError where it names anything not `admitted`, a pattern of dotted names."""
    (found,), _ = load_several(blob, 1, admitted, source)
    return found


def load_several(blob: bytes, count: int, admitted: str, source: str) -> tuple[list[Any], int]:
    """The contents of `count` pickles one after another, and how many bytes they take.

    Raises CairnError where one names anything not `admitted`, a pattern of dotted names.
    """
    try:
        reader = _Reader(blob, admitted)
        found = [reader.load() for _ in range(count)]
        _expanded(found, {}, 0)
        return found, reader.file.tell()
    except _Foreign as error:
        told = shown(str(error))
        raise CairnError(
            f"{source} names {told!r}, which does not belong in such a file; nothing in it was executed."
        ) from None
    except Exception as error:  # damaged pickles raise anything
        raise CairnError(f"{source} is cut short or damaged.") from error


def _expanded(value: Any, seen: dict[int, tuple[int, int]], depth: int) -> tuple[int, int]:
    """The number of values and bytes without sharing. Raises ValueError beyond the limits.

    Nested lists that each occur twice in the next take little memory, but for ever to compare, hash or print.
    """
    if isinstance(value, (str, bytes, bytearray)):
        return 1, len(value)
    if isinstance(value, Record):
        parts = [value.args, value.state]
    elif isinstance(value, dict):
        parts = [*value.keys(), *value.values()]
    elif isinstance(value, (list, tuple)):
        parts = list(value)
    else:
        return 1, 8
    if id(value) not in seen:
        if depth > DEPTH:
            raise ValueError("nested too deep, or within itself")
        seen[id(value)] = (0, 0)
        found = [_expanded(part, seen, depth + 1) for part in parts]
        seen[id(value)] = 1 + sum(n for n, _ in found), sum(size for _, size in found)
    elif seen[id(value)] == (0, 0):
        raise ValueError("nested within itself")
    count, size = seen[id(value)]
    if count > EXPANDED or size > UNPACKED:
        raise ValueError("larger than it may be")
    return count, size


def name_of(value: Any) -> str:
    """'torch.optim.adam.Adam' for a class that a pickle names, or for an object of it; '' for anything else."""
    kind = value if isinstance(value, type) else type(value)
    return f"{kind.__module__}.{kind.__name__}" if issubclass(kind, Record) else ""


def array(value: Any) -> Array:
    """A number, a numpy scalar or a pickled array of numbers as an array. Raises ValueError for anything else."""
    if isinstance(value, (int, float)):
        return np.asarray(value)
    try:
        kind = name_of(value).rpartition(".")[2]
        if kind == "_reconstruct":
            _, shape, dtype, fortran, raw = value.state
        elif kind == "_frombuffer":
            raw, dtype, shape, order = value.args
            fortran = order == "F"
        elif kind == "scalar":
            (dtype, raw), shape, fortran = value.args, (), False
        else:
            raise ValueError("not an array")
        whole = isinstance(shape, tuple) and len(shape) <= 32 and all(type(n) is int for n in shape)
        if not (whole and isinstance(raw, (bytes, bytearray))):  # bytes(n) would allocate n bytes
            raise ValueError("not an array")
        return np.frombuffer(bytes(raw), _dtype(dtype)).reshape(shape, order="F" if fortran else "C")
    except (AttributeError, IndexError, OverflowError, TypeError) as error:
        raise ValueError("not an array") from error


def _dtype(record: Any) -> np.dtype[Any]:
    code, order = record.args[0], record.state[1]
    if not (isinstance(code, str) and isinstance(order, str) and len(code) < 9):
        raise ValueError("not an array of numbers")
    if not re.fullmatch(r"[<>|=][biuf][1248]", f"{order}{code}"):
        raise ValueError(f"an array of {code!r} is not one of numbers")
    return np.dtype(f"{order}{code}")
