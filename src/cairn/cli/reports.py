"""`cairn report`: a page of runs, written or served."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from cairn.cli.options import parse
from cairn.cli.paths import import_from_here, new_file
from cairn.cli.usage import Command
from cairn.core.checks import Count, Natural
from cairn.core.errors import CairnError


@dataclass(frozen=True)
class ReportArgs:
    """Write an HTML page about runs: learning curves, evaluations, settings that differ, findings, films."""

    runs: Positional[tuple[Path, ...]]  # run folders, or folders that contain runs, such as a sweep's
    out: Annotated[Path, arg(aliases=["-o"])] = Path("report.html")  # HTML file to write
    episodes: Natural = 3  # episodes played by each best policy, drawn from above; 0: only read files
    live: bool = False  # serve the page on this machine, for runs in progress
    port: Natural = 8000  # TCP port of the live page; 0: any free port
    every: Count = 10  # seconds between updates of the live page
    trust: bool = False  # import the policy's task (module:id), and open the paths in its arguments


def command_report(args: list[str]) -> int:
    """Write or serve a report; returns the exit code."""
    options = parse(ReportArgs, args, prog="cairn report")
    import_from_here(trust=options.trust)
    from cairn.report.live import serve
    from cairn.report.page import write
    from cairn.report.video import prepare_headless

    if not options.runs:
        raise CairnError("name at least one run folder: `cairn report runs/cartpole-ppo-s0`.")
    if options.live:
        serve(options.runs, port=options.port, refresh=options.every)
        return 0
    if options.out.suffix.lower() not in (".html", ".htm"):
        raise CairnError(f"--out is {options.out}; it must end in .html.")
    new_file(options.out)
    prepare_headless()
    report = write(options.runs, options.out, episodes=options.episodes, results=Path("results"), trust=options.trust)
    for fault in report.faults:
        print(f"cairn: {fault}", file=sys.stderr)
    runs, kinds, size = len(report.runs), len(report.groups), options.out.stat().st_size / 1e6
    print(f"{options.out}: {runs} run{'s' * (runs > 1)} of {kinds} configuration{'s' * (kinds > 1)}, {size:.1f} MB.")
    return 0


COMMANDS: Mapping[str, Command] = {"report": command_report}
