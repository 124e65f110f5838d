"""Module paths of Cairn 0.1 that users may import: they work for one release, with a DeprecationWarning."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any


def forwards(old: str, new: str) -> Callable[[str], Any]:
    """A module-level `__getattr__` that takes every name of the module `old` from the module `new`."""

    def get(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(new), name)
        warnings.warn(f"{old} is now {new}; the old name goes with Cairn 0.3.", DeprecationWarning, stacklevel=2)
        return value

    return get
