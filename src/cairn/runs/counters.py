"""The counters of a run in a checkpoint: written, and read back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from cairn.core.serialise import from_json, to_json
from cairn.runs.evaluation import Score
from cairn.runs.figures import as_numbers
from cairn.runs.progress import progress_of

if TYPE_CHECKING:
    from cairn.runs.run import Run


def counters(run: Run) -> dict[str, Any]:
    """The counters of a run as JSON."""
    return {
        "step": run.step,
        "first_steps": run.first_steps,
        "taught": run.taught,
        "updates": run.updates,
        "episodes": run.episodes,
        "marks": run.marks,
        "recent": list(run.recent),
        "best": None if run.best == float("-inf") else run.best,
        "held": run.held,
        "solved": run.solved,
        "seconds": run.seconds,
        "restarts": run.restarts,
        "metrics": {name: value for name, value in as_numbers(run.metrics).items() if np.isfinite(value)},
        "warned": run.warned,
        "score": None if run.score is None else to_json(run.score),
    }


def restore(run: Run, saved: Mapping[str, Any]) -> None:
    """Continue with the counters of a checkpoint."""
    run.step, run.updates, run.episodes = saved["step"], saved["updates"], saved["episodes"]
    run.first_steps = saved.get("first_steps")
    run.marks = dict(saved["marks"])
    run.recent.clear()
    run.recent.extend((r, n, s) for r, n, s in saved["recent"])
    run.best = float("-inf") if saved["best"] is None else saved["best"]
    run.held, run.earlier, run.earlier_restarts = saved["held"], saved["seconds"], saved["restarts"]
    run.solved = saved["solved"]
    before = saved.get("recipe", {})
    if before and (before["target"], before["hold"]) != (run.recipe.target, run.recipe.hold):
        run.held, run.solved = 0, False  # the target changed
    run.metrics = {name: torch.tensor(value) for name, value in saved.get("metrics", {}).items()}
    run.warned = list(saved.get("warned", []))
    run.score = None if saved.get("score") is None else from_json(Score, saved["score"])
    run.progress_line = progress_of(run.recipe, run.step)
