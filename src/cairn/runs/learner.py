"""A learner other than the first: `python -m cairn.runs.learner RANK STORE PARENT`, with its work on standard input."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import traceback
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cairn.algorithms.registry import ALGORITHMS, Algorithm, register
from cairn.core.errors import CairnError
from cairn.core.learners import learning_with
from cairn.core.memory import divided, enough
from cairn.core.untrusted import printable
from cairn.nets.own import Own
from cairn.recipes.recipe import Recipe
from cairn.runs.process_group import Group, LostLearner, file_store
from cairn.runs.shared_run import folder_of

REFUSED, ALONE = 2, 3  # exit codes: after an error that is a sentence; after the loss of another learner


@dataclass(frozen=True)
class Work:
    """What every learner of a run is told."""

    recipe: Recipe
    folder: Path | None  # of the run
    resume: bool
    own: Own  # networks of the user's own
    algorithm: Algorithm


def learn(work: Work, rank: int, store: Any, *, local: bool) -> None:
    """Work as learner `rank` until the run ends."""
    from cairn.runs.train import assemble  # which starts learners itself

    recipe = replace(work.recipe, device="cuda") if work.recipe.device.startswith("cuda") else work.recipe
    if work.algorithm.name not in ALGORITHMS:
        register(work.algorithm)
    store.set(f"ready/{rank}", "1")
    folder, sharing = folder_of(work.folder, rank), recipe.learners if local else 1
    group = Group(store, rank, recipe.learners, device=recipe.device, local=local)
    with enough(), divided(sharing), group, learning_with(group):
        assemble(recipe, folder, None, work.resume, None, work.own, None, None, None)


def main(rank: str, store: str, parent: str) -> int:
    """Read the work and do it; returns the exit code. The last line of the output says what went wrong."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # end with the first learner
    if os.getppid() != int(parent):
        return 1
    import cloudpickle

    try:
        sys.path[:] = cloudpickle.load(sys.stdin.buffer)
        work: Work = cloudpickle.load(sys.stdin.buffer)
        learn(work, int(rank), file_store(store, work.recipe.learners), local=True)
    except LostLearner:
        return ALONE
    except CairnError as error:
        print(printable(error), file=sys.stderr)
        return REFUSED
    except Exception as error:
        traceback.print_exc()
        print(f"{type(error).__name__}: {error}".splitlines()[0], file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    sys.stdout.flush()
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    os._exit(code)
