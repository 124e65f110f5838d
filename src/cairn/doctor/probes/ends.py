"""Whether episodes end as the task intends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from cairn.core.calls import option
from cairn.core.types import Array
from cairn.doctor.copies import Raised
from cairn.doctor.finding import Finding
from cairn.doctor.play import Trace
from cairn.doctor.task_probe import TaskProbe

DEATHS = 3  # deaths needed for a finding
SURE = 0.1  # share of the value of living by which dying must be better
SHORT = 10  # shorter games may have a fixed number of moves


def dying_pays(p: TaskProbe) -> Iterator[Finding]:
    """Ending early must not be better than living on: V(living) = r̄ (1 - γᵀ)/(1 - γ) versus the reward of a death.

    r̄ is the best mean reward of any stretch of 1/(1 - γ) steps, so the comparison favours living.
    """
    ends = [t for t in p.plays if t.terminated and t.length > 1]
    lived = [t.reward[:-1] if t.terminated else t.reward for t in p.plays]
    lived = [r for r in lived if len(r)]
    if not lived or not np.isfinite(np.concatenate(lived)).all():
        return
    verdicts = [_arrived(p, t, max(float(r.max()) for r in lived)) for t in ends]
    deaths = [t for t, verdict in zip(ends, verdicts, strict=True) if verdict is not True]
    sure = [verdict for verdict in verdicts if verdict is False]
    if len(deaths) < DEATHS or (not sure and not _usual(p)):
        return
    gamma = p.case.gamma
    rate = _best_rate(lived, max(1, round(1 / (1 - gamma))) if gamma < 1 else 10**9)
    span = _worth(gamma, p.limit)
    living, dying = rate * span, float(np.mean([t.reward[-1] for t in deaths]))
    if rate >= 0 or dying - living < SURE * abs(living) or any(limit(p)):  # an end by the clock is no failure
        return
    median = int(np.median([t.length for t in deaths]))
    steady = float(np.ptp(np.concatenate(lived))) < 1e-9  # otherwise a better policy may earn more by living
    yield Finding(
        "dying-pays",
        "error" if sure and steady else "warning",
        "Ending the episode at once is worth more than continuing it."
        if sure and steady
        else "In random play, ending an episode is worth more than continuing it; check that a good policy earns more."
        if sure
        else "If these ends are failures, ending the episode at once is worth more than continuing it.",
        f"continuing paid at best {rate:.3g} a step, worth {living:.4g} at γ {gamma:g}; the step that ends it"
        f" paid {dying:.4g}; random play ended in {len(deaths)} of {len(p.plays)} episodes, after {median} steps",
        f"Let this end cost more than {abs(living):.3g}, reward each step that continues, or do not end the episode.",
    )


def limit(p: TaskProbe) -> Iterator[Finding]:
    """A time limit must be a truncation, after which values bootstrap. Both flags at once count as termination."""
    ended = [t for t in p.plays if t.terminated and t.success is not True]
    if len(ended) < DEATHS:
        return
    length, times = Counter(t.length for t in ended).most_common(1)[0]
    longest = max(t.length for t in p.plays)
    known = length == p.limit
    if length != longest or length < SHORT or times < DEATHS or (not known and times < 0.25 * len(p.plays)):
        return
    if _shows_time([t for t in ended if t.length == length]):
        return
    both = sum(t.truncated for t in ended if t.length == length)
    reported = "terminated=True and truncated=True" if 2 * both > times else "terminated=True, truncated=False"
    yield Finding(
        "limit-terminates",
        "warning",
        f"The time limit of {length} steps is reported as a termination; it should be a truncation.",
        f"{reported} after exactly {length} steps in {times} of {len(p.plays)} episodes, and no episode was longer;"
        " expected: terminated=False, truncated=True",
        f"Return terminated=False, truncated=True at step {length}, or use max_episode_steps={length}; if the task does"
        " end there, show the step count in the observation.",
    )


def endless(p: TaskProbe) -> Iterator[Finding]:
    """Episodes must end, or have a time limit."""
    longest = max((t.length for t in p.plays), default=0)
    if p.limit is None and longest >= 1000 and not any(t.ended for t in p.plays):
        yield Finding(
            "no-limit",
            "warning",
            "Episodes do not end, and the task has no time limit.",
            f"no end in {sum(t.length for t in p.plays):,} steps, the longest episode {longest:,}",
            f"Register it with max_episode_steps, or use {option('time_limit')}: statistics and resets"
            " wait for an end.",
        )


def _arrived(p: TaskProbe, t: Trace, best: float) -> bool | None:
    """Whether an end is the task's success; None where neither goals, info nor rewards tell."""
    if t.success:
        return True
    if p.rule is not None and not isinstance(p.rule, Raised):
        here, goal = t.achieved[-1:], t.desired[-2:-1]
        return bool(p.rule.terminated(here, goal)[0] or p.rule.reward(here, goal)[0] >= p.rule.reward(here, here)[0])
    if t.success is False:
        return False
    return True if t.reward[-1] > best + 1e-6 else None


def _usual(p: TaskProbe) -> bool:
    """Whether most uniform episodes end this way: failure is easy by chance, success is not."""
    uniform = [t for t in p.plays if t.behaviour == "uniform"]
    return 2 * sum(t.terminated for t in uniform) > len(uniform)


def _worth(gamma: float, limit: int | None) -> float:
    """Σ γᵗ over an episode of `limit` steps."""
    if gamma == 1:
        return float(limit or 1000)
    return (1 - gamma ** (limit or 10**9)) / (1 - gamma)


def _best_rate(rewards: list[Array], window: int) -> float:
    """The best mean of any `window` steps; of the whole episode if it is shorter."""
    best = -np.inf
    for reward in rewards:
        size = min(window, len(reward))
        total = np.concatenate([[0.0], np.cumsum(reward)])
        best = max(best, float((total[size:] - total[:-size]).max() / size))
    return best


def _shows_time(traces: list[Trace]) -> bool:
    """Whether an entry of the observation is a clock: equal in all episodes at each step, and changing."""
    rows = np.array([t.obs for t in traces])
    alike, moving = np.ptp(rows, axis=0).max(0) < 1e-9, np.ptp(rows[0], axis=0) > 0
    return bool((alike & moving).any())
