"""Recorded results: `cairn list` and `cairn results` show them, `cairn train` and `cairn eval` write them.

`list` imports neither torch nor gymnasium (tests/test_light_start.py): heavy modules are imported where they are used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cairn.cli.options import parse
from cairn.cli.paths import writable_folder
from cairn.cli.usage import Command
from cairn.core.errors import CairnError
from cairn.core.places import PACKAGE, checkout

if TYPE_CHECKING:
    from cairn.recipes.recipe import Recipe
    from cairn.runs.checkpoint import Saved
    from cairn.runs.evaluation import Score


RESULTS = Path("results")


@dataclass(frozen=True)
class ListArgs:
    """Show the recipes."""

    json: bool = False  # print one JSON object instead of a table


@dataclass(frozen=True)
class ResultsArgs:
    """Show the recorded results of each recipe: interquartile mean over seeds, interval or range, and target."""

    folder: Path = RESULTS  # folder of recorded results; default: ./results, else those that come with Cairn
    json: bool = False  # print one JSON object instead of a table


def command_list(args: list[str]) -> int:
    """Print the recipes; returns the exit code."""
    from cairn.evidence.recorded import recipe_rows, text_table

    options = parse(ListArgs, args, prog="cairn list")
    rows = recipe_rows(_recorded(RESULTS))
    print(json.dumps(rows, indent=2) if options.json else text_table(rows))
    return 0


def command_results(args: list[str]) -> int:
    """Print the recorded results; returns the exit code."""
    options = parse(ResultsArgs, args, prog="cairn results")
    from cairn.evidence.recorded import text_table
    from cairn.evidence.table import result_rows

    rows = result_rows(_recorded(options.folder))
    if not rows:
        raise CairnError(f"{options.folder} holds no recorded result; `cairn train NAME --record FOLDER` writes one.")
    print(json.dumps(rows) if options.json else text_table(rows))
    return 0


def _recorded(folder: Path) -> Path:
    """This folder, or the results that come with Cairn where the usual folder does not exist."""
    root = checkout()
    packaged = PACKAGE / RESULTS if root is None else root / RESULTS
    return packaged if folder == RESULTS and not folder.is_dir() else folder


def must_be_recordable(recipe: Recipe, folder: Path) -> None:
    """Raise CairnError where a run of this recipe gives no result, or `folder` cannot be written."""
    from cairn.evidence.table import recordable

    recordable(recipe.name, recipe.judged_task)
    writable_folder(folder, "--record")


def scored(
    path: Path,
    episodes: int,
    *,
    seed: int = 1000,
    stochastic: bool = False,
    record: Path | None = None,
    device: str = "cpu",
    trust: bool = False,
) -> tuple[Saved, Score]:
    """A policy, and its score over `episodes` seeds from `seed` on, which is written into the folder `record`."""
    from cairn.evidence.table import record as write_result
    from cairn.runs.checkpoint import load_policy
    from cairn.runs.evaluation import as_policy, evaluate
    from cairn.vector.choose import scoring_vector

    saved = load_policy(path, device=device, seed=seed, trust=trust)
    envs = scoring_vector(saved.task.for_scoring(), episodes)
    try:
        policy = as_policy(saved.agent, explore=stochastic, device=device)
        score = evaluate(policy, envs, range(seed, seed + episodes), longest=saved.task.for_scoring().longest)
    finally:
        envs.close()
    assert score is not None  # None only if stopped
    if record is not None:
        write_result(record, saved, score, seed, _run_of(path))
    return saved, score


def _run_of(path: Path) -> Path | None:
    """The run folder of a policy; None if it is not in one."""
    return next((folder for folder in (path, path.parent) if (folder / "metrics.csv").is_file()), None)


COMMANDS: Mapping[str, Command] = {"list": command_list, "results": command_results}
