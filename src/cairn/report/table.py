"""What the recipes are and what they achieved: results as files, and as rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cairn import __version__
from cairn.agents import agent_name
from cairn.core.errors import CairnError
from cairn.envs.make import Task
from cairn.recipes import RECIPES
from cairn.report.stats import bootstrap, interquartile_mean
from cairn.train.checkpoint import Saved, digest
from cairn.train.evaluate import Score
from cairn.train.provenance import config_hash
from cairn.train.recipe import Recipe
from cairn.train.trainer import fitted

DIGITS = 16  # of a digest, kept with a result


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
                "seeds": _at_target(figures, recipe.target),
                "steps": recipe.steps,
            }
        )
    return rows


def _at_target(figures: Sequence[float], target: float | None) -> str:
    """'2/3' of the seeds; how many there are, where nothing is aimed at."""
    if not figures or target is None:
        return str(len(figures) or "")
    return f"{sum(figure >= target for figure in figures)}/{len(figures)}"


def record(folder: Path, saved: Saved, score: Score, seed: int) -> Path:
    """Write what an evaluation found as folder/RECIPE-sSEED.json: the evidence behind the table."""
    name = str(saved.about.get("recipe"))
    recipe = recordable(name, saved.task)
    figure = score.success if recipe.metric == "success" else score.mean
    body: dict[str, Any] = {
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
        **{key: saved.about[key] for key in ("config", "commit", "hardware") if key in saved.about},
    }
    if "queries" in saved.about:
        body["expert_queries"] = saved.about["queries"]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-s{saved.about['seed']}.json"
    path.write_text(stamped(body))
    return path


def recordable(name: str, task: Task) -> Recipe:
    """The recipe of that name, or why what was trained is no result of it."""
    if name not in RECIPES:
        raise CairnError("only a policy trained by a recipe can be recorded; this one names none.")
    if task != RECIPES[name].judged_task:
        raise CairnError(f"this policy was trained on another task than {name}'s, so it is no result of that recipe.")
    return RECIPES[name]


def stamped(body: Mapping[str, Any]) -> str:
    """A result as it is written: with a digest of itself, by which a figure altered by hand is noticed."""
    return json.dumps({**body, "digest": digest(body)[:DIGITS]}, indent=2) + "\n"


def read_results(results: Path, name: str) -> list[dict[str, Any]]:
    """The recorded runs of one recipe, by seed."""
    records = []
    for path in sorted(results.glob(f"{name}-s*.json")):
        try:
            record = json.loads(path.read_text())
            float(record["figure"])
        except (ValueError, TypeError, KeyError, OSError) as error:
            raise CairnError(f"{path} is not a recorded result.") from error
        if record.get("digest") != digest(record)[:DIGITS]:
            raise CairnError(f"{path} was altered after it was recorded (its digest differs).")
        records.append(record)
    return records


def anchors(results: Path) -> dict[str, str]:
    """The best that others have published of a recipe's task, where something is known: results/anchors.json."""
    path = results / "anchors.json"
    found: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    return found


def result_rows(results: Path) -> list[dict[str, Any]]:
    """One row a recipe that has a result: what its seeds say together, beside the target.

    The interval is that of the interquartile mean over seeds, and there where three or more say something.
    """
    rows, public = [], anchors(results)
    for name, recipe in RECIPES.items():
        records = read_results(results, name)
        if not records:
            continue
        figures = [float(r["figure"]) for r in records]
        low, high = bootstrap(figures) if len(figures) > 2 else (None, None)
        met = "" if recipe.target is None else "yes" if interquartile_mean(figures) >= recipe.target else "no"
        rows.append(
            {
                "recipe": name,
                "seeds": len(figures),
                "iqm": round(interquartile_mean(figures), 3),
                "low": None if low is None else round(low, 3),
                "high": None if high is None else round(high, 3),
                "worst": round(min(figures), 3),
                "best": round(max(figures), 3),
                "target": recipe.target,
                "met": met,
                "episodes": records[0]["episodes"],
                "steps": round(sum(r["train_steps"] for r in records) / len(records)),
                "from": recipe.start,  # whose steps come before these
                "settings": _settings(recipe, records),
                "public": public.get(name),
            }
        )
    return rows


def _settings(recipe: Recipe, records: Sequence[dict[str, Any]]) -> str:
    """Whether they are of the recipe as it is now."""
    told = {r.get("config") for r in records}
    now = config_hash(replace(recipe, agent=fitted(recipe.agent, recipe.steps)))
    return "as now" if told == {now} else "unrecorded" if told == {None} else "earlier"


def text_table(rows: Sequence[dict[str, Any]]) -> str:
    """Rows as aligned columns."""
    heads = list(rows[0])
    cells = [heads] + [
        ["" if r[h] is None else f"{r[h]:,g}" if isinstance(r[h], float) else str(r[h]) for h in heads] for r in rows
    ]
    widths = [max(len(line[i]) for line in cells) for i in range(len(heads))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in cells)
