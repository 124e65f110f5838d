"""Text that fits a terminal: its width, its encoding, wrapped sentences and tables.

The width is COLUMNS where that is set, that of the terminal, or 80 where the output goes elsewhere.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

NARROWEST = 40  # columns that a layout may count on
GREEK = {"α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "λ": "lambda", "σ": "sigma", "τ": "tau"}
ASCII = {"±": "+/-", "≤": "<=", "≥": ">=", "·": "*", "×": "x", "–": "-", "—": "-", "“": '"', "”": '"', "…": "..."}
ASCII |= {
    "‖": "||",
    "₀": "0",
    "₁": "1",
    "₂": "2",
    "ₙ": "_n",
    "ⁿ": "^n",
    "∝": "~",
    "′": "'",
    "→": "->",
    "’": "'",
} | GREEK


def columns(stream: TextIO | None = None) -> int:
    """The width of the terminal that `stream` writes to; by default of standard output."""
    width = shutil.get_terminal_size().columns
    if stream is not None and not os.environ.get("COLUMNS"):
        try:
            width = os.get_terminal_size(stream.fileno()).columns
        except (OSError, ValueError):  # no terminal, or no file at all
            pass
    return max(width, NARROWEST)


def readable(text: str, stream: TextIO | None = None) -> str:
    """The text as the stream can write it: in ASCII where its encoding lacks a character."""
    encoding = getattr(stream or sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return "".join(c if c.isascii() else ASCII.get(c, "?") for c in text)
    return text


def cut(text: str, width: int) -> str:
    """At most `width` characters of a text; two dots show that some are missing."""
    return text if len(text) <= width else text[: max(width - 2, 1)] + ".."


def wrapped(text: str, indent: str = "", *, width: int | None = None) -> str:
    """Lines of a text, none wider than the terminal but for words that are; those that follow are indented.

    A line that is broken keeps the indent it begins with.
    """
    out = []
    for line in readable(text).splitlines():
        own = line[: len(line) - len(line.lstrip())]
        lines = textwrap.wrap(
            line.strip(),
            width or columns(),
            initial_indent=own,
            subsequent_indent=own + indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        out += lines or [""]
    return "\n".join(out)


def table(
    rows: Sequence[Mapping[str, Any]],
    *,
    shrink: Mapping[str, int] | None = None,
    drop: Sequence[str] = (),
    width: int | None = None,
) -> str:
    """Rows as aligned columns that fit the terminal.

    Where they do not, the columns of `drop` are left out one after the other, then those of `shrink` are cut, down to
    the width given there. A last line names what was left out.
    """
    width, narrow = width or columns(), shrink or {}
    heads = list(rows[0])
    cells = {head: [readable(head), *(readable(_cell(row[head])) for row in rows)] for head in heads}
    widths = {head: max(map(len, column)) for head, column in cells.items()}

    def missing(least: Mapping[str, int]) -> int:
        return sum(min(widths[head], least.get(head, widths[head])) + 2 for head in heads) - 2 - width

    left_out = []
    for head in drop:
        if missing(narrow) <= 0:
            break
        if head in heads:
            heads.remove(head)
            left_out.append(head)
    for head, least in narrow.items():
        over = missing({})
        if head in heads and over > 0:
            widths[head] = max(least, widths[head] - over)
    lines = [
        "  ".join(cut(cells[head][i], widths[head]).ljust(widths[head]) for head in heads).rstrip()
        for i in range(len(rows) + 1)
    ]
    if left_out:
        lines.append(wrapped(f"Not shown in {width} columns: {', '.join(left_out)}; --json shows all.", width=width))
    return "\n".join(lines)


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:,g}" if isinstance(value, float) else str(value)
