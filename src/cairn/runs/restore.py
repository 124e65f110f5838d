"""A run continued from its newest checkpoint that is whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cairn.core.agent import Agent
from cairn.core.calls import option
from cairn.core.errors import CairnError
from cairn.core.state import generator_from
from cairn.replay.protocol import Checkpointable
from cairn.runs.checkpoint import load_checkpoint
from cairn.runs.config import write_config
from cairn.runs.logs import Logs, set_aside
from cairn.runs.policy_files import checkpoints
from cairn.runs.run import Run

BROKEN = (CairnError, KeyError)  # what reading a damaged checkpoint raises


def _finished(why: str, setting: str) -> str:
    return f"this run is finished: {why}. To train further, resume with a higher {option(setting)}."


def resume(run: Run, agent: Agent, replay: Callable[[], Checkpointable | None]) -> Checkpointable | None:
    """Continue from the newest checkpoint that is whole; what the run learns from, None where it is over."""
    assert run.folder is not None
    found = list(reversed(checkpoints(run.folder / "checkpoints")))
    kept: list[Checkpointable | None] = []  # made once, and only for a run that goes on
    damaged: list[Path] = []
    for path in found:
        try:
            saved = load_checkpoint(path, agent)
            run.restore(saved)
        except BROKEN as error:
            damaged.append(_pass_over(run, path, error))
            continue
        if not run.over:
            kept = kept or [replay()]
            try:
                _restore_replay(saved, kept[0])
            except BROKEN as error:
                damaged.append(_pass_over(run, path, error))
                continue
        if run.solved:
            run.progress_line.say(_finished("it held its target", "target"))
        elif run.over:
            run.progress_line.say(_finished(f"all {run.recipe.steps:,} steps are done", "steps"))
        else:
            _set_aside(run, damaged)
            _reopen(run, saved)
        return kept[0] if kept else None
    if found:
        raise CairnError(
            f"none of the checkpoints in {run.folder} can be resumed from; start a new run in another folder."
        )
    run.start()  # killed before its first checkpoint: the same run from the beginning
    return replay()


def _pass_over(run: Run, path: Path, error: Exception) -> Path:
    told = f"{error}" if isinstance(error, CairnError) else f"{path} lacks {error}."
    run.progress_line.say(f"{told} Using the checkpoint before it.")
    return path


def _set_aside(run: Run, damaged: list[Path]) -> None:
    """Damaged checkpoints get other names: they must not count as the newest ones of a run that goes on."""
    for path in damaged:
        run.progress_line.say(f"{path} is kept as {set_aside(path).name}.")


def _restore_replay(saved: Mapping[str, Any], replay: Checkpointable | None) -> None:
    if replay is not None:
        replay.load(saved["replay"])
        replay.generator.set_state(generator_from(saved["replay_generator"]))


def _reopen(run: Run, saved: Mapping[str, Any]) -> None:
    """Settings and logs of a run that goes on."""
    assert run.folder is not None
    write_config(run.folder, run.recipe)
    marks = saved.get("logs", saved.get("offsets"))  # Cairn 0.1 kept sizes only
    run.logs = Logs(run.folder, run.recipe.env, saved=marks, step=run.step, say=run.progress_line.say)
