"""Calls from Python: a wrong signature is one sentence, and a message names a setting as its reader would write it."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from cairn.core.errors import CairnError
from cairn.core.sb3_names import hint

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
FRONT = "CAIRN_FRONT"  # an environment variable, so that processes which a command starts speak as it does


def called(
    explain: Callable[[tuple[Any, ...], dict[str, Any]], str] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function whose arguments are checked against its signature: CairnError where Python would say TypeError.

    `explain` may have a better sentence for what was given; it returns "" where it has none.
    """

    def around(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                better = explain(args, kwargs) if explain is not None else ""
                raise CairnError(better or _told(function, signature, args, kwargs, error)) from None
            return function(*args, **kwargs)

        return call

    return around


def _told(function: Any, signature: inspect.Signature, args: Any, kwargs: Any, error: TypeError) -> str:
    names = [name for name in signature.parameters if name != "self"]
    method = "self" in signature.parameters or "cls" in signature.parameters
    name = function.__qualname__
    if method and args:
        owner = args[0].__name__ if isinstance(args[0], type) else type(args[0]).__name__
        name = owner if function.__name__ == "__init__" else f"{owner}.{function.__name__}"
    unknown = next((key for key in kwargs if key not in names), None)
    if unknown is not None:
        return f"{name} has no argument {unknown!r}.{hint(unknown, names)}"
    return f"{name} cannot be called so: {error}; its arguments are {', '.join(names)}."


def must_take_one(function: Any, name: str, what: str) -> None:
    """CairnError where a user's function cannot be called with one argument."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of some that are not written in Python
        return
    try:
        signature.bind(None)
    except TypeError:
        raise CairnError(f"{name} must be a function of one argument, {what}; this one takes {signature}.") from None


def keywords(cls: type[T]) -> type[T]:
    """A dataclass that answers an unknown or a missing field by one sentence."""
    patched: Any = cls
    patched.__init__ = called()(patched.__init__)
    return cls


def option(name: str, value: str = "") -> str:
    """A setting in a message: `--time-limit 100` to who typed a command, `time_limit=100` to who wrote Python."""
    if os.environ.get(FRONT) == "command":
        return f"--{name.replace('_', '-')} {value}".rstrip()
    word = name.rpartition(".")[2]
    if not value:
        return word
    return f"{word}={value}" if value[0].isdigit() else f'{word}="{value}"'


@contextmanager
def commands() -> Iterator[None]:
    """While it lasts messages are read by who typed a command."""
    before = os.environ.get(FRONT)
    os.environ[FRONT] = "command"
    try:
        yield
    finally:
        if before is None:
            del os.environ[FRONT]
        else:
            os.environ[FRONT] = before
