"""Arguments of the Python interface: folders, experts and changed settings, checked in one sentence each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from cairn.algorithms.registry import ALGORITHMS, agent_name, owners
from cairn.core.checks import fit, short
from cairn.core.errors import CairnError
from cairn.core.sb3_names import hint, note, written
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


RUN_ARGUMENTS = ("out", "resume", "trust")  # of learn and train, beside the fields of a recipe


def changed(recipe: Recipe, changes: dict[str, Any], *, model: str = "") -> Recipe:
    """The recipe with these fields changed; CairnError where one is unknown. `model` is the class whose learn it is."""
    known = {f.name for f in fields(recipe)}
    for name in changes:
        if name in known:
            continue
        kind, own = agent_name(recipe.agent), {f.name for f in fields(recipe.agent)}

        def elsewhere(word: str, name: str = name, kind: str = kind, own: set[str] = own) -> str:
            if word not in own:
                return _of_others(kind, word)
            value = written(word, name)
            agent = f"{model}(env, {value})" if model else f"agent=cairn.{ALGORITHMS[kind].config.__name__}({value})"
            return f"In Cairn it is {word}, a setting of the agent: write {agent}{note(name)}."

        what = "learn" if model else "a recipe"
        raise CairnError(f"{what} has no setting {name!r}.{hint(name, [*known, *RUN_ARGUMENTS], elsewhere)}")
    return replace(recipe, **changes)


def unknown_setting(kind: str, name: str, arguments: tuple[str, ...]) -> CairnError:
    """For a keyword that the class of an algorithm does not take; `arguments` are those beside its config's fields."""
    entry = ALGORITHMS[kind]
    known = [*(f.name for f in fields(entry.config)), *arguments]
    of_run = {f.name for f in fields(Recipe)} - {"env", "agent"} | {*RUN_ARGUMENTS}

    def elsewhere(word: str) -> str:
        if word == "steps":
            return "In Cairn it is the argument of learn: write learn(100_000)."
        if word in of_run:
            return f"In Cairn it is {word} of learn: write learn(100_000, {written(word, name)}){note(name)}."
        for part in entry.parts:
            config = type(getattr(entry.config(), part))
            if word in {f.name for f in fields(config)}:
                value = f"{part}=cairn.{config.__name__}({written(word)})"
                return f"In Cairn it is {word}, a setting of {part}: write {entry.label}(env, {value})."
        return _of_others(kind, word)

    return CairnError(f"{entry.label} has no setting {name!r}.{hint(name, known, elsewhere)}")


def _of_others(kind: str, word: str) -> str:
    """Which other algorithms have this setting, as a sentence; "" where none has."""
    found = owners(word)
    return f"In Cairn {word} is a setting of {', '.join(found)}; {kind} has none." if found else ""
