"""`python -m benchmarks.speed.watch`

The share of a training's time that its watchers take, in seconds of the processor.

What they look at and nobody else needs (`nets/health.py`) counts as theirs.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from cairn.doctor.watchers import Watch
from cairn.recipes import find
from cairn.runs.run import Run
from cairn.runs.train import train

RUNS = {"cartpole-ppo": 40_000, "cartpole-a2c": 40_000, "cartpole-dqn": 10_000, "sac-pendulum": 5_000}


class Clock:
    seconds = 0.0

    def count(self, what: Callable[..., Any], *args: Any) -> Any:
        begun = time.process_time()
        try:
            return what(*args)
        finally:
            self.seconds += time.process_time() - begun


class Timed(Watch):
    def __init__(self, clock: Clock, *args: Any) -> None:
        super().__init__(*args)
        self.clock = clock

    def episode(self, *args: Any) -> None:
        self.clock.count(super().episode, *args)

    def check(self, *args: Any) -> Any:
        return self.clock.count(super().check, *args)


def main() -> None:
    log = Run.log
    for name, steps in RUNS.items():
        clock, begun = Clock(), time.process_time()
        asked = partial(timed_log, log, clock)
        Run.log = lambda self, metrics, asked=asked: asked(self, metrics)  # type: ignore[method-assign,misc]
        recipe = replace(find(name), steps=steps, eval_every=10 * steps, eval_episodes=1, target=None)
        with tempfile.TemporaryDirectory() as folder:
            train(recipe, Path(folder) / "run", watch=lambda cfg, spec, _, clock=clock: Timed(clock, cfg, spec))
        whole = time.process_time() - begun
        share = f"{clock.seconds:.4f} s of {whole:.1f} s, {100 * clock.seconds / whole:.3f} %"
        print(f"{name:<14} {steps:,} steps: {share}", flush=True)


def timed_log(log: Callable[..., None], clock: Clock, run: Run, metrics: Any) -> None:
    log(run, {name: partial(clock.count, value) if callable(value) else value for name, value in metrics.items()})


if __name__ == "__main__":
    main()
