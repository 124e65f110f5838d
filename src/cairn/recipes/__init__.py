"""The recipes that ship: typed values, one file a family.

`RECIPES` is loaded when first asked for (PEP 562): `index` lists the recipes without importing torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cairn.core.errors import CairnError, closest

if TYPE_CHECKING:
    from cairn.recipes.catalogue import RECIPES
    from cairn.recipes.recipe import Recipe

__all__ = ["RECIPES", "find"]


def __getattr__(name: str) -> Any:
    if name != "RECIPES":
        raise AttributeError(f"module 'cairn.recipes' has no attribute {name!r}")
    from cairn.recipes.catalogue import RECIPES

    return RECIPES


def find(name: str) -> Recipe:
    """A recipe by its name. An unknown name is answered without importing torch."""
    from cairn.recipes.index import entries

    if name not in entries():
        raise CairnError(f"there is no recipe {name!r}.{closest(name, entries())} `cairn list` shows them all.")
    from cairn.recipes.catalogue import RECIPES

    return RECIPES[name]
