"""Open unions of dataclasses, which `register` may add to."""

from __future__ import annotations

from typing import Any


class Kinds:
    """`Annotated[Any, Kinds("agent")]` is any of the `types`. Files name which by its class, under 'kind'."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.types: dict[str, type[Any]] = {}
