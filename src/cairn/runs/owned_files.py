"""The files that a run owns: nothing else that Cairn writes may replace them."""

from __future__ import annotations

import os
from pathlib import Path

from cairn.core.calls import option
from cairn.core.errors import CairnError
from cairn.runs.config import CONFIG, MARKER
from cairn.runs.evaluation_log import EVALUATIONS
from cairn.runs.lock import LOCK

FILES = (CONFIG, MARKER, LOCK, "metrics.csv", "monitor.csv", "watch.jsonl", EVALUATIONS)
FOLDERS = ("best", "checkpoints", "replay", "tb")


def check_output(out: Path, name: str = "out") -> None:
    """CairnError where writing `out` would replace a file of a run, or add one to a folder that a run owns.

    A film or a page under a name of its own may lie in the folder of a run.
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
    """Whether a run lies here. Cairn 0.1 set no marker."""
    earlier = (folder / CONFIG).is_file() and (folder / "checkpoints").is_dir()
    return os.path.lexists(folder / MARKER) or earlier
