"""The recipes that ship with Cairn: typed values, one file per family.

`RECIPES` is loaded on first use (PEP 562), because `index` lists the recipes without importing torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cairn.core.errors import CairnError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cairn.recipes.catalogue import RECIPES
    from cairn.recipes.index import Entry
    from cairn.recipes.recipe import Recipe

__all__ = ["RECIPES", "find"]


def __getattr__(name: str) -> Any:
    if name != "RECIPES":
        raise AttributeError(f"module 'cairn.recipes' has no attribute {name!r}")
    from cairn.recipes.catalogue import RECIPES

    return RECIPES


def _instead(name: str, known: Mapping[str, Entry]) -> str:
    """What to write instead of an unknown name: the closest recipe, or one of the algorithm with that name."""
    found = nearest(name, known)
    if found is not None:
        return f" Did you mean {found}?"
    shipped = next((one for one, entry in known.items() if entry.agent == name.lower()), None)
    if shipped is not None:
        return f" {name} is an algorithm; a recipe of it is {shipped}."
    task = nearest(name, {entry.task for entry in known.values()})
    if task is not None:
        theirs = ", ".join(one for one, entry in known.items() if entry.task == task)
        return f" {task} is a task: write {theirs}, or --env {task} --agent ppo."
    family = nearest(name, {one.partition("-")[0] for one in known})
    if family is not None:
        return f" Did you mean one of {', '.join(one for one in known if one.partition('-')[0] == family)}?"
    return " For a task without a recipe, write --env ENV --agent ppo."


def find(name: str) -> Recipe:
    """The recipe with this name. Raises CairnError, without importing torch, for an unknown name."""
    from cairn.recipes.index import entries

    if name not in entries():
        raise CairnError(f"there is no recipe {name!r}.{_instead(name, entries())} `cairn list` shows them all.")
    from cairn.recipes.catalogue import RECIPES

    return RECIPES[name]
