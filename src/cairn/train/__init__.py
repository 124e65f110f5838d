"""The loops, the run folder, checkpoints and evaluation. Also the function `cairn.train(recipe)`: see `_Callable`."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """`cairn.train("cartpole-ppo")` is what people will write, and this room has the name: so the room answers."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # the one door that opens upward; by name, since nothing in this room depends on it
        return importlib.import_module("cairn.api").train(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
