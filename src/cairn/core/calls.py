"""Checked calls from Python: wrong arguments become a CairnError, and messages spell settings as the caller does."""

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
FRONT = "CAIRN_FRONT"  # an environment variable, so that child processes of a command inherit it


def called(
    explain: Callable[[tuple[Any, ...], dict[str, Any]], str] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator: check the arguments against the signature and raise CairnError where Python would raise TypeError.

    `explain(args, kwargs)` may return a better sentence for what was given, or "" to keep the standard one.
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
    """Raise CairnError where a user's function cannot be called with one argument."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C have no signature
        return
    try:
        signature.bind(None)
    except TypeError:
        raise CairnError(f"{name} must be a function of one argument, {what}; this one takes {signature}.") from None


def keywords(cls: type[T]) -> type[T]:
    """Class decorator for dataclasses: unknown and missing fields raise CairnError."""
    patched: Any = cls
    patched.__init__ = called()(patched.__init__)
    return cls


def option(name: str, value: str = "") -> str:
    """A setting as the reader of a message writes it: `--time-limit 100` in a shell, `time_limit=100` in Python."""
    if commanded():
        return f"--{name.replace('_', '-')} {value}".rstrip()
    word = name.rpartition(".")[2]
    if not value:
        return word
    return f"{word}={value}" if value[0].isdigit() else f'{word}="{value}"'


def commanded() -> bool:
    """Whether messages are for a shell; otherwise they are for Python."""
    return os.environ.get(FRONT) == "command"


def agent_setting(name: str, value: Any) -> str:
    """A setting of an agent with its value: `--agent.hidden 64 64` in a shell, `hidden=(64, 64)` in Python."""
    if not commanded():
        return f"{name}={value!r}"
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--agent.{flag}" if value else f"--agent.no-{flag}"
    words = value if isinstance(value, (tuple, list)) else [value]
    return " ".join([f"--agent.{flag}", *map(str, words)])


@contextmanager
def commands() -> Iterator[None]:
    """While this context is open, messages spell settings as command-line options."""
    before = os.environ.get(FRONT)
    os.environ[FRONT] = "command"
    try:
        yield
    finally:
        if before is None:
            del os.environ[FRONT]
        else:
            os.environ[FRONT] = before
