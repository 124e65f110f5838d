"""Arguments of the Python interface: folders, experts and changed settings, with one sentence for each mistake."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from cairn.algorithms.registry import ALGORITHMS, agent_name, owners
from cairn.core.checks import fit, short
from cairn.core.errors import CairnError
from cairn.core.sb3_names import hint, note, written
from cairn.envs.given import given_wrappers
from cairn.envs.task import Task, as_task
from cairn.recipes.recipe import Recipe
from cairn.runs.folder import run_path
from cairn.runs.owned_files import check_output


@contextmanager
def disk_errors() -> Iterator[None]:
    """Context that raises CairnError where a file of a run cannot be read or written."""
    try:
        yield
    except OSError as error:
        raise CairnError(f"{error.filename or 'a file'}: {error.strerror or error}.") from error


def run_folder(out: Any) -> Path | None:
    """The folder of a run; None for None. Raises CairnError for anything that is not a path."""
    return None if out is None else run_path(folder_path("out", out))


def folder_path(name: str, path: Any) -> Path:
    """A path that names a folder. Raises CairnError for anything else."""
    text = fit(name, path, str)
    if not text.strip() or "\0" in text:
        raise CairnError(f"{name} is {short(text)}; it must name a folder.")
    return Path(text)


def file_path(name: str, path: Any) -> Path:
    """A path of a file that may be written. Raises CairnError for a folder, or a file of a run."""
    text = fit(name, path, str)
    if not text.strip() or "\0" in text or Path(text).is_dir():
        raise CairnError(f"{name} is {short(text)}; it must name a file.")
    check_output(Path(text), name)
    return Path(text)


RUN_ARGUMENTS = ("out", "resume", "callback", "trust")  # of learn and train, in addition to the fields of a recipe


def changed(recipe: Recipe, changes: dict[str, Any], *, model: str = "") -> Recipe:
    """The recipe with these fields changed. Raises CairnError for unknown ones. `model` is the class of `learn`."""
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


def with_its_count(recipe: Recipe, given: Collection[str]) -> Recipe:
    """The recipe with as many environments as were given, where their number is fixed and no other is asked for."""
    if recipe.make is None or recipe.make.count is None:
        return recipe
    own: dict[str, Any] = {"envs": recipe.make.count}
    if recipe.make.kind == "vector":
        own["vector"] = "sync"
    return replace(recipe, **{name: value for name, value in own.items() if name not in given})


def unknown_setting(kind: str, name: str, arguments: tuple[str, ...]) -> CairnError:
    """The error for an unknown keyword of an algorithm's class; `arguments` are those besides its config."""
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
    """A sentence with the other algorithms that have this setting; "" if none has."""
    found = owners(word)
    return f"In Cairn {word} is a setting of {', '.join(found)}; {kind} has none." if found else ""


def task_again(saved: Task, env: Any, wrappers: Any, path: Path) -> Task:
    """The task of a saved policy with what no file holds. Raises CairnError where that is not given."""
    more = given_wrappers(wrappers)
    if isinstance(env, Task):
        return replace(env, wrappers=(*env.wrappers, *more))
    if saved.wrappers and not more:
        told = ", ".join(one.what for one in saved.wrappers)
        raise CairnError(
            f"{path} was trained in wrappers ({told}); their code is not saved, so give them again: wrappers=[...]."
        )
    if env is None:
        if saved.make is not None:
            raise CairnError(
                f"{path} was trained on {saved.id}, {saved.make.what}; its code is not saved, so give it again:"
                " load(path, env=...)."
            )
        return replace(saved, wrappers=more)
    task = as_task(env)
    limit = saved.time_limit if task.time_limit is None and task.count is None else task.time_limit
    return replace(saved, id=task.id, make=task.make, args=task.args, time_limit=limit, wrappers=more)
