"""Files of recorded results, and the table of recipes with their best result.

Does not import torch, because `cairn list` reads this module. `table` has what needs the recipes themselves.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cairn.core.errors import CairnError
from cairn.core.format import short, tabled
from cairn.core.serialise import digest
from cairn.core.terminal import table
from cairn.core.untrusted import read_json
from cairn.recipes.index import entries

DIGITS = 16  # digits of a digest that are stored with a result
FIGURES = ("target", "best", "iqm", "low", "high", "worst", "last")  # columns that hold a score
# Columns that narrow tables omit, the least important first.
LESS = ("public", "settings", "from", "episodes", "last", "total", "spread", "steps", "worst", "best", "low", "high")


def recipes_folder(results: Path) -> Path:
    """The folder with RECIPE-sSEED.json, anchors.json, notes.json and curves.json.

    This is `results/recipes` if it exists, as in a checkout, else `results` itself. So `--record results` and
    `--folder results` mean the same folder everywhere.
    """
    inside = results / "recipes"
    return inside if inside.is_dir() else results


def recipe_rows(results: Path) -> list[dict[str, Any]]:
    """One row per recipe: task, agent, target and the best result recorded under `results`."""
    rows = []
    for name, entry in entries().items():
        figures = [r["figure"] for r in read_results(results, name)]
        rows.append(
            {
                "recipe": name,
                "task": entry.task,
                "agent": entry.agent,
                "target": entry.target,
                "metric": entry.metric,
                "best": max(figures) if figures else None,
                "seeds": _at_target(figures, entry.target),
                "steps": entry.steps,
            }
        )
    return rows


def _at_target(figures: Sequence[float], target: float | None) -> str:
    """'2/3' of the seeds; only their number if there is no target."""
    if not figures or target is None:
        return str(len(figures) or "")
    return f"{sum(figure >= target for figure in figures)}/{len(figures)}"


def stamped(body: Mapping[str, Any]) -> str:
    """A result as JSON text with a digest of itself, so that later changes are noticed."""
    return json.dumps({**body, "digest": digest(body)[:DIGITS]}, indent=2) + "\n"


def read_results(results: Path, name: str) -> list[dict[str, Any]]:
    """The recorded runs of one recipe, by seed. Raises CairnError for damaged or altered files."""
    records = []
    for path in sorted(recipes_folder(results).glob(f"{name}-s*.json")):
        record = read_json(path)
        if not _is_result(record):
            raise CairnError(f"{path} is not a recorded result.")
        if record.get("digest") != digest(record)[:DIGITS]:
            raise CairnError(f"{path} was altered after it was recorded (its digest differs).")
        records.append(record)
    return records


def _is_result(record: Any) -> bool:
    """Whether all numbers that tables use are finite numbers."""
    if not isinstance(record, dict) or not isinstance(record.get("config"), (str, type(None))):
        return False
    last = record.get("last") or {"figure": 0, "total_steps": 0}
    if not isinstance(last, dict) or not isinstance(record.get("recipe"), (str, type(None))):
        return False
    told = [record.get("figure"), record.get("episodes", 0), record.get("train_steps", 0)]
    told += [last.get("figure"), last.get("total_steps")]
    return all(type(x) in (int, float) and math.isfinite(x) and abs(x) < 1e18 for x in told)


def text_table(rows: Sequence[dict[str, Any]]) -> str:
    """Rows of `recipe_rows` or `table.result_rows` as aligned columns that fit the terminal."""
    return table([_shown(row) for row in rows], shrink={"public": 16, "from": 8, "task": 12}, drop=LESS)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """A row as it is printed: success rates as percentages, steps in short form."""
    metric = row.get("metric") or "return"
    shown = {head: value for head, value in row.items() if head != "metric"}
    for head in FIGURES:
        if shown.get(head) is not None:
            shown[head] = tabled(float(shown[head]), metric)
    for head in ("steps", "total"):
        if shown.get(head) is not None:
            shown[head] = short(shown[head])
    return shown
