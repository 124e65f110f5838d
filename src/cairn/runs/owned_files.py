"""The files of a run, which nothing else that Cairn writes may replace."""

from __future__ import annotations

import os
from pathlib import Path

from cairn.core.calls import option
from cairn.core.errors import CairnError
from cairn.runs.config import CONFIG, MARKER
from cairn.runs.evaluation_log import EVALUATIONS
from cairn.runs.lock import LOCK
from cairn.runs.trackers import TRACKERS

FILES = (CONFIG, MARKER, LOCK, "metrics.csv", "monitor.csv", "watch.jsonl", EVALUATIONS, TRACKERS)
FOLDERS = ("best", "checkpoints", "replay", "tb", "wandb")


def check_output(out: Path, name: str = "out") -> None:
    """Raise CairnError where writing `out` would replace a file of a run, or add one to its own folders.

    Other files, such as a film or a page, may be written into the folder of a run.
    """
    for path in {Path(os.path.abspath(out)), out.resolve()}:
        for folder in path.parents:
            inside = path.relative_to(folder).parts[0].casefold()
            if inside in (*FILES, *FOLDERS) and _is_run(folder):
                raise CairnError(
                    f"{option(name)} is {out}, which belongs to the run in {folder} and may not be replaced; name"
                    " another place."
                )


def _is_run(folder: Path) -> bool:
    """Whether this is a run folder. Cairn 0.1 wrote no marker."""
    earlier = (folder / CONFIG).is_file() and (folder / "checkpoints").is_dir()
    return os.path.lexists(folder / MARKER) or earlier
