"""`cairn train`: one run of a recipe, new or resumed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cairn.cli.options import asks_for_help, parse_known, peek
from cairn.cli.paths import import_from_here
from cairn.cli.recipes import Which, agents, changed, named, to_resume, to_start
from cairn.cli.usage import Command, lines_of
from cairn.core.terminal import columns, wrapped

if TYPE_CHECKING:
    from cairn.runs.train import Outcome


@dataclass(frozen=True)
class TrainOptions:
    """Train a recipe, or an agent on any Gymnasium task."""

    out: str = ""  # folder of the run; default: runs/NAME-sSEED
    record: str = ""  # folder to write the result into, as RECIPE-sSEED.json
    resume: bool = False  # continue a run: that of the folder named, or the newest of the recipe and seed
    trust: bool = False  # allow files to name code: import their task (module:id), open paths in its arguments


def command_train(args: list[str]) -> int:
    """Train a recipe, or resume a run; returns the exit code."""
    options, words = parse_known(TrainOptions, args)
    which = peek(Which, words)
    if asks_for_help(words) and named(words) is None and not (which.env and which.agent):
        _help()
    import_from_here(trust=options.trust, task=which.env)
    folder = _folder(options.out) if options.out else None
    if options.resume:
        base, words, folder = to_resume(words, folder, trust=options.trust)
    else:
        base, words = to_start(words, trust=options.trust)
    recipe = changed(base, words, command="train", beside=TrainOptions)

    from cairn.cli.results import must_be_recordable, scored
    from cairn.doctor.watchers import watching
    from cairn.report.video import prepare_headless
    from cairn.runs.folder import check_name, is_run, new_folder, run_folder
    from cairn.runs.locate import RUNS
    from cairn.runs.train import train

    prepare_headless()
    if folder is None:
        name = recipe.name if recipe.name == base.name else check_name(recipe.name)
        folder = new_folder(RUNS, name, recipe.seed)
        first = run_folder(RUNS, name, recipe.seed)
        if folder != first and is_run(first):
            note = f"cairn: {first} holds a run already; this one is written to {folder}."
            print(wrapped(note, "  ", width=columns(sys.stderr)), file=sys.stderr)
    if options.record:
        must_be_recordable(recipe, Path(options.record))  # fail now, not after hours of training
    outcome = train(recipe, folder, resume=options.resume, watch=watching)
    if outcome.interrupted:
        print(wrapped(f"{outcome.interrupted} at step {outcome.step:,}: {_how_to_go_on(outcome, folder)}.", "  "))
        return {"SIGINT": 130, "SIGTERM": 143}[outcome.interrupted]
    speed = outcome.step / max(outcome.seconds, 1e-9)
    taken = f"{outcome.step:,} steps in {outcome.seconds:.0f} s ({speed:,.0f}/s)"
    print(wrapped(f"{folder}: {taken}, last evaluation {outcome.score}.", "  "))
    if recipe.target is not None:
        verdict = "holds" if outcome.solved else "reached" if outcome.best >= recipe.target else "NOT reached"
        print(f"target {recipe.target:g}: {verdict} (best evaluation {outcome.best:.2f}).")
    if options.record:
        record = Path(options.record)
        saved, score = scored(folder, recipe.result_episodes, record=record, device=recipe.device, trust=True)
        print(wrapped(f"{saved.task.id}: {score}; recorded in {record}.", "  "))
    return 0


def _folder(out: str) -> Path:
    from cairn.runs.folder import run_path

    return run_path(out)


def _help() -> None:
    """Print the help for `cairn train` without a recipe: its own options, and what can be trained."""
    from cairn.cli.help import show
    from cairn.recipes.index import entries

    print(f"{lines_of('train')}\n")
    after = f"agents: {', '.join(agents())}\nrecipes: {', '.join(entries())}\n"
    after += "`cairn train NAME --help` shows every option of a recipe and its agent with its default;"
    after += " without a recipe, `cairn train --env ENV --agent sac --help` does."
    show(Which, TrainOptions, prog="cairn train NAME", after=after)


def _how_to_go_on(outcome: Outcome, folder: Path) -> str:
    """What was saved of an interrupted run, and what --resume does."""
    if outcome.saved:
        return f"saved in {folder}; continue it with --resume"
    if outcome.checkpoint is not None:
        return (
            f"this step was not saved; the last checkpoint is {outcome.checkpoint}, and --resume continues from there"
        )
    return f"there is no checkpoint yet; with --resume the run in {folder} starts from step 0"


COMMANDS: Mapping[str, Command] = {"train": command_train}
