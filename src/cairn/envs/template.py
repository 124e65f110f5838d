"""Writes a new environment to start from: a file that works, and its test."""

from __future__ import annotations

import importlib.util
import keyword
import re
from importlib.resources import files
from pathlib import Path

from cairn.core.calls import option
from cairn.core.errors import CairnError


def write(name: str, folder: Path, *, goal: bool = False) -> tuple[str, list[Path]]:
    """Write NAME.py and test_NAME.py into a folder; returns the id of the task and the files. Never overwrites."""
    module, title = named(name)
    paths = [folder / f"{module}.py", folder / f"test_{module}.py"]
    for path in paths:
        if path.exists():
            raise CairnError(
                f"{path} is there already, and nothing is overwritten; choose another name, or {option('out')}."
            )
    if importlib.util.find_spec(module) is not None:
        raise CairnError(f"there is a module {module} already; choose another name.")
    folder.mkdir(parents=True, exist_ok=True)
    texts = [_template("goal" if goal else "task"), _template("test") + (_template("goal_test") if goal else "")]
    for path, text in zip(paths, texts, strict=True):
        with open(path, "x", encoding="utf-8") as file:
            file.write(text.replace("MyTask", title).replace("my_task", module))
    return f"{module}:{title}-v0", paths


def named(name: str) -> tuple[str, str]:
    """The module and class for a name: cart_swing and CartSwing for 'cart_swing' or 'CartSwing'. Raises CairnError."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or not name.isascii():
        raise CairnError(f"{name!r} is not a valid module name; use letters, digits and _, such as cart_swing.")
    module = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    if keyword.iskeyword(module) or keyword.issoftkeyword(module):
        raise CairnError(f"{name!r} is a Python keyword; choose another name.")
    return module, "".join(word[:1].upper() + word[1:] for word in module.split("_"))


def _template(name: str) -> str:
    return files("cairn.envs").joinpath("templates", f"{name}.txt").read_text(encoding="utf-8")
