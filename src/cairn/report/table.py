"""What the recipes are and what they achieved, as rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cairn import __version__
from cairn.agents import agent_name
from cairn.core.errors import CairnError
from cairn.recipes import RECIPES
from cairn.train.checkpoint import Saved
from cairn.train.evaluate import Score


def recipe_rows(results: Path) -> list[dict[str, Any]]:
    """One row a recipe: task, agent, target and the best recorded result under `results`."""
    rows = []
    for name, recipe in RECIPES.items():
        records = read_results(results, name)
        figures = [r["figure"] for r in records]
        rows.append(
            {
                "recipe": name,
                "task": recipe.env,
                "agent": agent_name(recipe.agent),
                "target": recipe.target,
                "metric": recipe.metric,
                "best": max(figures) if figures else None,
                "seeds": f"{sum(f >= (recipe.target or 0) for f in figures)}/{len(figures)}" if figures else "",
                "steps": recipe.steps,
            }
        )
    return rows


def record(folder: Path, saved: Saved, score: Score, seed: int) -> Path:
    """Write what an evaluation found as folder/RECIPE-sSEED.json: the evidence behind the table."""
    name = saved.about.get("recipe")
    if name not in RECIPES:
        raise CairnError("only a policy trained by a recipe can be recorded; this one names none.")
    recipe = RECIPES[name]
    if saved.task != recipe.judged_task:
        raise CairnError(f"this policy was trained on another task than {name}'s, so it is no result of that recipe.")
    figure = score.success if recipe.metric == "success" else score.mean
    body = {
        "recipe": name,
        "seed": saved.about["seed"],
        "env": saved.task.id,
        "env_args": saved.task.args,
        "agent": agent_name(saved.agent.cfg),
        "metric": recipe.metric,
        "target": recipe.target,
        "figure": figure,
        "mean": score.mean,
        "std": score.std,
        "success": score.success,
        "episodes": score.episodes,
        "first_episode_seed": seed,
        "train_steps": saved.about["step"],
        "train_seconds": saved.about.get("seconds"),
        "version": __version__,
    }
    if "queries" in saved.about:
        body["expert_queries"] = saved.about["queries"]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-s{saved.about['seed']}.json"
    path.write_text(json.dumps(body, indent=2) + "\n")
    return path


def read_results(results: Path, name: str) -> list[dict[str, Any]]:
    """The recorded runs of one recipe, by seed."""
    records = []
    for path in sorted(results.glob(f"{name}-s*.json")):
        try:
            record = json.loads(path.read_text())
            float(record["figure"])
        except (ValueError, TypeError, KeyError, OSError) as error:
            raise CairnError(f"{path} is not a recorded result.") from error
        records.append(record)
    return records


def text_table(rows: Sequence[dict[str, Any]]) -> str:
    """Rows as aligned columns."""
    heads = list(rows[0])
    cells = [heads] + [
        ["" if r[h] is None else f"{r[h]:,g}" if isinstance(r[h], float) else str(r[h]) for h in heads] for r in rows
    ]
    widths = [max(len(line[i]) for line in cells) for i in range(len(heads))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in cells)
