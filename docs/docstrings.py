"""Docstrings as the reference shows them: they are plain text, and what looks like Markdown in them is not meant so."""

from __future__ import annotations

import re
from typing import Any

import griffe

NAMED = re.compile(r"^(\w[\w, ]*?) {2,}(\S.*)$")  # "taken      the actions that were executed"
STARRED = re.compile(r" +\*{1,2}\w+:")  # "    **config: settings", an argument


class Plain(griffe.Extension):
    """Keeps asterisks as they are, Q* and V*, and makes lists of lines that begin with a name and a gap."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = shown(obj.docstring.value)


def shown(text: str) -> str:
    lines: list[str] = []
    for line in text.splitlines():
        starred = STARRED.match(line)
        name = starred.group() if starred else ""
        parts = line[len(name) :].split("`")
        parts[::2] = [re.sub(r"([*<\[\]|])", r"\\\1", part) for part in parts[::2]]  # outside of code
        line = name + "`".join(parts)
        named = NAMED.match(line)
        if named and not (lines and lines[-1].startswith("- ")) and lines and lines[-1]:
            lines.append("")
        lines.append(f"- {named.group(1)}: {named.group(2)}" if named else line)
    return "\n".join(lines)
