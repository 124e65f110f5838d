"""What the recipes are and what they achieved, as rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cairn.agents import agent_name
from cairn.recipes import RECIPES


def recipe_rows(results: Path) -> list[dict[str, Any]]:
    """One row a recipe: task, agent, target and the best recorded result under `results`."""
    rows = []
    for name, recipe in RECIPES.items():
        records = [json.loads(p.read_text()) for p in sorted(results.glob(f"{name}-s*.json"))]
        figures = [r["figure"] for r in records]
        rows.append(
            {
                "recipe": name,
                "task": recipe.env,
                "agent": agent_name(recipe.agent),
                "target": recipe.target,
                "best": max(figures) if figures else None,
                "seeds": f"{sum(f >= (recipe.target or 0) for f in figures)}/{len(figures)}" if figures else "",
                "steps": recipe.steps,
            }
        )
    return rows


def text_table(rows: Sequence[dict[str, Any]]) -> str:
    """Rows as aligned columns."""
    heads = list(rows[0])
    cells = [heads] + [
        ["" if r[h] is None else f"{r[h]:,g}" if isinstance(r[h], float) else str(r[h]) for h in heads] for r in rows
    ]
    widths = [max(len(line[i]) for line in cells) for i in range(len(heads))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in cells)
