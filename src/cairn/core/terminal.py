"""Text that fits a terminal: width, encoding, wrapped sentences and tables.

The width is COLUMNS where that is set, else that of the terminal, else 80.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

NARROWEST = 40  # columns that every layout assumes
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
    """The width of the terminal that `stream` (default: standard output) writes to, at least NARROWEST."""
    width = shutil.get_terminal_size().columns
    if stream is not None and not os.environ.get("COLUMNS"):
        try:
            width = os.get_terminal_size(stream.fileno()).columns
        except (OSError, ValueError):  # not a terminal, or not a file
            pass
    return max(width, NARROWEST)


def readable(text: str, stream: TextIO | None = None) -> str:
    """The text as the stream can encode it: ASCII replacements where its encoding lacks a character."""
    encoding = getattr(stream or sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return "".join(c if c.isascii() else ASCII.get(c, "?") for c in text)
    return text


def cut(text: str, width: int) -> str:
    """At most `width` characters of a text; two dots mark a cut."""
    return text if len(text) <= width else text[: max(width - 2, 1)] + ".."


def wrapped(text: str, indent: str = "", *, width: int | None = None) -> str:
    """A text broken into lines that fit the terminal, except for longer words.

    Continuation lines keep the indent of their line, followed by `indent`.
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

    Args:
        rows: The rows, all with the same keys; the keys are the heads of the columns.
        shrink: Columns that may be cut, and to how many characters.
        drop: Columns that are left out if the table is too wide, in this order, before others are cut. A last line
            names
            them.
        width: Characters per line; by default those of the terminal.
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
