"""Open unions of dataclasses; `cairn.register` adds to them."""

from __future__ import annotations

from typing import Any


class Kinds:
    """`Annotated[Any, Kinds("agent")]` accepts any of `types`. Files name the class under 'kind'."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.types: dict[str, type[Any]] = {}
