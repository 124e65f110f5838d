"""All recipes by name. Importing this module imports the algorithms, and with them torch."""

from __future__ import annotations

from dataclasses import replace

from cairn.recipes import bipedal, bullet, classic, goals, hierarchy, imitation, pixels, subgoals
from cairn.recipes.recipe import Recipe

RECIPES: dict[str, Recipe] = {
    name: replace(recipe, name=name)
    for family in (classic, bullet, bipedal, goals, subgoals, hierarchy, imitation, pixels)
    for name, recipe in family.RECIPES.items()
}
