"""Commands for saved policies: eval, watch, export, import, demos."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tyro.conf import Positional

from cairn.cli.options import parse
from cairn.cli.paths import import_from_here, new_file, policy_folder, writable_folder
from cairn.cli.results import scored
from cairn.cli.usage import Command
from cairn.core.checks import Episodes, EpisodeSeed
from cairn.core.errors import CairnError
from cairn.core.terminal import wrapped


@dataclass(frozen=True)
class EvalArgs:
    """Score a policy on fresh seeds."""

    path: Positional[Path]  # a run folder, a checkpoint or a zoo entry
    episodes: Episodes = 100  # number of episodes to play (SB3: n_eval_episodes)
    seed: EpisodeSeed = 1000  # seed of the first episode; episode i uses seed + i
    json: bool = False  # print one JSON object instead of text
    record: Path | None = None  # folder to write the result into, as RECIPE-sSEED.json
    stochastic: bool = False  # sample actions instead of taking the most likely (SB3: deterministic=False)
    device: str = "cpu"  # device of the networks: cpu, cuda or auto (a GPU if there is one)
    trust: bool = False  # import the policy's task (module:id), and open the paths in its arguments


@dataclass(frozen=True)
class WatchArgs:
    """Film a policy, or draw its paths from above."""

    path: Positional[Path]  # a run folder, a checkpoint or a zoo entry
    out: Path = Path("video.mp4")  # video file (.mp4), or a plan seen from above (.png, .svg, .pdf)
    episodes: Episodes = 1  # number of episodes to play (SB3: n_eval_episodes)
    seed: EpisodeSeed = 1000  # seed of the first episode; episode i uses seed + i
    trust: bool = False  # import the policy's task (module:id), and open the paths in its arguments


@dataclass(frozen=True)
class ExportArgs:
    """Write the policy of a run as a folder of its own, or as a file that runs without Cairn."""

    path: Positional[Path]  # a run folder, a checkpoint or a zoo entry
    out: Path | None = None  # folder to write the policy into
    half: bool = False  # store the weights in that folder in half precision, at half the size
    onnx: Path | None = None  # ONNX file to write: observations in, the environment's actions out
    torchscript: Path | None = None  # TorchScript file to write, with the same inputs and outputs
    sb3: Path | None = None  # zip to write for Stable-Baselines3: of a ppo, a2c, dqn, sac or td3
    trust: bool = False  # import the policy's task (module:id); --sb3 needs its spaces


@dataclass(frozen=True)
class ImportArgs:
    """Turn a policy of Stable-Baselines3 into one of Cairn's, without running anything in its file."""

    path: Positional[Path]  # zip file of Stable-Baselines3: ppo, a2c, sac, td3, ddpg or dqn
    out: Path  # folder to write the policy into
    normalizer: Path | None = None  # its VecNormalize file (.pkl), if it was trained with one
    env: str | None = None  # Gymnasium id of the task; default: from the file name, as in ppo-CartPole-v1.zip
    env_args: dict[str, Any] = field(default_factory=dict)  # keyword arguments of the environment, as JSON


@dataclass(frozen=True)
class DemosArgs:
    """Record a policy's episodes as demonstrations."""

    path: Positional[Path]  # a run folder, a checkpoint or a zoo entry
    out: Path  # NumPy file (.npz) to write
    episodes: Episodes = 20  # number of episodes to play (SB3: n_eval_episodes)
    seed: EpisodeSeed = 2000  # seed of the first episode; episode i uses seed + i
    trust: bool = False  # import the policy's task (module:id), and open the paths in its arguments


def command_eval(args: list[str]) -> int:
    """Score a policy; returns the exit code."""
    options = parse(EvalArgs, args, prog="cairn eval")
    import_from_here(trust=options.trust)
    from cairn.core.device import resolve_device
    from cairn.report.video import prepare_headless

    prepare_headless()
    if options.record is not None:
        writable_folder(options.record, "--record")
    saved, score = scored(
        options.path,
        options.episodes,
        seed=options.seed,
        stochastic=options.stochastic,
        record=options.record,
        device=resolve_device(options.device),
        trust=options.trust,
    )
    if options.json:
        body = {k: v for k, v in asdict(score).items() if k not in ("returns", "lengths", "successes")}
        print(json.dumps({**body, "env": saved.task.id, "seed": options.seed, "path": str(options.path)}))
    else:
        print(wrapped(f"{saved.task.id}: {score}."))
    return 0


def command_watch(args: list[str]) -> int:
    """Film or draw a policy; returns the exit code."""
    options = parse(WatchArgs, args, prog="cairn watch")
    import_from_here(trust=options.trust)
    from cairn.report import plan, video
    from cairn.runs.checkpoint import load_policy
    from cairn.runs.evaluation import as_policy

    video.prepare_headless()
    drawn = options.out.suffix.lower() in plan.KINDS
    (plan if drawn else video).needs(options.out)
    new_file(options.out)
    saved = load_policy(options.path, trust=options.trust)
    show = plan.draw if drawn else video.record
    played = show(
        as_policy(saved.agent), saved.task.for_scoring(), options.out, episodes=options.episodes, seed=options.seed
    )
    returns = ", ".join(f"{e.total:.1f}" for e in played)
    told = [e.success for e in played if e.success is not None]
    verdict = f", {sum(told)} of {len(told)} succeeded" if told else ""
    print(wrapped(f"{options.out}: {_episodes(len(played))} of {saved.task.id}, returns {returns}{verdict}.", "  "))
    return 0


def command_export(args: list[str]) -> int:
    """Export a policy; returns the exit code."""
    options = parse(ExportArgs, args, prog="cairn export")
    from cairn.runs import serving
    from cairn.runs.checkpoint import export, load_agent, load_policy

    files = {"--onnx": options.onnx, "--torchscript": options.torchscript, "--sb3": options.sb3}
    if options.out is None and not any(files.values()):
        raise CairnError("cairn export needs --out FOLDER, --onnx FILE, --torchscript FILE or --sb3 FILE.zip.")
    if options.sb3 is not None and options.sb3.suffix != ".zip":
        raise CairnError(f"--sb3 is {options.sb3}; it must end in .zip.")
    if options.half and options.out is None:
        raise CairnError("--half is for the folder of --out; the other files hold single precision.")
    for flag, file in files.items():
        if file is not None:
            new_file(file, flag)
    if options.out is not None:
        policy_folder(options.out)
        export(options.path, options.out, half=options.half)
        print(f"{options.path} -> {options.out}")
    if not any(files.values()):
        return 0
    agent, task = load_agent(options.path)
    if options.onnx is not None:
        print(wrapped(f"{options.onnx}: {serving.export_onnx(agent, options.onnx, task=task)}.", "  "))
    if options.torchscript is not None:
        print(wrapped(f"{options.torchscript}: {serving.export_torchscript(agent, options.torchscript)}.", "  "))
    if options.sb3 is not None:
        import_from_here(trust=options.trust)
        plays = load_policy(options.path, trust=options.trust).task
        found, beside = serving.export_sb3(agent, options.sb3, task=plays)
        more = "" if beside is None else f" Its observations are normalised by {beside} (VecNormalize.load)."
        print(wrapped(f"{options.sb3}: {found}.{more}", "  "))
    return 0


def command_import(args: list[str]) -> int:
    """Import a policy of Stable-Baselines3; returns the exit code."""
    options = parse(ImportArgs, args, prog="cairn import")
    import_from_here(task=options.env or "")
    from cairn.interop.sb3.importer import read
    from cairn.report.video import prepare_headless
    from cairn.runs.checkpoint import save_policy

    prepare_headless()
    policy_folder(options.out)
    saved = read(options.path, env=options.env, env_args=options.env_args, normalizer=options.normalizer, beside=True)
    save_policy(options.out, saved.agent, saved.task, saved.about)
    note = f" But {saved.about['note']}" if "note" in saved.about else ""
    if saved.about["normalizer"] is not None:
        note = f" Its observations are normalised by {saved.about['normalizer']}."
    kind = saved.agent.cfg.algorithm
    print(wrapped(f"{options.out}: {options.path.name}, a policy of {kind} for {saved.task.id}.{note}", "  "))
    return 0


def command_demos(args: list[str]) -> int:
    """Record demonstrations; returns the exit code."""
    options = parse(DemosArgs, args, prog="cairn demos")
    import_from_here(trust=options.trust)
    if options.out.suffix != ".npz":
        raise CairnError(f"--out is {options.out}; it must end in .npz.")
    from cairn.algorithms.imitation.demos import record, write
    from cairn.algorithms.imitation.expert import Expert
    from cairn.report.video import prepare_headless
    from cairn.runs.checkpoint import load_policy
    from cairn.vector.choose import scoring_vector

    prepare_headless()
    new_file(options.out)
    saved = load_policy(options.path, trust=options.trust)
    task, seeds = saved.task.for_scoring(), range(options.seed, options.seed + options.episodes)
    envs = scoring_vector(task, options.episodes)
    try:
        expert = Expert(saved.agent, envs.spec, name=str(options.path))
        demos = record(expert, envs, seeds, saved.task.id, longest=task.longest)
    finally:
        envs.close()
    assert demos is not None  # None only if stopped
    write(options.out, demos, envs.spec)
    mean, told = sum(demos.returns) / len(demos.returns), _episodes(options.episodes)
    print(wrapped(f"{options.out}: {told} of {saved.task.id}, {demos.steps:,} steps, mean return {mean:.1f}.", "  "))
    return 0


def _episodes(count: int) -> str:
    return f"{count} episode{'s' * (count != 1)}"


COMMANDS: Mapping[str, Command] = {
    "eval": command_eval,
    "watch": command_watch,
    "export": command_export,
    "import": command_import,
    "demos": command_demos,
}
