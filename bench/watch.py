"""`python -m bench.watch`: the share of a training's time that its watchers take, in seconds of the processor."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from cairn.doctor.watch import Watch
from cairn.recipes import find
from cairn.train.trainer import train

RUNS = {"cartpole-ppo": 40_000, "cartpole-dqn": 10_000, "sac-pendulum": 5_000}


class Timed(Watch):
    """Counts its own time."""

    seconds = 0.0

    def _counted(self, what: Callable[..., Any], *args: Any) -> Any:
        begun = time.process_time()
        try:
            return what(*args)
        finally:
            Timed.seconds += time.process_time() - begun

    def episode(self, *args: Any) -> None:
        self._counted(super().episode, *args)

    def check(self, *args: Any) -> Any:
        return self._counted(super().check, *args)


def main() -> None:
    for name, steps in RUNS.items():
        Timed.seconds, begun = 0.0, time.process_time()
        recipe = replace(find(name), steps=steps, eval_every=10 * steps, eval_episodes=1, target=None)
        with tempfile.TemporaryDirectory() as folder:
            train(recipe, Path(folder) / "run", watch=lambda cfg, spec, _: Timed(cfg, spec))
        whole = time.process_time() - begun
        share = f"{Timed.seconds:.4f} s of {whole:.1f} s, {100 * Timed.seconds / whole:.3f} %"
        print(f"{name:<14} {steps:,} steps: {share}", flush=True)


if __name__ == "__main__":
    main()
