"""The recipes that ship: typed values, one file a family."""

from __future__ import annotations

from dataclasses import replace

from cairn.core.errors import CairnError, closest
from cairn.recipes import bipedal, bullet, classic, goals, hierarchy, imitation, pixels, subgoals
from cairn.recipes.recipe import Recipe

RECIPES: dict[str, Recipe] = {
    name: replace(recipe, name=name)
    for family in (classic, bullet, bipedal, goals, subgoals, hierarchy, imitation, pixels)
    for name, recipe in family.RECIPES.items()
}


def find(name: str) -> Recipe:
    """A recipe by its name."""
    if name not in RECIPES:
        raise CairnError(f"there is no recipe {name!r}.{closest(name, RECIPES)} `cairn list` shows them all.")
    return RECIPES[name]
