"""Whether the best action depends on what was seen before, so that an agent needs memory."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from cairn.doctor.finding import Finding, plural
from cairn.doctor.play import Trace
from cairn.doctor.task_probe import TaskProbe

LAGS = (1, 2, 3, 4, 6, 8)  # steps to look back; 0 stands for the first observation of the episode
CELL = 5  # rewards needed of each action in each situation
SURE = 6.0  # standard errors by which an action must be better
MARGIN = 0.1  # of the range of rewards
SHUFFLES = 8  # of the histories, in none of which anything may be found
SHARE = 0.05  # of the time, for more episodes
MOST = 24  # histories compared of one observation


@dataclass(frozen=True)
class Reversal:
    """An observation seen `count` times: what two actions paid after it, given one history and given another."""

    count: int
    first: tuple[float, float]
    second: tuple[float, float]


def history(p: TaskProbe) -> Iterator[Finding]:
    """The same observation must have the same best action, whatever was seen before."""
    if p.case.remembers:
        return
    traces = [t for t in p.plays if t.behaviour == "uniform" and t.length > 1 and np.isfinite(t.reward).all()]
    if not traces or not _repeats(traces):
        return
    until = time.perf_counter() + SHARE * p.case.seconds
    while sum(t.length for t in traces) < p.case.steps and time.perf_counter() < until:
        traces.append(p.first.episode("uniform", until))
    for lag in (*LAGS, 0):
        rows = _rows(traces, lag)
        found = _reversed(rows, p.pay)
        if found is None or any(_reversed(_shuffled(rows, p.rng), p.pay) is not None for _ in range(SHUFFLES)):
            continue
        when = "at the start of the episode" if lag == 0 else f"{plural(lag, 'step')} before"
        (a, b), (c, d) = found.first, found.second
        yield Finding(
            "needs-memory",
            "hint",
            "The best action depends on what was seen before: an agent without memory cannot know it.",
            f"after the same observation, seen {found.count} times, one action paid {a:.3g} and another {b:.3g} in the"
            f" mean; after another observation {when}, they paid {c:.3g} and {d:.3g}",
            "Use agent.memory (gru or lstm), or show in the observation what must be remembered.",
        )
        return


def _repeats(traces: list[Trace]) -> bool:
    """Whether observations are few enough to be met again and again."""
    seen = [obs.tobytes() for trace in traces for obs in trace.obs]
    return 2 * len(set(seen)) <= len(seen)


Rows = dict[tuple[bytes, bytes], list[tuple[bytes, float]]]  # (observation, action) -> (history, reward)


def _rows(traces: list[Trace], lag: int) -> Rows:
    rows: Rows = defaultdict(list)
    for trace in traces:
        seen = [obs.tobytes() for obs in trace.obs[:-1]]
        for t in range(max(lag, 1), trace.length):
            rows[seen[t], trace.action[t].tobytes()].append((seen[t - lag if lag else 0], float(trace.reward[t])))
    return rows


def _shuffled(rows: Rows, rng: np.random.Generator) -> Rows:
    """The same rewards, each after the history of another row of the same observation and action."""
    mixed: Rows = {}
    for key, pairs in rows.items():
        order = rng.permutation(len(pairs))
        mixed[key] = [(pairs[i][0], reward) for i, (_, reward) in zip(order, pairs, strict=True)]
    return mixed


def _reversed(rows: Rows, pay: float) -> Reversal | None:
    """An observation after which one action is better given one history, and worse given another."""
    cells: dict[bytes, dict[bytes, dict[bytes, list[float]]]] = defaultdict(lambda: defaultdict(dict))
    rest: list[float] = []
    for (seen, action), pairs in rows.items():
        by_history: dict[bytes, list[float]] = defaultdict(list)
        for before, reward in pairs:
            by_history[before].append(reward)
        for before, rewards in by_history.items():
            if len(rewards) >= CELL:
                cells[seen][before][action] = rewards
                mean = sum(rewards) / len(rewards)
                rest += [(reward - mean) * (len(rewards) / (len(rewards) - 1)) ** 0.5 for reward in rewards]
    spread = float(np.std(rest)) if rest else 0.0
    for seen, histories in cells.items():
        for one, other in combinations(list(histories.values())[:MOST], 2):
            for a, b in combinations(sorted(one.keys() & other.keys())[:MOST], 2):
                gaps = [_gap(cell[a], cell[b], spread, pay) for cell in (one, other)]
                if min(gaps) < 0 < max(gaps):
                    count = sum(len(pairs) for (obs, _), pairs in rows.items() if obs == seen)
                    first, second = ((float(np.mean(cell[a])), float(np.mean(cell[b]))) for cell in (one, other))
                    return Reversal(count, first, second)
    return None


def _gap(some: list[float], others: list[float], spread: float, pay: float) -> float:
    """The difference of two means, 0 where it could be chance."""
    gap = float(np.mean(some) - np.mean(others))
    error = spread * (1 / len(some) + 1 / len(others)) ** 0.5
    return gap if abs(gap) > max(SURE * error, MARGIN * pay) else 0.0
