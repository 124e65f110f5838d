"""config.json: the recipe of a run, with a digest of itself."""

from __future__ import annotations

import json
import os
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from cairn.core.checks import fit
from cairn.core.errors import CairnError
from cairn.core.serialise import digest, from_json, to_json
from cairn.core.untrusted import NotThere, read_json
from cairn.recipes.recipe import Recipe
from cairn.runs.disk import writing
from cairn.runs.policy_card import check_task, say_so
from cairn.runs.policy_files import checkpoints, training_note
from cairn.runs.resume import check_recipe

CONFIG = "config.json"
OLDER = {"native": "off"}  # of runs of Cairn 0.1, which do not name it
MARKER = ".cairn-run"  # marks a run folder, see `folder`


def read_recipe(path: Path, *, trust: bool = False) -> Recipe:
    """The recipe in a JSON file, or the recipe of a run folder.

    Raises:
        CairnError: There is none, it is damaged, or it needs trust: its task imports a module by its name or opens a
            file,
            or it logs to a tracker, which may send it to a server.
    """
    alone = path.suffix == ".json" and not path.is_dir()
    recipe = _read(path, digested=False, alone=True) if alone else stored(path)[0]
    if alone and recipe.log and not fit("trust", trust, bool):
        told = say_so().partition(",")[0]
        raise CairnError(f"{path} would log the run to {' and '.join(recipe.log)}; if you trust it, {told}.")
    for task in (recipe.task, recipe.judged_task):
        check_task(task, path if alone else path / CONFIG, trust=trust)
    return recipe


def read_to_resume(folder: Path, named: Recipe, known: Container[str], *, trust: bool) -> Recipe:
    """The recipe of the run in `folder`, which the user named by the recipe `named`.

    Raises CairnError where the run is of another recipe, or needs trust as in `read_recipe` for what `named` lacks.
    """
    found = stored(folder)[0]
    check_recipe(found, named, folder, known)
    check_task(found.task, folder / CONFIG, trust=trust, typed=named.task)
    check_task(found.judged_task, folder / CONFIG, trust=trust, typed=named.judged_task)
    return found


def stored(folder: Path) -> tuple[Recipe, str]:
    """The recipe of a run, and the fault of its config.json, "" without one: checkpoints have the recipe too."""
    try:
        return _read(folder / CONFIG, digested=os.path.lexists(folder / MARKER)), ""
    except CairnError as error:
        for path in reversed(checkpoints(folder / "checkpoints")):
            try:
                return from_json(Recipe, OLDER | training_note(path)["recipe"]), str(error)
            except (CairnError, KeyError):
                continue
        if isinstance(error, NotThere):
            raise CairnError(f"{folder} holds no run to resume (no config.json).") from None
        raise


def first_steps(folder: Path, recipe: Recipe) -> int | None:
    """The number of steps the run in `folder` was started with; None if an older Cairn did not write it."""
    if not checkpoints(folder / "checkpoints"):
        return recipe.steps
    steps = last_note(folder).get("first_steps")
    return steps if isinstance(steps, int) else None


def last_note(folder: Path) -> dict[str, Any]:
    """The counters of a run's newest readable checkpoint; {} without one."""
    for path in reversed(checkpoints(folder / "checkpoints")):
        try:
            return training_note(path)
        except CairnError:
            continue
    return {}


def _read(path: Path, *, digested: bool, alone: bool = False) -> Recipe:
    body = read_json(path)
    if not isinstance(body, dict):
        raise CairnError(f"{path} was not written by Cairn.")
    told = body.pop("digest", None)
    if told is None and digested:
        raise CairnError(f"{path} is damaged: it has no digest.")
    if told is not None and told != digest(body):
        if not alone:
            raise CairnError(f"{path} is damaged: its digest differs.")
        remove = "remove the digest from a copy of it" if os.path.lexists(path.parent / MARKER) else "remove its digest"
        raise CairnError(
            f"{path} is not what was saved: its digest differs. Where it was changed on purpose, as a recipe for new"
            f" runs, {remove}."
        )
    try:
        return from_json(Recipe, body if alone else OLDER | body)
    except CairnError as error:
        raise CairnError(f"{path} cannot be used: {error}") from error


def write_config(folder: Path, recipe: Recipe) -> None:
    """Write config.json atomically, unless it already has these contents."""
    path, temporary = folder / CONFIG, folder / f".{CONFIG}.tmp"
    body: Mapping[str, Any] = to_json(recipe)
    try:
        text = json.dumps({**body, "digest": digest(body)}, indent=2)
    except (TypeError, ValueError) as error:
        raise CairnError(
            f"the settings of this run cannot be written down ({error}); env_args must be JSON."
        ) from error
    with writing(path):
        if path.is_file() and path.read_bytes() == text.encode():
            return
        temporary.write_text(text)
        temporary.replace(path)
