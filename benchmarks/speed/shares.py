"""`python -m benchmarks.speed.shares NAME [--steps 50000] [any option of cairn train]`

Where the time of a training goes.

Steps a second end to end, as the loop runs, without evaluations and checkpoints; then the same again with a clock
around each part: environments, acting, learning, and what is left. A GPU is waited for where a part ends, so that its
work is counted where it was asked for; the speed is that of the first run.

    python -m benchmarks.speed.shares pong-ppo --device auto --envs 128 --agent.batch-size 4096
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from benchmarks.speed.ours import TimedRun
from cairn.algorithms import build
from cairn.algorithms.off_policy import off_policy
from cairn.algorithms.on_policy import on_policy
from cairn.cli.options import parse
from cairn.collect.local import LocalCollector
from cairn.core.device import resolve_device
from cairn.core.memory import keep_freed_memory
from cairn.recipes import find
from cairn.recipes.recipe import Recipe
from cairn.replay.frames import Frames
from cairn.replay.ring import Ring
from cairn.vector.choose import make_vector

PARTS = {"environments": ("send", "recv"), "acting": ("act",), "sampling": ("sample", "add"), "learning": ("update",)}


class Clock:
    """Seconds spent in methods that were put under it."""

    def __init__(self, device: str) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self.wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None

    def watch(self, thing: Any) -> None:
        for part, names in PARTS.items():
            for name in names:
                if hasattr(thing, name):
                    setattr(thing, name, self._timed(getattr(thing, name), part))

    def _timed(self, call: Callable[..., Any], part: str) -> Callable[..., Any]:
        def timed(*args: Any, **options: Any) -> Any:
            begun = time.perf_counter()
            found = call(*args, **options)
            self.wait()
            self.spent[part] += time.perf_counter() - begun
            return found

        return timed


def measure(recipe: Recipe, clock: Clock | None) -> tuple[float, float]:
    """Steps a second, from the second tenth on (the first pays for allocations and graphs), and all seconds."""
    envs = make_vector(recipe.task, recipe.envs, backend=recipe.vector, workers=recipe.workers)
    cfg: Any = recipe.agent
    try:
        agent = build(cfg, envs.spec, device=recipe.device)
        run = TimedRun(recipe, agent, recipe.steps // 10)
        things: list[Any] = [agent, envs]
        if hasattr(cfg, "capacity"):
            options: Any = {"gamma": cfg.gamma, "n": cfg.n_step, "generator": torch.Generator().manual_seed(0)}
            place: Any = (min(cfg.capacity, recipe.steps), recipe.envs, envs.spec)
            pictures = envs.spec.stack > 1
            things.append(Frames(*place, device=recipe.device, **options) if pictures else Ring(*place, **options))
        if clock is not None:
            for thing in things:
                clock.watch(thing)
        begun = time.perf_counter()
        collector = LocalCollector(envs, run.device)
        if len(things) > 2:
            off_policy(agent, collector, things[2], run)
        else:
            on_policy(agent, collector, None, run)
        return run.timing().speed, time.perf_counter() - begun
    finally:
        envs.close()


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    base = replace(find(sys.argv[1]), steps=50_000)
    recipe = parse(Recipe, sys.argv[2:], default=base, prog=f"benchmarks.speed.shares {base.name}")
    recipe = replace(recipe, device=resolve_device(recipe.device), eval_every=10**12, checkpoint_every=10**12)
    if hasattr(recipe.agent, "learning_starts"):
        starts: Any = {"learning_starts": min(recipe.agent.learning_starts, recipe.steps // 20)}
        recipe = replace(recipe, agent=replace(recipe.agent, **starts))
    keep_freed_memory()
    if recipe.threads:
        torch.set_num_threads(recipe.threads)
    speed, _ = measure(recipe, None)
    print(f"{recipe.name}, {recipe.envs} environments, {recipe.device}: {speed:,.0f} steps/s", flush=True)
    clock = Clock(recipe.device)
    _, whole = measure(recipe, clock)
    for part, spent in {**clock.spent, "the rest": whole - sum(clock.spent.values())}.items():
        print(f"{part:<14}{spent / whole:6.1%}")


if __name__ == "__main__":
    main()
