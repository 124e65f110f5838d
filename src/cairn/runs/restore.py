"""Continues a run from its newest undamaged checkpoint."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cairn.core.agent import Agent
from cairn.core.calls import option
from cairn.core.errors import CairnError
from cairn.core.state import generator_from
from cairn.nets.own import NONE
from cairn.recipes.recipe import Recipe
from cairn.replay.protocol import Checkpointable
from cairn.runs.checkpoint import load_checkpoint
from cairn.runs.config import CONFIG, first_steps, stored, write_config
from cairn.runs.counters import restore as restore_counters
from cairn.runs.logs import Logs, set_aside
from cairn.runs.policy_card import must_have_own
from cairn.runs.policy_files import checkpoints, read_card
from cairn.runs.resume import continued, kept_small
from cairn.runs.run import Run
from cairn.runs.shared_run import all_have, all_of, drop_newer

BROKEN = (CairnError, KeyError)  # errors of damaged checkpoints


def taken_up(recipe: Recipe, folder: Path) -> Recipe:
    """The recipe with which the run in `folder` continues."""
    found, fault = stored(folder)
    first = first_steps(folder, found)
    asked, recipe = recipe, continued(found, recipe, folder, first)
    for said in kept_small(asked, recipe, found.steps if first is None else first):
        print(f"cairn: {said}", file=sys.stderr)
    if fault:
        if os.path.lexists(folder / CONFIG):
            fault += f" It is kept as {set_aside(folder / CONFIG).name}."
        print(f"cairn: {fault} The settings are taken from the last checkpoint.", file=sys.stderr)
        write_config(folder, found)
    return recipe


def _finished(why: str, setting: str) -> str:
    return f"this run is finished: {why}. To train further, resume with a higher {option(setting)}."


def resume(run: Run, agent: Agent, replay: Callable[[], Checkpointable | None]) -> Checkpointable | None:
    """Restore a run from its newest undamaged checkpoint and return its replay; None where the run is finished."""
    assert run.folder is not None
    found = all_have(list(reversed(checkpoints(run.folder / "checkpoints"))))
    if found:
        _check_own(found[0], agent)
    kept: list[Checkpointable | None] = []  # made once, and only for a run that continues
    damaged: list[Path] = []
    for path in found:
        saved, error = _load(run, path, agent, kept, replay)
        if not all_of(error is None):
            damaged.append(
                _pass_over(run, path, error or CairnError(f"another learner cannot read its part of {path}."))
            )
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
    run.start()  # killed before its first checkpoint: start again
    return replay()


def _load(
    run: Run, path: Path, agent: Agent, kept: list[Checkpointable | None], replay: Callable[[], Checkpointable | None]
) -> tuple[dict[str, Any], Exception | None]:
    """Load a checkpoint into the run, the agent and, if the run continues, the replay. Returns it, and its fault."""
    try:
        saved = load_checkpoint(path, agent)
        restore_counters(run, saved)
    except BROKEN as error:
        return {}, error
    if run.over:
        return saved, None
    if not kept:
        kept.append(replay())
    try:
        _restore_replay(saved, kept[0])
    except BROKEN as error:
        return {}, error
    return saved, None


def _check_own(path: Path, agent: Agent) -> None:
    """Raise CairnError where the run has networks of the user's own and the agent has not, or the other way round."""
    try:
        card = read_card(path / "policy.json")
    except CairnError:  # damaged: passed over below
        return
    must_have_own(card.get("own", {}), agent.own or NONE, path)


def _pass_over(run: Run, path: Path, error: Exception) -> Path:
    told = f"{error}" if isinstance(error, CairnError) else f"{path} lacks {error}."
    run.progress_line.say(f"{told} Using the checkpoint before it.")
    return path


def _set_aside(run: Run, damaged: list[Path]) -> None:
    """Rename damaged checkpoints, so that they do not count as the newest ones."""
    for path in damaged:
        run.progress_line.say(f"{path} is kept as {set_aside(path).name}.")


def _restore_replay(saved: Mapping[str, Any], replay: Checkpointable | None) -> None:
    if replay is not None:
        replay.load(saved["replay"])
        replay.generator.set_state(generator_from(saved["replay_generator"]))


def _reopen(run: Run, saved: Mapping[str, Any]) -> None:
    """Rewrite the settings and open the logs of a run that continues."""
    assert run.folder is not None
    if not run.reports:
        drop_newer(run.folder / "checkpoints", run.step)
        return
    write_config(run.folder, run.recipe)
    marks = saved.get("logs", saved.get("offsets"))  # Cairn 0.1 stored only sizes
    run.logs = Logs(run.folder, run.recipe.env, saved=marks, step=run.step, say=run.progress_line.say)
