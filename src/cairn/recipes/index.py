"""`python -m cairn.recipes.index` writes index.json: names and targets of the recipes, to be read without torch.

A recipe contains an agent's config, whose module imports torch, so `cairn list` reads this index instead. The index
has a digest of the files that define recipes. If they have changed since, the recipes themselves are read, which is
slower.
"""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
INDEX = FOLDER / "index.json"
WITHOUT_RECIPES = (
    "__init__.py",
    "catalogue.py",
    "identity.py",
    "index.py",
    "recipe.py",
)  # every other file is a family


@dataclass(frozen=True)
class Entry:
    """What a list of recipes shows of one."""

    task: str
    agent: str
    target: float | None
    metric: str
    steps: int


@functools.cache
def entries() -> dict[str, Entry]:
    """All recipes by name, in the order of `RECIPES`."""
    stored = _stored()
    if stored.get("sources") != sources():
        return built()
    return {name: Entry(**values) for name, values in stored["recipes"].items()}


def built() -> dict[str, Entry]:
    """The entries, made from the recipes themselves; imports torch."""
    from cairn.algorithms.registry import agent_name
    from cairn.recipes.catalogue import RECIPES

    return {
        name: Entry(recipe.env, agent_name(recipe.agent), recipe.target, recipe.metric, recipe.steps)
        for name, recipe in RECIPES.items()
    }


def sources() -> str:
    """A digest of the files that define recipes."""
    found = hashlib.sha256()
    for path in sorted(FOLDER.glob("*.py")):
        if path.name not in WITHOUT_RECIPES:
            found.update(path.name.encode() + b"\0" + path.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return found.hexdigest()


def text() -> str:
    """The current contents for index.json."""
    recipes = {name: asdict(entry) for name, entry in built().items()}
    return json.dumps({"sources": sources(), "recipes": recipes}, indent=1) + "\n"


def _stored() -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(INDEX.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


if __name__ == "__main__":
    INDEX.write_text(text(), encoding="utf-8")
