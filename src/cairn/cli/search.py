"""Commands that train a recipe many times: `cairn sweep` over seeds, `cairn tune` over settings."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from cairn.cli.options import asks_for_help, parse_known, peek
from cairn.cli.paths import import_from_here
from cairn.cli.recipes import Which, base_recipe, changed, named
from cairn.cli.usage import Command, lines_of
from cairn.core.checks import Count, Natural
from cairn.core.errors import CairnError
from cairn.core.terminal import wrapped

if TYPE_CHECKING:
    from cairn.recipes.recipe import Recipe

T = TypeVar("T")
MOST_SEEDS = 1_000
ITS_OWN_SEEDS = (
    "a sweep sets the seeds (--seeds 5: seeds 1 to 5) and resumes unfinished runs; leave out --seed and --resume."
)


@dataclass(frozen=True)
class SweepOptions:
    """Train several seeds of a recipe and score the best policy of each. Interrupted runs are resumed."""

    seeds: str = "5"  # seeds: 5 is 1 to 5; 101-108 is 101 to 108; 1,2,7 are these three
    jobs: Count = 1  # trainings that run at the same time on this machine
    together: bool = False  # train all seeds in one process; on a GPU their updates are computed together
    on: str = ""  # train on a Ray cluster: ray (on this machine), auto, HOST:6379 or ray://HOST:10001
    cpus: Count = 1  # cores of each training, with --on
    gpus: Natural = 0  # GPUs of each training, with --on
    episodes: Count = 100  # evaluation episodes of each best policy
    out: str = ""  # folder of the runs; default: runs/sweep-NAME
    trust: bool = False  # allow files to name code: import their task (module:id), open paths in its arguments


@dataclass(frozen=True)
class TuneOptions:
    """Search for better agent settings of a recipe with Optuna; the best are written to a recipe file."""

    trials: Count = 20  # number of settings to try, the recipe's own included
    jobs: Count = 1  # trainings that run at the same time
    on: str = ""  # train on a Ray cluster: ray (on this machine), auto, HOST:6379 or ray://HOST:10001
    cpus: Count = 1  # cores of each training, with --on
    gpus: Natural = 0  # GPUs of each training, with --on
    vary: str = ""  # agent settings to vary, separated by commas, such as lr,gamma; default: the usual ones
    out: str = ""  # folder of the trials; default: runs/tune-NAME
    trust: bool = False  # allow files to name code: import their task (module:id), open paths in its arguments


def command_sweep(args: list[str]) -> int:
    """Train several seeds and print a summary; returns 1 if one failed."""
    options, words = _own(SweepOptions, args, "sweep")
    import_from_here(trust=options.trust)
    base, changes = base_recipe(words, trust=options.trust)
    refused = {"--seed": ITS_OWN_SEEDS, "--resume": ITS_OWN_SEEDS}
    recipe = changed(base, changes, command="sweep", beside=SweepOptions, refused=refused)

    from cairn.runs.parts import check as check_recipe_can_train
    from cairn.runs.policy_card import runs_code
    from cairn.search.places import must_name_a_place, place
    from cairn.search.sweep import sweep, table, unscored

    check_recipe_can_train(recipe)  # report mistakes before anything starts
    must_name_a_place(options.on)
    if options.together and options.on:
        raise CairnError("--together trains all seeds in this process, and --on sends each elsewhere; leave one out.")
    seeds, folder = _seeds(options.seeds), _folder(options.out, f"sweep-{base.name}")
    if options.together and (left := unscored(folder, seeds)):
        from cairn.runs.together import must_go_together

        must_go_together(recipe, len(left))
    size = {"jobs": options.jobs, "trials": len(seeds), "cpus": options.cpus, "gpus": options.gpus}
    trials = sweep(
        words[0],
        changes,
        seeds,
        folder,
        place=lambda: place(options.on, folder, **size),
        episodes=options.episodes,
        trust=options.trust or runs_code(recipe.judged_task),  # the user typed the task
        together=functools.partial(_train_together, recipe) if options.together else None,
    )
    print(table(trials))
    return int(any(trial.fault for trial in trials))


def _train_together(recipe: Recipe, folders: Mapping[int, Path]) -> dict[int, str]:
    """Train or resume these seeds in this process; the reasons of those that failed."""
    from cairn.doctor.watchers import watching
    from cairn.runs.together import Seed, train_together

    seeds = [Seed(replace(recipe, seed=n), path, (path / "config.json").exists()) for n, path in folders.items()]
    faults = {}
    for seed, outcome in zip(folders, train_together(seeds, watch=watching), strict=True):
        if isinstance(outcome, CairnError):
            faults[seed] = f"cairn: {outcome}"
        elif isinstance(outcome, Exception):
            raise outcome
        elif outcome.interrupted:
            faults[seed] = f"{outcome.interrupted} at step {outcome.step:,}; the same command continues it"
    return faults


def command_tune(args: list[str]) -> int:
    """Search for better settings and print the best; returns the exit code."""
    options, words = _own(TuneOptions, args, "tune")
    import_from_here(trust=options.trust)
    base, changes = base_recipe(words, trust=options.trust)
    recipe = changed(base, changes, command="tune", beside=TuneOptions)
    names = [
        name.strip().removeprefix("--").removeprefix("agent.").replace("-", "_") for name in options.vary.split(",")
    ]
    if options.vary and not all(names):
        raise CairnError(f"--vary is {options.vary}; it must be names of agent settings, such as lr,gamma.")

    from cairn.search.places import must_name_a_place, place
    from cairn.search.tune import table, tune

    must_name_a_place(options.on)
    folder = _folder(options.out, f"tune-{base.name}")
    varied = names if options.vary else []
    size = {"jobs": options.jobs, "trials": options.jobs, "cpus": options.cpus, "gpus": options.gpus}
    where = lambda: place(options.on, folder, **size)  # noqa: E731
    study = tune(recipe, varied, folder, trials=options.trials, jobs=options.jobs, place=where, seed=recipe.seed)
    print(table(study, recipe))
    print(wrapped(f"The best settings are a recipe: cairn train {folder / 'best.json'}", "  "))
    return 0


def _seeds(text: str) -> list[int]:
    """The seeds that `--seeds` names. Raises CairnError for anything else."""
    found: list[int] = []
    for part in text.replace(" ", "").split(","):
        low, dash, high = part.partition("-")
        if not low.isdecimal() or bool(dash) != high.isdecimal() or max(len(low), len(high)) > 9:
            raise CairnError(f"--seeds is {text}; write a number of seeds, 101-108, or seeds such as 1,2,7.")
        alone = not dash and "," not in text
        found += range(1, int(low) + 1) if alone else range(int(low), int(high or low) + 1)
    if not found or len(set(found)) < len(found) or len(found) > MOST_SEEDS:
        raise CairnError(f"--seeds is {text}; it must name 1 to {MOST_SEEDS:,} seeds, each once.")
    return found


def _own(cls: type[T], args: list[str], command: str) -> tuple[T, list[str]]:
    """The command's own options, and the remaining words: a recipe and the options that change it."""
    options, words = parse_known(cls, args)
    if asks_for_help(words):
        from cairn.cli.help import show

        print(f"{lines_of(command)}\n")
        show(cls, prog=f"cairn {command} NAME", after="`cairn train NAME --help` shows the options of train.")
    if named(words) is None:
        raise CairnError(
            f"name a recipe to {command}, such as `cairn {command} cartpole-ppo`; `cairn list` shows them."
        )
    import_from_here(task=peek(Which, words).env)
    return options, words


def _folder(out: str, name: str) -> Path:
    from cairn.runs.folder import folder_name, run_path
    from cairn.runs.locate import RUNS

    return run_path(out) if out else RUNS / folder_name(name)


COMMANDS: Mapping[str, Command] = {"sweep": command_sweep, "tune": command_tune}
