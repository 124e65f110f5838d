"""Arguments of the Python interface: folders, experts and changed settings, checked in one sentence each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from cairn.core.checks import fit, short
from cairn.core.errors import CairnError
from cairn.core.sb3_names import hint
from cairn.recipes.recipe import Recipe
from cairn.runs.folder import run_path


@contextmanager
def disk_errors() -> Iterator[None]:
    """CairnError where a file of a run cannot be read or written."""
    try:
        yield
    except OSError as error:
        raise CairnError(f"{error.filename or 'a file'}: {error.strerror or error}.") from error


def run_folder(out: Any) -> Path | None:
    return None if out is None else run_path(folder_path("out", out))


def folder_path(name: str, path: Any) -> Path:
    text = fit(name, path, str)
    if not text.strip() or "\0" in text:
        raise CairnError(f"{name} is {short(text)}; it must name a folder.")
    return Path(text)


def changed(recipe: Recipe, changes: dict[str, Any]) -> Recipe:
    known = {f.name for f in fields(recipe)}
    for name in changes:
        if name in known:
            continue
        if is_dataclass(recipe.agent) and name in {f.name for f in fields(recipe.agent)}:
            kind = type(recipe.agent).__name__
            raise CairnError(
                f"{name} is a setting of the agent, not of the recipe; write agent=cairn.{kind}({name}=...)."
            )
        raise CairnError(f"a recipe has no field {name!r}.{hint(name, known)}")
    return replace(recipe, **changes)
