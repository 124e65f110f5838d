"""`cairn bench`: the speed of each backend on a task, and of Cairn compared with other libraries."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional

from cairn.cli.options import asks_for_help, parse
from cairn.cli.paths import import_from_here
from cairn.cli.usage import Command
from cairn.core.checks import Envs, Parallel, Positive
from cairn.core.errors import CairnError
from cairn.core.terminal import columns, wrapped

ROOT = Path(__file__).parents[3]  # root of a checkout
CELL = 12  # characters of a column


@dataclass(frozen=True)
class BenchArgs:
    """Measure how fast each backend steps a task here, under random actions."""

    what: Positional[Literal["vector"]]  # what to measure: vector
    env: Positional[str]  # Gymnasium id of the task, or module:id
    envs: tuple[Envs, ...] = (1, 4, 16, 64)  # numbers of parallel environments to measure
    workers: Parallel = 0  # processes or threads; 0: one per CPU core
    seconds: Positive = 1.0  # seconds per measurement
    env_args: dict[str, Any] = field(default_factory=dict)  # keyword arguments of the environment, as JSON
    json: bool = False  # print one JSON object instead of a table


def command_bench(args: list[str]) -> int:
    """Measure the speed of backends; returns the exit code."""
    if args[:1] == ["peers"]:
        return _peers(args[1:])
    if args[:1] != ["vector"] and not asks_for_help(args):
        raise CairnError("say what to measure: `cairn bench vector ENV`, or `cairn bench peers`.")
    options = parse(BenchArgs, args, prog="cairn bench")
    import_from_here(task=options.env)
    from cairn.envs.task import Task
    from cairn.vector.choose import speeds

    task = Task(options.env, args=options.env_args)
    found = speeds(task, options.envs, workers=options.workers, seconds=options.seconds)
    backend, count = max(found, key=lambda key: found[key])
    if options.json:
        rows = [{"vector": key[0], "envs": key[1], "steps_per_second": round(value)} for key, value in found.items()]
        print(json.dumps({"env": options.env, "rows": rows, "fastest": {"vector": backend, "envs": count}}))
        return 0
    print(wrapped(f"{options.env}: environment steps per second"))
    for block in _blocks(options.envs, columns() - 10):
        print(f"{'backend':<10}" + "".join(f"{f'{n} envs':>{CELL}}" for n in block))
        for name in dict.fromkeys(key[0] for key in found):
            cells = [f"{found[name, n]:,.0f}" if (name, n) in found else "-" for n in block]
            print(f"{name:<10}" + "".join(f"{cell:>{CELL}}" for cell in cells))
    print(f"fastest: --vector {backend} --envs {count}")
    return 0


def _blocks(counts: tuple[int, ...], width: int) -> list[tuple[int, ...]]:
    """The columns of a table in blocks that fit `width` characters."""
    most = width // CELL
    return [counts[start : start + most] for start in range(0, len(counts), most)]


def _peers(args: list[str]) -> int:
    """Run the comparison in benchmarks/, which reads its own options."""
    if not (ROOT / "benchmarks" / "peers").is_dir():
        raise CairnError("`cairn bench peers` is not in the package; run it in a checkout of the source.")
    return subprocess.run([sys.executable, "-m", "benchmarks.peers", *args], cwd=ROOT, check=False).returncode


COMMANDS: Mapping[str, Command] = {"bench": command_bench}
