"""Lists every message of the source: what CairnError, EnvError, warnings and prints to a person say.

`python -m tests.messages` writes tests/messages.txt, which `tests/test_messages.py` compares with the source. So a new
or changed message shows up in a review as a sentence.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SRC = Path(__file__).parents[1] / "src" / "cairn"
LIST = Path(__file__).with_name("messages.txt")
CALLS = {"CairnError", "EnvError", "NotThere", "Finding", "print", "warn", "say"}


def text_of(node: ast.expr) -> str:
    """The literal text of an expression, with {} for each value."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else "{}"
    if isinstance(node, ast.JoinedStr):
        return "".join("{}" if isinstance(part, ast.FormattedValue) else text_of(part) for part in node.values)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "wrapped" and node.args:
        return text_of(node.args[0])
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return text_of(node.left) + text_of(node.right)
    return "{}"


def messages(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if name in CALLS or name.endswith("Error"):
                for argument in node.args:
                    text = text_of(argument)
                    if " " in text.replace("{}", "").strip():
                        yield " ".join(text.split())


def listing() -> str:
    lines = []
    for path in sorted(SRC.rglob("*.py")):
        found = list(messages(ast.parse(path.read_text(encoding="utf-8"))))
        lines += [f"{path.relative_to(SRC).as_posix()}: {text}" for text in found]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    LIST.write_text(listing(), encoding="utf-8")
