"""Values that exist in this process only, such as a user's function."""

from __future__ import annotations


class Unstored:
    """A value of which a file holds a description, `what`, and nothing else. "" is stored as null."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __repr__(self) -> str:
        return self.what
