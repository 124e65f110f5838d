"""The command line, generated from the typed recipes. A user's mistake is one sentence and exit code 2."""

from __future__ import annotations

import codecs
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_type_hints

import tyro

from cairn.cli.options import PARTS, parse, switch, value_of, writable_file, writable_folder
from cairn.cli.options import take as _take
from cairn.core.calls import commands
from cairn.core.checks import Count, Envs, Episodes, EpisodeSeed, Natural, Parallel, Positive, check
from cairn.core.device import resolve_device
from cairn.core.errors import CairnError, closest
from cairn.core.untrusted import MODULE_ID, printable

if TYPE_CHECKING:
    from cairn.runs.checkpoint import Saved
    from cairn.runs.evaluation import Score
    from cairn.runs.train import Outcome

USAGE = """cairn: reinforcement learning for tasks whose reward is far away

  cairn train NAME [--seed 3] [--steps N] [--agent.gamma 0.95] [--out FOLDER] [--record results]
  cairn train RUN --resume [--steps N]     continue the run of a folder
  cairn train --env ENV --agent sac [options]     any Gymnasium id, without a recipe
  cairn train FILE.json [--trust] [options]     a recipe in a file: a run's config.json, what tune found, your own
  cairn eval PATH [--episodes 100] [--seed 1000] [--json] [--record results]
  cairn watch PATH [--out video.mp4 | plan.png] [--episodes 1]
  cairn report RUN... [-o page.html]     curves, evaluations, settings, findings and films of runs, as one page
  cairn report RUN... --live [--port 8000]     the same of runs in progress, served to this machine alone
  cairn list [--json]
  cairn results [--folder results] [--json]     what recorded results say of each recipe, over its seeds
  cairn import FILE.zip [--normalizer FILE.pkl] [--env ENV] --out FOLDER     a policy of Stable-Baselines3
  cairn export PATH --out FOLDER [--half]     a policy by itself, to keep or to give away
  cairn demos PATH --out FILE.npz [--episodes 20]     record a policy, to be learned from with --demos FILE.npz
  cairn doctor ENV [--recipe NAME] [--seconds 60] [--json]     why a task does not learn
  cairn new-env NAME [--goal] [--out FOLDER]     a task of your own to begin with, and its test
  cairn bench vector ENV [--envs 1 4 16 64]     how fast each backend steps a task here
  cairn bench peers [--tasks cartpole-ppo] [--yes]     Cairn beside SB3, SBX, Tianshou and RLlib; from a checkout
  cairn sweep NAME [--seeds 5] [--jobs 2] [options of train]     several seeds, and what they say together
  cairn tune NAME [--trials 20] [--jobs 2] [--vary lr,gamma] [options of train]     look for better settings

`cairn COMMAND --help` shows every option. PATH is a run folder, a checkpoint or a zoo entry.
Nothing that a file names is imported: for a policy or a recipe whose task is module:id, say --trust."""


@dataclass(frozen=True)
class EvalArgs:
    """Score a policy on fresh seeds."""

    path: tyro.conf.Positional[Path]  # a run folder, a checkpoint or a zoo entry
    episodes: Episodes = 100
    seed: EpisodeSeed = 1000  # the first episode's; the next ones count up
    json: bool = False  # print one JSON object
    record: Path | None = None  # a folder to write the result into, as RECIPE-sSEED.json
    stochastic: bool = False  # sample actions instead of taking the likeliest
    device: str = "cpu"  # auto: a GPU, where there is one
    trust: bool = False  # import the module that the policy names its task by (module:id), and open the paths it gives


@dataclass(frozen=True)
class WatchArgs:
    """Film a policy, or draw what it did from above."""

    path: tyro.conf.Positional[Path]
    out: Path = Path("video.mp4")  # a .png, .svg or .pdf gets the plan: paths, subgoals and goals from above
    episodes: Episodes = 1
    seed: EpisodeSeed = 1000  # the first episode's; the next ones count up
    trust: bool = False  # import the module that the policy names its task by (module:id), and open the paths it gives


@dataclass(frozen=True)
class ReportArgs:
    """Make one page of runs: curves over seeds, evaluations, what differs, what watchers said, pictures and films."""

    runs: tyro.conf.Positional[tuple[Path, ...]]  # run folders, or folders of them, as a sweep's
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("report.html")  # the page to write
    episodes: Natural = 3  # played by each best policy, to be seen from above; 0 plays none and only reads files
    live: bool = False  # serve the page on this machine instead, for runs in progress
    port: Natural = 8000  # of the live page; 0 is any that is free
    every: Count = 10  # seconds until a live page is made anew
    trust: bool = False  # import the module that the policy names its task by (module:id), and open the paths it gives


@dataclass(frozen=True)
class ListArgs:
    """Show the recipes."""

    json: bool = False


@dataclass(frozen=True)
class ResultsArgs:
    """Show what recorded results say: interquartile mean over seeds, its interval or range, beside the target."""

    folder: Path = Path("results")
    json: bool = False


@dataclass(frozen=True)
class ImportArgs:
    """Turn a policy of Stable-Baselines3 into one of Cairn's, without running anything in its file."""

    path: tyro.conf.Positional[Path]  # the zip: ppo, a2c, sac, td3, ddpg or dqn, with an MLP
    out: Path  # the folder to write
    normalizer: Path | None = None  # the file of its VecNormalize, where it had one
    env: str | None = None  # the task; else as the file is named: ppo-CartPole-v1.zip
    env_args: dict[str, Any] = field(default_factory=dict)  # arguments of the task


@dataclass(frozen=True)
class ExportArgs:
    """Write the policy of a run as a folder of its own."""

    path: tyro.conf.Positional[Path]  # a run folder, a checkpoint or a zoo entry
    out: Path  # the folder to write
    half: bool = False  # in half precision: half the size


@dataclass(frozen=True)
class DemosArgs:
    """Record a policy's episodes as demonstrations."""

    path: tyro.conf.Positional[Path]  # a run folder, a checkpoint or a zoo entry
    out: Path  # the file to write, a NumPy archive (.npz)
    episodes: Episodes = 20
    seed: EpisodeSeed = 2000  # the first episode's; the next ones count up
    trust: bool = False  # import the module that the policy names its task by (module:id), and open the paths it gives


@dataclass(frozen=True)
class BenchArgs:
    """Measure how fast each backend steps a task here, under random actions."""

    what: tyro.conf.Positional[Literal["vector"]]
    env: tyro.conf.Positional[str]  # a Gymnasium id
    envs: tuple[Envs, ...] = (1, 4, 16, 64)  # environments stepped together
    workers: Parallel = 0  # processes or threads; 0 is one a core
    seconds: Positive = 1.0  # each measurement
    env_args: dict[str, Any] = field(default_factory=dict)
    json: bool = False


@dataclass(frozen=True)
class DoctorArgs:
    """Examine a task: what would keep an agent from learning it. Exits with 1 where it finds an error."""

    env: tyro.conf.Positional[str] = ""  # a Gymnasium id, or module:id; else the recipe's
    recipe: str = ""  # the recipe that is to learn it: its discount, hindsight and arguments are judged too
    env_args: dict[str, Any] = field(default_factory=dict)  # arguments of the task
    seconds: Positive = 60.0  # the most it may take
    json: bool = False  # print one JSON object


@dataclass(frozen=True)
class NewEnvArgs:
    """Write a task of your own to begin with, NAME.py, and its test, test_NAME.py. Nothing is overwritten."""

    name: tyro.conf.Positional[str]  # of the module; the class and the id follow from it: cart_swing, CartSwing-v0
    goal: bool = False  # a task with goals, as hindsight wants it
    out: Path = Path(".")  # the folder to write them into


@commands()
def main(argv: Sequence[str] | None = None) -> None:
    """The `cairn` command. Exits 0, 1 (a run that failed, a task with errors), 2 (a mistake), 130 or 143 (signals)."""
    args = list(sys.argv[1:] if argv is None else argv)
    _print_anything()
    if not args or args[0] in ("-h", "--help", "help"):
        print(USAGE)
        raise SystemExit(0 if args else 2)
    if args[0] in ("-V", "--version"):
        from cairn import __version__

        print(f"cairn {__version__}")
        return
    try:
        if switch(args, "--trust")[0] or _names_a_module(args):
            if os.getcwd() not in sys.path:
                sys.path.append(os.getcwd())  # the module may lie in this folder; last, so that it hides none
        if args[0] not in COMMANDS:
            raise CairnError(f"there is no command {args[0]!r}.{closest(args[0], COMMANDS)} Try cairn --help.")
        code = COMMANDS[args[0]](args[1:])
    except CairnError as error:
        print(f"cairn: {printable(error)}", file=sys.stderr)  # it may quote a file
        raise SystemExit(error.exit_code) from None
    except BrokenPipeError:  # whoever read us has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(141) from None
    except OSError as error:
        print(f"cairn: {error.filename or 'a file'}: {error.strerror or error}.", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("cairn: interrupted.", file=sys.stderr)
        raise SystemExit(130) from None
    raise SystemExit(code)


def _names_a_module(args: list[str]) -> bool:
    """Whether the user names a task as module:id, by --env or where a command takes a task."""
    words = args[1:] if args[0] in ("doctor", "bench") else []
    words = words + [after for word, after in pairwise(args) if word == "--env"]
    words += [word.removeprefix("--env=") for word in args if word.startswith("--env=")]
    return any(MODULE_ID.fullmatch(word) for word in words)


ASCII = {"±": "+/-", "γ": "gamma", "≤": "<=", "≥": ">=", "·": "*", "×": "x", "–": "-", "—": "-", "“": '"', "”": '"'}


def _print_anything() -> None:
    """A character that the terminal's encoding lacks is written in ASCII, or as ?, instead of ending the command."""
    codecs.register_error(
        "cairn",
        lambda e: ("".join(ASCII.get(c, "?") for c in e.object[e.start : e.end]), e.end),  # type: ignore
    )
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="cairn")


def command_train(args: list[str]) -> int:
    from cairn.doctor.watchers import watching
    from cairn.evidence.table import recordable
    from cairn.report.video import prepare_headless
    from cairn.runs.folder import check_name, new_folder, run_path
    from cairn.runs.train import train

    prepare_headless()
    out, args = _take(args, "--out")
    results, args = _take(args, "--record")
    resume, args = switch(args, "--resume")
    trust, args = switch(args, "--trust")
    folder = None if out is None else run_path(out)
    if resume:
        base, rest, folder = _to_resume(args, folder, trust=trust)
    else:
        base, rest = _to_start(args, trust=trust)
    recipe = _asked(base, rest, "train")
    if folder is None:
        name = recipe.name if recipe.name == base.name else check_name(recipe.name)
        folder = new_folder(Path("runs"), name, recipe.seed)
    if results:
        recordable(recipe.name, recipe.judged_task)  # or hours later there would be none
        writable_folder(Path(results), "--record")
    outcome = train(recipe, folder, resume=resume, watch=watching)
    if outcome.interrupted:
        print(f"{outcome.interrupted} at step {outcome.step:,}: {_how_to_go_on(outcome, folder)}.")
        return {"SIGINT": 130, "SIGTERM": 143}[outcome.interrupted]
    speed = outcome.step / max(outcome.seconds, 1e-9)
    taken = f"{outcome.step:,} steps in {outcome.seconds:.0f} s ({speed:,.0f}/s)"
    print(f"{folder}: {taken}, last evaluation {outcome.score}.")
    if recipe.target is not None:
        verdict = "holds" if outcome.solved else "reached" if outcome.best >= recipe.target else "NOT reached"
        print(f"target {recipe.target:g}: {verdict} (best evaluation {outcome.best:.2f}).")
    if results:
        options = EvalArgs(folder, recipe.result_episodes, record=Path(results), device=recipe.device, trust=True)
        saved, score = _scored(options)
        print(f"{saved.task.id}: {score}; recorded in {results}.")
    return 0


def _how_to_go_on(outcome: Outcome, folder: Path) -> str:
    """What an interrupted run left, and what --resume makes of it."""
    if outcome.saved:
        return f"saved in {folder}; continue it with --resume"
    if outcome.checkpoint is not None:
        return (
            f"this step was not saved; the last checkpoint is {outcome.checkpoint}, and --resume continues from there"
        )
    return f"there is no checkpoint yet; with --resume the run in {folder} starts from step 0"


def _asked(base: Any, options: list[str], command: str) -> Any:
    """The recipe with what the options change of it."""
    from cairn.recipes.recipe import on_its_task
    from cairn.runs.train import check as check_recipe_can_train

    recipe = parse(type(base), options, default=base, prog=f"cairn {command} {base.name}")
    given = [word.split("=")[0].removeprefix("--") for word in options]
    recipe, said = on_its_task(recipe, base, given)
    if said:
        check_recipe_can_train(recipe)  # or a refusal would follow upon it
        print(f"cairn: {said}", file=sys.stderr)
    return recipe


def command_eval(args: list[str]) -> int:
    from cairn.report.video import prepare_headless

    prepare_headless()
    options = parse(EvalArgs, args, prog="cairn eval")
    if options.record is not None:
        writable_folder(options.record, "--record")
    saved, score = _scored(replace(options, device=resolve_device(options.device)))
    if options.json:
        body = {k: v for k, v in asdict(score).items() if k not in ("returns", "lengths", "successes")}
        print(json.dumps({**body, "env": saved.task.id, "seed": options.seed, "path": str(options.path)}))
    else:
        print(f"{saved.task.id}: {score}.")
    return 0


def _scored(options: EvalArgs) -> tuple[Saved, Score]:
    """A policy, and how it plays; recorded where that is asked for."""
    from cairn.evidence.table import record
    from cairn.runs.checkpoint import load_policy
    from cairn.runs.evaluation import as_policy, evaluate
    from cairn.vector.choose import scoring_vector

    saved = load_policy(options.path, device=options.device, seed=options.seed, trust=options.trust)
    envs = scoring_vector(saved.task.for_scoring(), options.episodes)
    try:
        policy = as_policy(saved.agent, explore=options.stochastic, device=options.device)
        seeds, longest = range(options.seed, options.seed + options.episodes), saved.task.for_scoring().longest
        score = evaluate(policy, envs, seeds, longest=longest)
    finally:
        envs.close()
    assert score is not None  # nobody stops it
    if options.record is not None:
        record(options.record, saved, score, options.seed, _run_of(options.path))
    return saved, score


def _run_of(path: Path) -> Path | None:
    """The run folder that a policy lies in; None for one by itself."""
    return next((folder for folder in (path, path.parent) if (folder / "metrics.csv").is_file()), None)


def _episodes(count: int) -> str:
    return f"{count} episode{'s' * (count != 1)}"


def command_watch(args: list[str]) -> int:
    from cairn.report import plan, video
    from cairn.runs.checkpoint import load_policy
    from cairn.runs.evaluation import as_policy

    video.prepare_headless()
    options = parse(WatchArgs, args, prog="cairn watch")
    drawn = options.out.suffix.lower() in plan.KINDS
    (plan if drawn else video).needs(options.out)
    _new_file(options.out)
    saved = load_policy(options.path, trust=options.trust)
    show = plan.draw if drawn else video.record
    played = show(
        as_policy(saved.agent), saved.task.for_scoring(), options.out, episodes=options.episodes, seed=options.seed
    )
    returns = ", ".join(f"{e.total:.1f}" for e in played)
    told = [e.success for e in played if e.success is not None]
    verdict = f", {sum(told)} of {len(told)} succeeded" if told else ""
    print(f"{options.out}: {_episodes(len(played))} of {saved.task.id}, returns {returns}{verdict}.")
    return 0


def command_report(args: list[str]) -> int:
    from cairn.report.live import serve
    from cairn.report.page import write
    from cairn.report.video import prepare_headless

    options = parse(ReportArgs, args, prog="cairn report")
    if not options.runs:
        raise CairnError("name at least one run folder.")
    if options.live:
        serve(options.runs, port=options.port, refresh=options.every)
        return 0
    if options.out.suffix.lower() not in (".html", ".htm"):
        raise CairnError(f"the report is a page of HTML, and {options.out} does not end in .html; name it so.")
    _new_file(options.out)
    prepare_headless()
    report = write(options.runs, options.out, episodes=options.episodes, results=Path("results"), trust=options.trust)
    for fault in report.faults:
        print(f"cairn: {fault}", file=sys.stderr)
    runs, kinds, size = len(report.runs), len(report.groups), options.out.stat().st_size / 1e6
    print(f"{options.out}: {runs} run{'s' * (runs > 1)} of {kinds} configuration{'s' * (kinds > 1)}, {size:.1f} MB.")
    return 0


def command_list(args: list[str]) -> int:
    from cairn.evidence.recorded import recipe_rows, text_table

    options = parse(ListArgs, args, prog="cairn list")
    rows = recipe_rows(Path("results"))
    print(json.dumps(rows, indent=2) if options.json else text_table(rows))
    return 0


def command_results(args: list[str]) -> int:
    from cairn.evidence.recorded import text_table
    from cairn.evidence.table import result_rows

    options = parse(ResultsArgs, args, prog="cairn results")
    rows = result_rows(options.folder)
    if not rows:
        raise CairnError(f"{options.folder} holds no recorded result; `cairn train NAME --record FOLDER` writes one.")
    print(json.dumps(rows) if options.json else text_table(rows))
    return 0


def _new_file(out: Path) -> None:
    """A file may be written where it can be, and where it is none of a run's own."""
    from cairn.runs.owned_files import check_output

    writable_file(out, "--out")
    check_output(out)


def _policy_folder(out: Path) -> None:
    """A policy may be written into a new folder, an empty one, or in place of an older policy."""
    from cairn.runs.checkpoint import check_replaceable
    from cairn.runs.owned_files import check_output

    check_output(writable_folder(out, "--out"))
    check_replaceable(out)


def command_import(args: list[str]) -> int:
    from cairn.interop.sb3.importer import read
    from cairn.report.video import prepare_headless
    from cairn.runs.checkpoint import save_policy

    prepare_headless()
    options = parse(ImportArgs, args, prog="cairn import")
    _policy_folder(options.out)
    saved = read(options.path, env=options.env, env_args=options.env_args, normalizer=options.normalizer)
    save_policy(options.out, saved.agent, saved.task, saved.about)
    note = f" But {saved.about['note']}" if "note" in saved.about else ""
    print(f"{options.out}: {options.path.name}, a policy of {saved.agent.cfg.algorithm} for {saved.task.id}.{note}")
    return 0


def command_export(args: list[str]) -> int:
    from cairn.runs.checkpoint import export

    options = parse(ExportArgs, args, prog="cairn export")
    _policy_folder(options.out)
    export(options.path, options.out, half=options.half)
    print(f"{options.path} -> {options.out}")
    return 0


def command_demos(args: list[str]) -> int:
    from cairn.algorithms.imitation.demos import record, write
    from cairn.algorithms.imitation.expert import Expert
    from cairn.report.video import prepare_headless
    from cairn.runs.checkpoint import load_policy
    from cairn.vector.choose import scoring_vector

    prepare_headless()
    options = parse(DemosArgs, args, prog="cairn demos")
    if options.out.suffix != ".npz":
        raise CairnError(f"{options.out} is no NumPy archive by its name; let it end in .npz.")
    _new_file(options.out)
    saved = load_policy(options.path, trust=options.trust)
    task, seeds = saved.task.for_scoring(), range(options.seed, options.seed + options.episodes)
    envs = scoring_vector(task, options.episodes)
    try:
        expert = Expert(saved.agent, envs.spec, name=str(options.path))
        demos = record(expert, envs, seeds, saved.task.id, longest=task.longest)
    finally:
        envs.close()
    assert demos is not None  # nobody stops it
    write(options.out, demos, envs.spec)
    mean, told = sum(demos.returns) / len(demos.returns), _episodes(options.episodes)
    print(f"{options.out}: {told} of {saved.task.id}, {demos.steps:,} steps, mean return {mean:.1f}.")
    return 0


def command_bench(args: list[str]) -> int:
    from cairn.envs.task import Task
    from cairn.vector.choose import speeds

    if args[:1] == ["peers"]:
        return _peers(args[1:])
    if args[:1] != ["vector"] and not {"--help", "-h"} & set(args):
        raise CairnError("say what to measure: `cairn bench vector ENV`, or `cairn bench peers`.")
    options = parse(BenchArgs, args, prog="cairn bench")
    found = speeds(
        Task(options.env, args=options.env_args), options.envs, workers=options.workers, seconds=options.seconds
    )
    backend, count = max(found, key=lambda key: found[key])
    if options.json:
        rows = [{"vector": key[0], "envs": key[1], "steps_per_second": round(value)} for key, value in found.items()]
        print(json.dumps({"env": options.env, "rows": rows, "fastest": {"vector": backend, "envs": count}}))
        return 0
    print(f"{options.env}, steps a second" + "".join(f"{f'{n} envs':>12}" for n in options.envs))
    for name in dict.fromkeys(key[0] for key in found):
        told = [f"{found[name, n]:,.0f}" if (name, n) in found else "-" for n in options.envs]
        print(f"{name:<{len(options.env) + 16}}" + "".join(f"{cell:>12}" for cell in told))
    print(f"the fastest: --vector {backend} --envs {count}")
    return 0


def _peers(args: list[str]) -> int:
    """The comparison lives beside the package, with what it needs to make the others' environments."""
    root = Path(__file__).parents[2]
    if not (root / "bench" / "peers").is_dir():
        raise CairnError("the comparison with other libraries comes with the source, not the package: use a checkout.")
    return subprocess.run([sys.executable, "-m", "bench.peers", *args], cwd=root, check=False).returncode


def command_doctor(args: list[str]) -> int:
    from cairn.doctor import diagnose
    from cairn.envs.task import Task
    from cairn.recipes import find
    from cairn.report.video import prepare_headless

    prepare_headless()
    options = parse(DoctorArgs, args, prog="cairn doctor")
    recipe = find(options.recipe) if options.recipe else None
    if recipe is None and not options.env:
        raise CairnError("name a task, or the recipe of one with --recipe.")
    if recipe is not None and options.env not in ("", recipe.env):
        raise CairnError(f"{recipe.name} is a recipe for {recipe.env}, not for {options.env}; leave out one of them.")
    task = recipe.task if recipe is not None else Task(options.env)
    task = replace(task, args={**task.args, **options.env_args})
    agent, hindsight = (recipe.agent, recipe.hindsight != "off") if recipe is not None else (None, False)
    begun = time.perf_counter()
    found = diagnose(task, agent, hindsight=hindsight, seconds=options.seconds)
    seconds = time.perf_counter() - begun
    count = {kind: sum(f.severity == kind for f in found) for kind in ("error", "warning", "hint")}
    if options.json:
        body = {"env": task.id, "seconds": round(seconds, 1), **count, "findings": [asdict(f) for f in found]}
        print(json.dumps(body))
    else:
        for finding in found:
            print(finding)
        said = ", ".join(f"{n} {kind}{'s' * (n != 1)}" for kind, n in count.items() if n) or "nothing found"
        print(f"{task.id}: {said} ({seconds:.0f} s).")
    return int(count["error"] > 0)


def command_new_env(args: list[str]) -> int:
    from cairn.envs.template import write

    options = parse(NewEnvArgs, args, prog="cairn new-env")
    task, paths = write(options.name, writable_folder(options.out, "--out"), goal=options.goal)
    more = " --hindsight future --metric success --agent.gamma 0.95" if options.goal else ""
    print(f"{paths[0]}: the task {task}, to be made your own; {paths[1]}: its test. In that folder:")
    print(f"  python -m pytest {paths[1].name}")
    print(f"  cairn doctor {task}")
    print(f"  cairn train --env {task} --agent sac{more} --steps 20000")
    return 0


def command_sweep(args: list[str]) -> int:
    from cairn.runs.folder import folder_name
    from cairn.runs.policy_card import runs_code
    from cairn.runs.train import check as check_recipe_can_train
    from cairn.search.sweep import sweep, table

    own, out, rest = _many(args, {"--seeds": 5, "--jobs": 1, "--episodes": 100}, "sweep")
    if switch(rest, "--resume")[0] or _take(rest, "--seed")[0] is not None:
        raise CairnError("a sweep goes on by itself, and --seeds 5 is seeds 1 to 5; leave out --seed and --resume.")
    trust, rest = switch(rest, "--trust")
    base, options = _base_recipe(rest, trust=trust)
    recipe = _asked(base, options, "sweep")
    check_recipe_can_train(recipe)  # mistakes come before anything starts
    trust = trust or runs_code(recipe.judged_task)  # as the user typed it, then
    folder, seeds = Path(out or f"runs/{folder_name(f'sweep-{base.name}')}"), range(1, own["--seeds"] + 1)
    trials = sweep(rest[0], options, seeds, folder, jobs=own["--jobs"], episodes=own["--episodes"], trust=trust)
    print(table(trials))
    return int(any(trial.fault for trial in trials))


def _many(args: list[str], counts: dict[str, int], command: str) -> tuple[dict[str, int], str | None, list[str]]:
    """The counts and the folder of a command that trains many times, and what is left: a recipe and its options."""
    from cairn.runs.folder import run_path

    own, rest = {}, args
    for name, default in counts.items():
        value, rest = _take(rest, name)
        own[name] = default if value is None else _counted(name, value)
    out, rest = _take(rest, "--out")
    if {"--help", "-h"} & set(rest):
        print(next(line.strip() for line in USAGE.splitlines() if f"cairn {command} " in line))
        print("`cairn train NAME --help` shows the options of train.")
        raise SystemExit(0)
    if not rest or rest[0].startswith("-"):
        raise CairnError(f"name a recipe to {command} (see cairn list).")
    return own, None if out is None else str(run_path(out)), rest


def _counted(name: str, text: str) -> int:
    value: int = value_of(name, [text], int)
    check(name, value, Count)
    return value


def command_tune(args: list[str]) -> int:
    from cairn.runs.folder import folder_name
    from cairn.search.tune import table, tune

    vary, rest = _take(args, "--vary")
    own, out, rest = _many(rest, {"--trials": 20, "--jobs": 1}, "tune")
    trust, rest = switch(rest, "--trust")
    base, options = _base_recipe(rest, trust=trust)
    recipe = _asked(base, options, "tune")
    folder = Path(out or f"runs/{folder_name(f'tune-{base.name}')}")
    names = [
        name.strip().removeprefix("--").removeprefix("agent.").replace("-", "_") for name in (vary or "").split(",")
    ]
    if vary is not None and not all(names):
        raise CairnError(f"--vary is {vary}; it must be names of the agent's numbers, such as lr,gamma.")
    study = tune(recipe, names if vary else [], folder, trials=own["--trials"], jobs=own["--jobs"], seed=recipe.seed)
    print(table(study, recipe))
    print(f"the best settings are a recipe of their own: cairn train {folder / 'best.json'}")
    return 0


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "train": command_train,
    "eval": command_eval,
    "watch": command_watch,
    "report": command_report,
    "list": command_list,
    "results": command_results,
    "import": command_import,
    "export": command_export,
    "demos": command_demos,
    "doctor": command_doctor,
    "bench": command_bench,
    "new-env": command_new_env,
    "sweep": command_sweep,
    "tune": command_tune,
}


# -- reading options


def _base_recipe(args: list[str], *, trust: bool) -> tuple[Any, list[str]]:
    """The named recipe, or one made from --env and --agent; and the options that remain."""
    from cairn.algorithms.registry import config_type
    from cairn.recipes import RECIPES, find
    from cairn.recipes.recipe import Recipe
    from cairn.runs.config import read_recipe

    if args and args[0].endswith(".json"):
        return read_recipe(Path(args[0]), trust=trust), args[1:]
    if args and not args[0].startswith("-"):
        return find(args[0]), args[1:]
    env, rest = _take(args, "--env")
    agent, rest = _take(rest, "--agent")
    if env is None or agent is None:
        if "--help" in args or "-h" in args:
            print(USAGE + "\n\nrecipes: " + ", ".join(RECIPES))
            raise SystemExit(0)
        named = next((arg for arg in args if arg in RECIPES), None)
        if named is not None:
            raise CairnError(f"name the recipe first: cairn train {named} [options].")
        raise CairnError("name a recipe (see cairn list), or give both --env and --agent.")
    cfg = config_type(agent)()
    for part in [f.name for f in fields(cfg) if f.name in PARTS]:  # which learner an agent is made of
        kind, rest = _take(rest, f"--agent.{part}")
        if kind is not None:
            cfg = replace(cfg, **{part: _learner(cfg, part, kind)})
    return Recipe(env=env, agent=cfg, steps=100_000, name=f"{agent}-{env.replace('/', '-')}"), rest


def _learner(cfg: Any, part: str, kind: str) -> Any:
    """The default config of a learner that an agent is made of."""
    from cairn.algorithms.registry import AGENTS, config_type

    hint = get_type_hints(type(cfg))[part]
    allowed = [name for name, (config, _) in AGENTS.items() if config in (get_args(hint) or (hint,))]
    if config_type(kind) not in [AGENTS[name][0] for name in allowed]:
        raise CairnError(f"agent.{part} cannot be {kind}; it can be {' or '.join(allowed)}.")
    return config_type(kind)()


def _to_start(args: list[str], *, trust: bool) -> tuple[Any, list[str]]:
    """The recipe of a new run, and the options that remain."""
    from cairn.runs.folder import is_run

    if args and not args[0].startswith("-") and is_run(Path(args[0])):
        raise CairnError(f"{args[0]} is the folder of a run; `cairn train {args[0]} --resume` continues it.")
    return _base_recipe(args, trust=trust)


def _on_its_env(stored: Any, options: list[str], folder: Path) -> Any:
    """The recipe of a run that is resumed; CairnError where the options ask for another environment."""
    env = _take(options, "--env")[0]
    if env not in (None, stored.env):
        raise CairnError(
            f"the run in {folder} is on {stored.env}, and the environment of a run cannot change; leave out --env, or"
            " start a new run."
        )
    return stored


def _to_resume(args: list[str], folder: Path | None, *, trust: bool) -> tuple[Any, list[str], Path]:
    """The recipe of the run to resume, the options that remain, and its folder.

    The run is named by its folder, as RUN or --out RUN, or by its recipe: then the newest of that name and seed.
    """
    from cairn.recipes import RECIPES
    from cairn.runs.config import read_recipe, read_to_resume
    from cairn.runs.folder import folders_of

    named = args[0] if args and not args[0].startswith("-") else ""
    if named and named not in RECIPES and not named.endswith(".json") and Path(named).is_dir():
        if folder is not None:
            raise CairnError(f"{named} and --out both name a run to resume; leave one out.")
        return _on_its_env(read_recipe(Path(named), trust=trust), args[1:], Path(named)), args[1:], Path(named)
    kind = any(arg.split("=")[0] == "--agent" for arg in args)
    if folder is not None and not named and not kind:
        return _on_its_env(read_recipe(folder, trust=trust), args, folder), args, folder
    if not named and not kind and not {"--help", "-h"} & set(args):
        raise CairnError("name the run to resume: `cairn train RUN --resume`, where RUN is its folder.")
    if named and named not in RECIPES and os.path.basename(named) != named and not named.endswith(".json"):
        raise CairnError(f"there is no run folder {named} to resume.")
    base, rest = _base_recipe(args, trust=trust)
    if folder is None:
        told, _ = _take(rest, "--seed")
        seed = int(told) if told is not None and told.isdecimal() else base.seed
        found = folders_of(Path("runs"), base.name, seed)
        if not found:
            raise CairnError(
                f"there is no run of {base.name} to resume under runs/ with seed {seed}; start it without --resume."
            )
        folder = found[-1]
    return read_to_resume(folder, base, RECIPES, trust=trust), rest, folder
