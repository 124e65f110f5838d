"""The recipes and their results: written to files, and as rows of tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cairn import __version__
from cairn.algorithms.registry import agent_name
from cairn.algorithms.settings import capped_capacity, most_useful
from cairn.core.errors import CairnError
from cairn.core.metric import MEASURES, figure
from cairn.core.untrusted import read_json, shown
from cairn.envs.task import Task
from cairn.evidence.recorded import read_results as read_results
from cairn.evidence.recorded import recipe_rows as recipe_rows
from cairn.evidence.recorded import recipes_folder as recipes_folder
from cairn.evidence.recorded import stamped as stamped
from cairn.evidence.recorded import text_table as text_table
from cairn.evidence.statistics import bootstrap, interquartile_mean
from cairn.recipes import RECIPES
from cairn.recipes.identity import config_hash
from cairn.recipes.recipe import Recipe
from cairn.runs.checkpoint import Saved
from cairn.runs.curves import read_curves
from cairn.runs.evaluation import Score
from cairn.runs.folder import folder_name

ENOUGH = 5  # seeds for an interval; fewer have a range


def record(folder: Path, saved: Saved, score: Score, seed: int, run: Path | None = None) -> Path:
    """Write the result of an evaluation as RECIPE-sSEED.json (see `recipes_folder`); returns the file.

    With the folder of its run, the score of the last policy and the total number of steps are written too.
    """
    name = str(saved.about.get("recipe"))
    recipe = recordable(name, saved.task)
    body: dict[str, Any] = {
        "recipe": name,
        "seed": saved.about["seed"],
        "env": saved.task.id,
        "env_args": saved.task.args,
        "agent": agent_name(saved.agent.cfg),
        "metric": recipe.metric,
        "target": recipe.target,
        "figure": figure(recipe.metric, score.mean, score.success),
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
    body["last"] = last_evaluation(run, recipe) if run is not None else None
    if "queries" in saved.about:
        body["expert_queries"] = saved.about["queries"]
    folder = recipes_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{folder_name(name)}-s{saved.about['seed']}.json"
    path.write_text(stamped(body))
    return path


def last_evaluation(run: Path, recipe: Recipe) -> dict[str, Any] | None:
    """The last evaluation of a run, whether its policy was kept or not; None if it is not in the logs."""
    curves = read_curves(run)
    points, newest = curves.named.get(MEASURES[recipe.metric], []), curves.last()
    if not points or newest is None:
        return None
    last = points[-1]
    return {"figure": last.value, "step": last.step, "episodes": recipe.eval_episodes, "total_steps": newest.step}


def last_scores(results: Path, records: Sequence[dict[str, Any]]) -> list[tuple[float, int] | None]:
    """The last evaluation of each run and its step, from the result itself or curves.json; None if unknown."""
    path = recipes_folder(results) / "curves.json"
    curves = read_json(path) if path.exists() else {}
    found: list[tuple[float, int] | None] = []
    for one in records:
        if one.get("last"):
            found.append((one["last"]["figure"], one["last"]["total_steps"]))
            continue
        try:
            points = curves.get(one.get("recipe"), {}).get(str(one.get("seed")))
            found.append((float(points[-1][2]), int(points[-1][0])) if points else None)
        except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
            raise CairnError(f"{path} is not laid out as curves of recipes and seeds.") from error
    return found


def notes(results: Path) -> dict[str, dict[str, str]]:
    """Remarks on results by recipe and language, from notes.json."""
    path = recipes_folder(results) / "notes.json"
    found: dict[str, dict[str, str]] = read_json(path) if path.exists() else {}
    return found


def recordable(name: str, task: Task) -> Recipe:
    """The recipe with this name. Raises CairnError where a policy for `task` is not a result of it."""
    if name not in RECIPES:
        told = f"no recipe is called {shown(name, 60)}" if name else "this one has no name"
        raise CairnError(f"results are recorded for recipes only, and {told}; train a recipe by its name.")
    if task != RECIPES[name].judged_task:
        raise CairnError(
            f"this policy was trained on another task than {name}'s, so it cannot be recorded as its result."
        )
    return RECIPES[name]


def anchors(results: Path) -> dict[str, str]:
    """The best published results by recipe, from anchors.json."""
    path = recipes_folder(results) / "anchors.json"
    found = read_json(path) if path.exists() else {}
    if not isinstance(found, dict):
        raise CairnError(f"{path} is not a JSON object of published figures.")
    return {name: shown(value, 2000) for name, value in found.items()}


def result_rows(results: Path) -> list[dict[str, Any]]:
    """One row per recipe with results: statistics over its seeds, and the target.

    low and high are the 95 % interval of the interquartile mean for five seeds or more, and the range for fewer. last
    is the
    last evaluation in training, of few episodes; total the steps of a run, steps those of the policy that was kept.
    """
    rows, public = [], anchors(results)
    for name, recipe in RECIPES.items():
        records = read_results(results, name)
        if not records:
            continue
        figures = [float(r["figure"]) for r in records]
        low, high = bootstrap(figures) if len(figures) >= ENOUGH else (min(figures), max(figures))
        spread = "95 % interval" if len(figures) >= ENOUGH else "range" if len(figures) > 1 else "one seed"
        last = [one for one in last_scores(results, records) if one is not None]
        met = "" if recipe.target is None else "yes" if interquartile_mean(figures) >= recipe.target else "no"
        rows.append(
            {
                "recipe": name,
                "metric": recipe.metric,
                "seeds": len(figures),
                "iqm": round(interquartile_mean(figures), 3),
                "spread": spread,
                "low": round(low, 3),
                "high": round(high, 3),
                "worst": round(min(figures), 3),
                "best": round(max(figures), 3),
                "target": recipe.target,
                "met": met,
                "episodes": records[0].get("episodes"),
                "last": round(interquartile_mean([score for score, _ in last]), 3) if last else None,
                "steps": round(sum(r.get("train_steps", 0) for r in records) / len(records)),
                "total": round(sum(steps for _, steps in last) / len(last)) if last else None,
                "from": recipe.start,  # its steps come before these
                "settings": _settings(recipe, records),
                "public": public.get(name),
            }
        )
    return rows


def _settings(recipe: Recipe, records: Sequence[dict[str, Any]]) -> str:
    """Whether the results were made with the recipe's current settings."""
    told = {r.get("config") for r in records}
    now = config_hash(replace(recipe, agent=capped_capacity(recipe.agent, most_useful(recipe.agent, recipe.steps))))
    return "as now" if told == {now} else "unrecorded" if told == {None} else "earlier"
