"""Commands for tasks: `cairn doctor` examines one, `cairn new-env` writes one to start from."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tyro.conf import Positional

from cairn.cli.options import parse
from cairn.cli.paths import import_from_here, writable_folder
from cairn.cli.usage import Command
from cairn.core.checks import Episodes, EpisodeSeed, Positive
from cairn.core.errors import CairnError
from cairn.core.terminal import wrapped

if TYPE_CHECKING:
    from cairn.doctor import Finding


@dataclass(frozen=True)
class DoctorArgs:
    """Report what would keep an agent from learning a task, or which level of a hierarchy is at fault.

    The exit code is 1 if there is an error.
    """

    # Gymnasium id of a task, or module:id, or a saved policy: a run folder, a checkpoint or a zoo entry; default: the
    # recipe's task
    env: Positional[str] = ""
    recipe: str = ""  # recipe to examine with the task: discount, hindsight and arguments are checked too
    env_args: dict[str, Any] = field(default_factory=dict)  # keyword arguments of the environment, as JSON
    seconds: Positive = 60.0  # time limit of the examination in seconds
    episodes: Episodes = 20  # episodes to play with each pair of levels of a hierarchy
    seed: EpisodeSeed = 1000  # seed of the first of them; episode i uses seed + i
    trust: bool = False  # import the policy's task (module:id), and open the paths in its arguments
    json: bool = False  # print one JSON object instead of text


@dataclass(frozen=True)
class NewEnvArgs:
    """Write a task of your own to begin with, NAME.py, and its test, test_NAME.py. Nothing is overwritten."""

    name: Positional[str]  # name of the module, such as cart_swing; gives the class CartSwing and the id CartSwing-v0
    goal: bool = False  # write a task with goals, for hindsight (HER)
    out: Path = Path(".")  # folder to write the two files into


def command_doctor(args: list[str]) -> int:
    """Examine a task or a policy and print the findings; returns 1 if there is an error."""
    options = parse(DoctorArgs, args, prog="cairn doctor")
    if _is_policy(options.env):
        return _doctor_of_policy(options)
    import_from_here(task=options.env)
    from cairn.doctor import diagnose
    from cairn.envs.task import Task
    from cairn.recipes import find
    from cairn.report.video import prepare_headless

    prepare_headless()
    recipe = find(options.recipe) if options.recipe else None
    if recipe is None and not options.env:
        raise CairnError("name a task, such as `cairn doctor CartPole-v1`, or a recipe with --recipe.")
    if recipe is not None and options.env not in ("", recipe.env):
        raise CairnError(f"{recipe.name} is a recipe for {recipe.env}, not for {options.env}; leave out one of them.")
    task = recipe.task if recipe is not None else Task(options.env)
    task = replace(task, args={**task.args, **options.env_args})
    agent, hindsight = (recipe.agent, recipe.hindsight != "off") if recipe is not None else (None, False)
    begun = time.perf_counter()
    found = diagnose(task, agent, hindsight=hindsight, seconds=options.seconds)
    seconds = time.perf_counter() - begun
    return _tell(options, task.id, found, seconds, {"env": task.id, "findings": [asdict(f) for f in found]})


def _is_policy(name: str) -> bool:
    """Whether the argument is the path of a policy, not the id of a task."""
    return bool(name) and (name.startswith("zoo/") or Path(name).is_dir())


def _doctor_of_policy(options: DoctorArgs) -> int:
    """Examine the levels of a hierarchy, or the task of another policy with its agent."""
    if options.recipe or options.env_args:
        raise CairnError(f"{options.env} is a policy, which has its own task; leave out --recipe and --env-args.")
    import_from_here(trust=options.trust)
    from cairn.doctor import diagnose
    from cairn.report.video import prepare_headless
    from cairn.runs.checkpoint import load_policy

    prepare_headless()
    begun = time.perf_counter()
    saved = load_policy(Path(options.env), trust=options.trust)
    if not saved.agent.levels:
        found = diagnose(saved.task, saved.agent.cfg, seconds=options.seconds)
        body = {"env": saved.task.id, "findings": [asdict(f) for f in found]}
        return _tell(options, saved.task.id, found, time.perf_counter() - begun, body)
    from cairn.doctor.levels.examine import examine_levels

    levels = examine_levels(
        saved, Path(options.env), episodes=options.episodes, seed=options.seed, seconds=options.seconds
    )
    if not options.json:
        print(wrapped(f"{options.env} on {saved.task.id}"))
        print(levels)
    return _tell(options, options.env, levels.findings, time.perf_counter() - begun, levels.as_json())


def _tell(options: DoctorArgs, name: str, found: Sequence[Finding], seconds: float, body: dict[str, Any]) -> int:
    """Print the findings, or `body` as JSON with their numbers; returns 1 if one is an error."""
    count = {kind: sum(f.severity == kind for f in found) for kind in ("error", "warning", "hint")}
    if options.json:
        print(json.dumps({"env": body["env"], "seconds": round(seconds, 1), **count, **body}))
    else:
        for finding in found:
            print(wrapped(str(finding), "    "))
        said = ", ".join(f"{n} {kind}{'s' * (n != 1)}" for kind, n in count.items() if n) or "nothing found"
        print(wrapped(f"{name}: {said} ({seconds:.0f} s)."))
    return int(count["error"] > 0)


def command_new_env(args: list[str]) -> int:
    """Write a new environment and its test; returns the exit code."""
    options = parse(NewEnvArgs, args, prog="cairn new-env")
    from cairn.envs.template import write

    task, paths = write(options.name, writable_folder(options.out, "--out"), goal=options.goal)
    more = " --hindsight future --metric success --agent.gamma 0.95" if options.goal else ""
    print(wrapped(f"Wrote {paths[0]}, the task {task}, and {paths[1]}, its test. In that folder:"))
    print(f"  python -m pytest {paths[1].name}")
    print(f"  cairn doctor {task}")
    print(f"  cairn train --env {task} --agent sac{more} --steps 20000")
    return 0


COMMANDS: Mapping[str, Command] = {"doctor": command_doctor, "new-env": command_new_env}
