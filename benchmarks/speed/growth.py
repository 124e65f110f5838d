"""`python -m benchmarks.speed.growth [--only environments replay networks] [--seconds 5] [--most SIZE] [--draw]`

How cost grows: microseconds of one core for a step with more environments, for a batch from a larger replay, and for an
update of wider networks. Measurements of one question alternate between its lines. The time is that of the process, and
the fastest of several measurements is kept, so that other work on the machine disturbs little. Results go to
results/benchmarks/growth.json, and the picture of all of them to docs/img/growth.png; `--draw` only draws it.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.speed.child import versions
from benchmarks.speed.ours import TimedRun
from benchmarks.store import BENCHMARKS, ROOT, save
from cairn.algorithms import DQNConfig, PPOConfig, SACConfig, build
from cairn.algorithms.off_policy import off_policy
from cairn.algorithms.on_policy import on_policy
from cairn.algorithms.registry import able_by_hand
from cairn.collect.local import LocalCollector
from cairn.core.memory import keep_freed_memory
from cairn.core.types import Box, Discrete, Spec, Step, Transition
from cairn.native.use import Form, by_hand, resolved
from cairn.recipes.recipe import Recipe
from cairn.replay.ring import Ring
from cairn.vector.choose import make_vector

RESULTS, PICTURE = BENCHMARKS / "growth.json", ROOT / "docs" / "img" / "growth.png"
ENVIRONMENTS = (1, 4, 16, 64, 256)
REPLAYS = (10_000, 100_000, 1_000_000, 10_000_000)
WIDTHS = (64, 128, 256, 512, 1024, 2048)
BATCH, REPEATS = 256, 3
CHEETAH = Spec((17,), "float32", Box((6,), (-1.0,) * 6, (1.0,) * 6))
TITLES = {
    "environments": ("environments (CartPole)", "µs per step"),
    "replay": ("transitions in the replay", f"µs per batch of {BATCH}, or per add"),
    "networks": ("units in each of two layers", f"µs per update (batch of {BATCH})"),
}


class CpuTimedRun(TimedRun):
    """Notes the time of the process in place of the clock's."""

    started: tuple[float, int] | None = None  # when `warm` steps were taken: seconds, steps

    def going(self) -> bool:
        if self.started is None and self.step >= self.warm:
            self.started = time.process_time(), self.step
        return super().going()

    def cost(self) -> float:
        """Microseconds per step."""
        now = time.process_time()
        assert self.started is not None
        return 1e6 * (now - self.started[0]) / (self.step - self.started[1])


def fastest(call: Callable[[], Any], seconds: float) -> float:
    """Microseconds of the fastest of many calls."""
    call()
    least, end = float("inf"), time.process_time() + seconds
    while time.process_time() < end:
        begun = time.process_time()
        call()
        least = min(least, time.process_time() - begun)
    return 1e6 * least


def of_environments(label: str, count: int, seconds: float) -> float:
    """A whole step of training: acting, stepping, storing, and an update for every four steps (dqn)."""
    steps = max(int(4_000 * seconds), 2_048)
    small: Any = {"hidden": (64, 64)}
    agent = (
        DQNConfig(**small, updates_per_step=0.25, batch_size=32, learning_starts=100)
        if label == "dqn"
        else PPOConfig(**small, horizon=max(2_048 // count, 1), batch_size=64)
    )
    recipe = Recipe("CartPole-v1", agent, steps=2 * steps, envs=count, vector="sync", eval_every=10**9)
    envs = make_vector(recipe.task, count, backend="sync")
    try:
        built: Any = build(agent, envs.spec)
        able = able_by_hand(built)
        run, collector = CpuTimedRun(recipe, built, steps), LocalCollector(envs, "cpu")
        with by_hand(resolved("auto", able), able):
            if label == "dqn":
                off_policy(built, collector, ring(envs.spec, 2 * steps, count), run)
            else:
                on_policy(built, collector, None, run)
        return run.cost()
    finally:
        envs.close()


def ring(spec: Spec, capacity: int, count: int) -> Ring:
    return Ring(capacity, count, spec, generator=torch.Generator().manual_seed(0), gamma=0.99)


def of_replay(label: str, size: int, seconds: float) -> float:
    """A full ring of HalfCheetah's transitions, from one environment."""
    replay = ring(CHEETAH, size, 1)
    for array in replay.arrays.values():
        array[:] = 0  # so that its memory is there
    replay.rows = size
    if label == "sample":
        return fastest(lambda: replay.sample(BATCH), seconds)
    draw = np.random.default_rng(0)
    obs, action = draw.normal(size=(1, 17)).astype(np.float32), np.zeros((1, 6), np.float32)
    no = np.zeros(1, bool)
    step = Step(obs, obs, np.zeros(1, np.float32), no, no, ~no)
    return fastest(lambda: [replay.add(obs, action, step) for _ in range(100)], seconds) / 100


def of_networks(label: str, width: int, seconds: float) -> float:
    """An update by autograd, or in the form that a run would choose (compiled, where the core was built)."""
    name, form = label.split(", ")
    discrete = Spec((17,), "float32", Discrete(6))
    agent: Any = build(DQNConfig(hidden=(width,) * 2), discrete) if name == "dqn" else None
    agent = agent or build(SACConfig(hidden=(width,) * 2), CHEETAH)
    draw = torch.Generator().manual_seed(0)
    obs, after = (torch.randn(BATCH, 17, generator=draw) for _ in range(2))
    action = torch.randint(6, (BATCH,), generator=draw) if name == "dqn" else torch.rand(BATCH, 6, generator=draw)
    batch = Transition(obs, action, torch.randn(BATCH, generator=draw), after, torch.full((BATCH,), 0.99))
    able = able_by_hand(agent)
    asked: Form = "off" if form == "autograd" else "auto"
    with by_hand(resolved(asked, able), able):
        return fastest(lambda: agent.update(batch), seconds)


QUESTIONS: dict[str, tuple[tuple[int, ...], tuple[str, ...], Callable[[str, int, float], float]]] = {
    "environments": (ENVIRONMENTS, ("dqn", "ppo"), of_environments),
    "replay": (REPLAYS, ("sample", "add"), of_replay),
    "networks": (WIDTHS, tuple(f"{a}, {b}" for a in ("dqn", "sac") for b in ("autograd", "native")), of_networks),
}


def measure(question: str, seconds: float, most: int) -> list[dict[str, Any]]:
    """An entry for each line of a question."""
    sizes, labels, cost = QUESTIONS[question]
    sizes = tuple(size for size in sizes if size <= most)
    found = {label: [float("inf")] * len(sizes) for label in labels}
    for _ in range(REPEATS):
        for k, size in enumerate(sizes):
            for label in labels:
                found[label][k] = min(found[label][k], cost(label, size, seconds / REPEATS))
    about = {"cores": os.cpu_count(), "threads": 1, "versions": versions("cairn-rl", "torch", "gymnasium", "numpy")}
    command = f"python -m benchmarks.speed.growth --only {question}"
    return [
        {
            "name": f"{question}: {label}",
            "question": question,
            "label": label,
            "unit": "µs",
            "sizes": list(sizes),
            "cost": [round(value, 1) for value in values],
            **about,
            "command": command,
        }
        for label, values in found.items()
    ]


def draw(path: Path = PICTURE) -> None:
    """One panel a question, both axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    plain = FuncFormatter(lambda value, _: f"{value:,.0f}")
    entries = json.loads(RESULTS.read_text(encoding="utf-8"))
    figure, axes = plt.subplots(1, len(TITLES), figsize=(4.6 * len(TITLES), 3.8))
    for (question, (across, up)), axis in zip(TITLES.items(), axes, strict=True):
        for entry in (e for e in entries if e["question"] == question):
            axis.loglog(entry["sizes"], entry["cost"], marker="o", markersize=4, label=entry["label"])
        axis.set(xlabel=across, ylabel=up)
        axis.set_xticks(QUESTIONS[question][0], labels=[f"{size:,}" for size in QUESTIONS[question][0]])
        axis.xaxis.set_minor_locator(NullLocator())
        axis.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
        axis.yaxis.set_major_formatter(plain)
        axis.yaxis.set_minor_formatter(plain)
        axis.grid(alpha=0.3, which="both")
        if axis.lines:
            axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.growth", description="How cost grows.")
    parser.add_argument("--only", nargs="+", choices=QUESTIONS, default=list(QUESTIONS))
    parser.add_argument("--seconds", type=float, default=5.0, help="for each point")
    parser.add_argument("--most", type=int, default=10**9, help="leave larger sizes out")
    parser.add_argument("--draw", action="store_true", help="only draw the picture")
    args = parser.parse_args()
    if not args.draw:
        keep_freed_memory()
        torch.set_num_threads(1)
        for question in args.only:
            for entry in measure(question, args.seconds, args.most):
                save(entry, RESULTS)
                points = zip(entry["sizes"], entry["cost"], strict=True)
                print(f"{entry['name']:<26}", "  ".join(f"{size:,}: {cost:,.1f}" for size, cost in points), flush=True)
    draw()


if __name__ == "__main__":
    main()
