"""How fast N samplers and G learners would be: measured costs of each stage, put together, beside what was measured.

    python -m benchmarks.speed.model

It reads results/benchmarks/scale.json and shares.json and prints the rows of the tables in docs/scale.md, which
tests/test_scale_model.py compares with it. Nothing is measured here; `benchmarks.speed.cluster` measures.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from benchmarks import store

CHUNK = 64  # steps of one environment in a chunk


def samplers(count: int, wait: float, work: float, cores: int) -> float:
    """Steps a second of samplers whose step waits and then works on one of the cores, all in seconds.

    A closed queueing network by mean value analysis; the cores are one server of `work / cores` and a delay of the
    rest (Seidmann et al. 1987).
    """
    queue, rate = 0.0, 0.0
    for n in range(1, count + 1):
        served = work / cores * (1 + queue)
        rate = n / (wait + work * (cores - 1) / cores + served)
        queue = rate * served
    return rate


@dataclass(frozen=True)
class Stages:
    """Seconds of one core (or of one GPU, for learning) that each stage takes for one step of an environment."""

    playing: float  # stepping the environment and choosing the action; divided by the cores that play
    learning: float  # the updates; divided by the learners
    exchange: float  # adding up the gradients of two learners
    rest: float = 0.0  # what neither divides

    def shares(self, cores: int, learners: int) -> dict[str, float]:
        """Seconds a step by stage. A ring of G learners sends 2(G - 1)/G of the gradient, which is 1 for two."""
        ring = 2 * (learners - 1) / learners
        return {
            "playing": self.playing / cores,
            "learning": self.learning / learners,
            "exchange": self.exchange * ring,
            "rest": self.rest,
        }

    def speed(self, cores: int, learners: int) -> float:
        """Steps a second, one stage after the other, as on-policy algorithms have it."""
        return 1 / sum(self.shares(cores, learners).values())

    def bottleneck(self, cores: int, learners: int) -> str:
        """The stage that takes longest."""
        shares = self.shares(cores, learners)
        return max(shares, key=lambda name: shares[name])


def entry(name: str) -> dict[str, Any]:
    """A recorded measurement."""
    found: list[dict[str, Any]] = json.loads(store.SCALE.read_text(encoding="utf-8"))
    return next(one for one in found if one["name"] == name)


def sampling() -> Iterator[tuple[int, float, float]]:
    """(samplers, predicted, measured) steps a second; the work of a step is that of the largest number, on 2 cores."""
    measured = entry("cluster-scale")
    cores, wait, rows = 2, measured["settings"]["sleep"], measured["rows"]
    work = cores / rows[-1]["speed"]  # there the cores are full
    for row in rows[:-1]:
        yield row["samplers"], samplers(row["samplers"], wait, work, cores), row["speed"]


def on_cpus() -> Stages:
    """PPO on frames of Pong, all on cores: from one learner, and from the exchange alone."""
    measured = entry("cluster-learners")
    settings, alone = measured["settings"], measured["rows"][0]
    steps = settings["envs"] * settings["horizon"]
    learning = (alone["seconds"] - alone["acting"]) / steps
    return Stages(alone["acting"] / steps, learning, 1e-3 * measured["exchange_ms"] * settings["updates"] / steps)


def learning() -> Iterator[tuple[int, float, float]]:
    """(learners, predicted, measured) steps a second; each learner has a core, on which it plays too.

    Learning is that of one learner. Playing is measured alone with the environments of one of them: an action for four
    takes more than half of the time of one for eight.
    """
    measured, stages = entry("cluster-learners"), on_cpus()
    steps = measured["settings"]["envs"] * measured["settings"]["horizon"]
    for row in measured["rows"][1:]:
        count = row["learners"]
        yield count, replace(stages, playing=count * row["acting"] / steps).speed(count, count), steps / row["seconds"]


def on_gpu() -> Stages:
    """The same on an H200 and 16 cores, from the shares of a training. The exchange was not measured there: 0."""
    found: list[Mapping[str, Any]] = json.loads((store.BENCHMARKS / "shares.json").read_text(encoding="utf-8"))
    row = next(one for one in found if one["graphs"] == "acting and learning")
    share, step = row["share"], 1 / row["steps_per_second"]
    rest = (share["acting"] + share["rest"]) * step
    return Stages(16 * share["environments"] * step, share["learning"] * step, 0.0, rest)


def tables() -> Iterator[list[str]]:
    """The rows of each table in docs/scale.md."""
    compared = [("samplers", *row) for row in sampling()] + [("learners", *row) for row in learning()]
    yield [f"| {what}: {n} | {a:,.0f} | {b:,.0f} | {a / b - 1:+.0%} |" for what, n, a, b in compared]
    for stages, sizes in ((on_cpus(), CPUS), (on_gpu(), GPUS)):
        yield [row_of(stages, *size, beside=stages.speed(*sizes[0])) for size in sizes]


def row_of(stages: Stages, cores: int, learners: int, *, beside: float) -> str:
    """Cores, learners, steps a second, those beside others, and the bottleneck."""
    speed = stages.speed(cores, learners)
    return f"| {cores} | {learners} | {speed:,.0f} | {speed / beside:.1f}× | `{stages.bottleneck(cores, learners)}` |"


CPUS = ((1, 1), (2, 2), (8, 8), (64, 8), (32, 32), (64, 64))  # cores that play, learners
GPUS = ((16, 1), (16, 2), (32, 2), (64, 2), (128, 4), (256, 8))


def main() -> None:
    for rows in tables():
        print("\n".join(rows), end="\n\n")


if __name__ == "__main__":
    main()
