"""`python -m benchmarks.speed.shares NAME [--steps 50000] [any option of cairn train]`

Where the time of a training goes, from the call of `train` to its return: evaluations, checkpoints and logs included.

The training runs twice. The first run gives its speed; in the second a clock is around each part, which stands still
while another part runs inside. What evaluations step and act is counted apart from what training does. A GPU is waited
for where a part ends, so that its work is counted where it was asked for. `useful` is the share of environments, acting
and learning, with those of evaluations; `evaluations` are all of an evaluation. The result is kept in
results/benchmarks/shares.json, unless the first option is --dry.

    python -m benchmarks.speed.shares pong-ppo --device auto --envs 128 --agent.batch-size 4096
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import cairn.runs.scorer as scoring
import cairn.runs.train as training
from benchmarks.speed.child import versions
from benchmarks.store import BENCHMARKS, save
from cairn.cli.options import parse
from cairn.core.device import resolve_device
from cairn.recipes import find
from cairn.recipes.recipe import Recipe

PARTS = {
    "environments": ("reset", "begin", "send", "recv", "step"),
    "acting": ("act",),
    "learning": ("update", "update_low", "update_high", "sample", "asked", "windows", "add", "after_update"),
    "evaluation": ("evaluate",),  # what is left of it beside its environments and its acting
    "files": ("save", "_write_metrics"),
}
JUDGED = {"environments": "environments, evaluation", "acting": "acting, evaluation"}
USEFUL = ("environments", "acting", "learning", *JUDGED.values())


class Clock:
    """Seconds spent in methods that were put under it."""

    def __init__(self, device: str) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self.wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
        self.open: list[str] = []  # the parts that run, the innermost last
        self.since = 0.0

    def _pass(self) -> None:
        """Give the time since the last change to the part that ran."""
        now = time.perf_counter()
        if self.open:
            self.spent[self.open[-1]] += now - self.since
        self.since = now

    def watch(self, thing: Any, *parts: str) -> None:
        for part in parts:
            for name in PARTS[part]:
                if callable(getattr(thing, name, None)):
                    setattr(thing, name, self._timed(getattr(thing, name), part))

    def _timed(self, call: Callable[..., Any], part: str) -> Callable[..., Any]:
        def timed(*args: Any, **options: Any) -> Any:
            self._pass()
            self.open.append(JUDGED.get(part, part) if "evaluation" in self.open else part)
            try:
                return call(*args, **options)
            finally:
                self.wait()
                self._pass()
                self.open.pop()

        return timed


def measure(recipe: Recipe, clock: Clock | None) -> float:
    """Seconds of a training with its files in a temporary folder."""
    loop, vector_of = training._loop, scoring.vector_of

    def watched_vector(*args: Any) -> Any:
        envs = vector_of(*args)
        if clock is not None:
            clock.watch(envs, "environments")
        return envs

    def watched(run: Any, algorithm: Any, agent: Any, collector: Any, replay: Any) -> None:
        if clock is not None:
            clock.spent["start"] = time.perf_counter() - begun
            clock.watch(getattr(collector, "envs", None), "environments")
            clock.watch(agent, "acting", "learning")
            clock.watch(run, "evaluation", "files")
            clock.watch(replay, "learning")
        loop(run, algorithm, agent, collector, replay)

    with tempfile.TemporaryDirectory() as folder:
        training._loop, scoring.vector_of, begun = watched, watched_vector, time.perf_counter()
        try:
            training.train(recipe, Path(folder) / "run")
        finally:
            training._loop, scoring.vector_of = loop, vector_of
        return time.perf_counter() - begun


def entry_of(recipe: Recipe, args: list[str]) -> dict[str, Any]:
    """The object that results/benchmarks/shares.json keeps."""
    plain, clock = measure(recipe, None), Clock(recipe.device)
    whole = measure(recipe, clock)
    parts = {**dict.fromkeys(("start", *PARTS, *JUDGED.values()), 0.0), **clock.spent}
    parts["rest"] = whole - sum(parts.values())
    share = {part: round(seconds / whole, 3) for part, seconds in parts.items()}
    return {
        "name": recipe.name if recipe.device == "cpu" else f"{recipe.name}-{recipe.device}",
        "command": " ".join(["python -m benchmarks.speed.shares", recipe.name, *args]),
        "steps": recipe.steps,
        "envs": recipe.envs,
        "device": recipe.device,
        "cores": os.cpu_count(),
        "versions": versions("cairn-rl", "torch", "gymnasium", "numpy"),
        "steps_per_second": round(recipe.steps / plain),
        "useful": round(sum(share[part] for part in USEFUL), 3),
        "evaluations": round(sum(share[part] for part in ("evaluation", *JUDGED.values())), 3),
        "share": share,
    }


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    name, *args = sys.argv[1:]
    dry = args[:1] == ["--dry"]
    base = replace(find(name), steps=50_000)
    recipe = parse(Recipe, args[dry:], default=base, prog=f"benchmarks.speed.shares {base.name}")
    recipe = replace(recipe, device=resolve_device(recipe.device))
    entry = entry_of(recipe, args[dry:])
    print(f"{recipe.name}, {recipe.envs} environments, {recipe.device}: {entry['steps_per_second']:,} steps/s")
    for part, share in [*entry["share"].items(), *((name, entry[name]) for name in ("useful", "evaluations"))]:
        print(f"{part:<26}{share:6.1%}")
    if not dry:
        save(entry, BENCHMARKS / "shares.json")


if __name__ == "__main__":
    main()
