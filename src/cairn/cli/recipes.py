"""Finds the recipe a command means: by name, from a file, from --env and --agent, or that of a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from cairn.cli.options import Field, asks_for_help, is_config, parse_changes, peek, read
from cairn.core.errors import CairnError
from cairn.core.sb3_names import written
from cairn.recipes.index import entries

if TYPE_CHECKING:
    from cairn.recipes.recipe import Recipe


@dataclass(frozen=True)
class Which:
    """Options that say which recipe or run is meant. They are read before the recipe, and its options, are known."""

    env: str = ""  # Gymnasium id of the task, or module:id; without a recipe, give --agent too
    agent: str = ""  # algorithm to train without a recipe, such as ppo or sac
    seed: int | None = None  # random seed of the run; default: the recipe's (SB3: seed)


def named(words: Sequence[str]) -> str | None:
    """The recipe, file or run that the words begin with; None if they begin with an option."""
    return words[0] if words and not words[0].startswith("-") else None


def base_recipe(words: list[str], *, trust: bool, command: str = "train") -> tuple[Recipe, list[str]]:
    """The recipe, and the remaining words: options that change it. Raises CairnError where there is none."""
    from cairn.recipes import find

    name = named(words)
    if name is None:
        return _without_a_name(words, command)
    if name.endswith(".json"):
        from cairn.runs.config import read_recipe

        return read_recipe(Path(name), trust=trust), words[1:]
    return find(name), words[1:]


def _without_a_name(words: list[str], command: str) -> tuple[Recipe, list[str]]:
    """A recipe from --env, --agent and, for an agent with learners, their algorithms: --agent.low td3."""
    which = peek(Which, words)
    if not which.env or not which.agent:
        shipped = next((word for word in words if word in entries()), None)
        if shipped is not None:
            raise CairnError(f"name the recipe first: cairn {command} {shipped} [options].")
        if which.env and not which.agent:
            raise CairnError(
                f"--env needs an agent: write cairn {command} --env {which.env} --agent ppo, or another agent of"
                " `cairn train --help`."
            )
        raise CairnError(
            "name a recipe, such as `cairn train cartpole-ppo`, or give both --env and --agent; see `cairn list`."
        )
    from cairn.algorithms.registry import config_type
    from cairn.recipes.recipe import Recipe

    cfg = config_type(which.agent)()
    parts = [Field(("agent", f.name), str) for f in fields(cfg) if is_config(getattr(cfg, f.name))]
    found, rest = read(words, [Field(("env",), str), Field(("agent",), str), *parts])
    learners = {path[1]: _learner(cfg, path[1], kind) for path, kind in found.items() if len(path) > 1}
    name = f"{which.agent}-{which.env.replace('/', '-')}"
    return Recipe(env=which.env, agent=replace(cfg, **learners), steps=100_000, name=name), rest


def agents() -> list[str]:
    """The possible values of --agent."""
    from cairn.algorithms.registry import names

    return names()


def _learner(cfg: Any, part: str, kind: str) -> Any:
    """The default config of a learner that is part of an agent."""
    from cairn.algorithms.registry import ALGORITHMS, config_type

    hint = get_type_hints(type(cfg))[part]
    allowed = [name for name, one in ALGORITHMS.items() if one.config in (get_args(hint) or (hint,))]
    if config_type(kind) not in [ALGORITHMS[name].config for name in allowed]:
        raise CairnError(f"agent.{part} cannot be {kind}; it can be {' or '.join(allowed)}.")
    return config_type(kind)()


def changed(
    base: Recipe,
    words: list[str],
    *,
    command: str,
    beside: type[Any],
    refused: Mapping[str, str] | None = None,
) -> Recipe:
    """The recipe changed by the options. See `parse_changes` for `beside` and `refused`."""
    refused = dict(refused or {})
    refused["--agent"] = (
        f"the agent of a recipe cannot be replaced; without a recipe write cairn {command} --env ENV --agent sac."
    )

    def elsewhere(setting: str) -> str:
        return _of_other_agents(base, setting, command)

    prog = _trains(base, command)
    recipe, given = parse_changes(base, words, prog=prog, beside=beside, refused=refused, elsewhere=elsewhere)
    from cairn.recipes.recipe import on_its_task

    recipe, said = on_its_task(recipe, base, given)
    if said:
        from cairn.runs.parts import check as check_recipe_can_train

        check_recipe_can_train(recipe)  # errors come before the message
        print(f"cairn: {said}", file=sys.stderr)
    return recipe


def _trains(base: Recipe, command: str) -> str:
    """The command that trains this recipe, without its options."""
    from cairn.algorithms.registry import agent_name

    known = base.name in entries()
    return f"cairn {command} {base.name if known else f'--env {base.env} --agent {agent_name(base.agent)}'}"


def _of_other_agents(base: Recipe, setting: str, command: str) -> str:
    """A sentence with the algorithms that have a setting, and a recipe of one; "" if none has it."""
    from cairn.algorithms.registry import agent_name, owners

    found, kind = owners(setting), agent_name(base.agent)
    if not found:
        return ""
    shipped = next((name for name, entry in entries().items() if entry.agent == found[0]), "")
    flag = f"--agent.{setting.replace('_', '-')}"
    example = f"; for {found[0]} write cairn {command} {shipped} {written(flag)}" if shipped else ""
    this = base.name if base.name in entries() else "this run"
    return f"{flag} is an option of {', '.join(found)}, and {this} trains {kind}{example}."


# -- of a run


def to_start(words: list[str], *, trust: bool) -> tuple[Recipe, list[str]]:
    """The recipe of a new run, and the remaining options."""
    name = named(words)
    if name is not None and os.path.isdir(name):
        from cairn.runs.folder import is_run

        if is_run(Path(name)):
            raise CairnError(f"{name} is the folder of a run; `cairn train {name} --resume` continues it.")
    return base_recipe(words, trust=trust)


def to_resume(words: list[str], folder: Path | None, *, trust: bool) -> tuple[Recipe, list[str], Path]:
    """The recipe of the run to resume, the remaining options, and its folder.

    The run is named by its folder, as RUN or --out RUN, or by its recipe: then it is the newest of that name and seed.
    """
    name, which = named(words) or "", peek(Which, words)
    is_path = bool(name) and name not in entries() and not name.endswith(".json")
    if is_path and Path(name).is_dir():
        if folder is not None:
            raise CairnError(f"{name} and --out both name a run to resume; leave one out.")
        return _of_run(Path(name), which, trust=trust), words[1:], Path(name)
    if folder is not None and not name and not which.agent:
        return _of_run(folder, which, trust=trust), words, folder
    if not name and not which.agent and not asks_for_help(words):
        raise CairnError("name the run to resume: `cairn train RUN --resume`, where RUN is its folder.")
    if is_path and os.path.basename(name) != name:
        raise CairnError(f"there is no run folder {name} to resume.")
    base, rest = base_recipe(words, trust=trust)
    folder = folder or _newest(base, base.seed if which.seed is None else which.seed)
    from cairn.runs.config import read_to_resume

    return read_to_resume(folder, base, entries(), trust=trust), rest, folder


def _of_run(folder: Path, which: Which, *, trust: bool) -> Recipe:
    """The recipe of a run. Raises CairnError where the options ask for another environment."""
    from cairn.runs.config import read_recipe

    stored = read_recipe(folder, trust=trust)
    if which.env not in ("", stored.env):
        raise CairnError(
            f"the run in {folder} is on {stored.env}, and the environment of a run cannot change; leave out --env, or"
            " start a new run."
        )
    return stored


def _newest(base: Recipe, seed: int) -> Path:
    from cairn.runs.folder import folders_of
    from cairn.runs.locate import RUNS

    found = folders_of(RUNS, base.name, seed)
    if not found:
        raise CairnError(
            f"there is no run of {base.name} to resume under runs/ with seed {seed}; start it without --resume."
        )
    return found[-1]
