"""Pickles read as data: nothing they name is imported, nothing they ask for is called.

A pickle is a program that names classes and calls them. Here an admitted name stands for an empty class of our own,
made for this one reading, and any other name ends it. What comes out are numbers, texts, lists, dictionaries and
`Record`s.
"""

from __future__ import annotations

import io
import pickle
import re
from typing import Any

import numpy as np

from cairn.core.errors import CairnError
from cairn.core.types import Array

# What arrays, generators and spaces are pickled by, in all versions: numpy.core is numpy._core now, gym is gymnasium.
NUMPY = "|".join(
    [
        r"numpy\.(ndarray|dtype|bool_?|u?int\d+|float\d+)",
        r"numpy\._?core\.(multiarray\.(_reconstruct|scalar)|numeric\._frombuffer)",
        r"numpy\.random\.(_pickle|_mt19937|_pcg64|_philox|_sfc64|_generator|mtrand|bit_generator)\.\w+",
    ]
)
SPACES = r"gym(nasium)?\.(spaces\.\w+\.\w+|utils\.seeding\.[\w.]+)|collections\.OrderedDict"


class Record:
    """An object as its pickle describes it: what it was made from and the state it was given."""

    args: tuple[Any, ...]
    state: Any

    def __new__(cls, *args: Any, **kwargs: Any) -> Record:
        self = super().__new__(cls)
        self.args, self.state = args, {}
        return self

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Foreign(Exception):
    """A name that is not admitted."""


class _Reader(pickle._Unpickler):
    """The standard reader that is written in Python: the one in C makes room for whatever a file claims to hold."""

    def __init__(self, blob: bytes, admitted: str) -> None:
        super().__init__(io.BytesIO(blob))
        self.admitted = admitted

    def find_class(self, module: str, name: str) -> Any:
        if not re.fullmatch(self.admitted, f"{module}.{name}"):
            raise _Foreign(f"{module}.{name}")
        return dict if name == "OrderedDict" else type(name, (Record,), {"__module__": module})

    def load_bytearray(self: Any) -> None:  # the standard one makes room first
        self.append(bytearray(self.read(int.from_bytes(self.read(8), "little"))))

    dispatch = {**pickle._Unpickler.dispatch, pickle.BYTEARRAY8[0]: load_bytearray}


def load(blob: bytes, admitted: str, source: str) -> Any:
    """What a pickle holds. CairnError where it names anything but what is `admitted` (a pattern of dotted names)."""
    try:
        return _Reader(blob, admitted).load()
    except _Foreign as error:
        raise CairnError(f"{source} names {str(error)!r}, which has no place there; nothing of it was run.") from None
    except Exception as error:  # damaged pickles fail in any way they like
        raise CairnError(f"{source} is cut short or damaged.") from error


def name_of(value: Any) -> str:
    """'torch.optim.adam.Adam' for a class that a pickle names, or for an object of it; '' for anything else."""
    kind = value if isinstance(value, type) else type(value)
    return f"{kind.__module__}.{kind.__name__}" if issubclass(kind, Record) else ""


def array(value: Any) -> Array:
    """A number, a pickled numpy scalar or a pickled array of numbers, as an array; ValueError for anything else."""
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
        return np.frombuffer(bytes(raw), _dtype(dtype)).reshape(shape, order="F" if fortran else "C")
    except (AttributeError, IndexError, TypeError) as error:
        raise ValueError("not an array") from error


def _dtype(record: Any) -> np.dtype[Any]:
    code, order = record.args[0], record.state[1]
    if not re.fullmatch(r"[<>|=][biuf][1248]", f"{order}{code}"):
        raise ValueError(f"an array of {code!r} is not one of numbers")
    return np.dtype(f"{order}{code}")
