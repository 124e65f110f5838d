"""One question about a task each: a function of a TaskProbe that yields findings.

The likely causes come first: of two findings of equal severity the earlier is listed first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cairn.doctor.finding import Finding
from cairn.doctor.probes import actions, api, ends, goals, observations, resets, rewards, time, upkeep
from cairn.doctor.task_probe import TaskProbe

Probe = Callable[[TaskProbe], Iterator[Finding]]

FIRST: tuple[Probe, ...] = (api.version, api.interface)  # an error of theirs leaves nothing to be measured
PROBES: tuple[Probe, ...] = (
    resets.repeats,
    resets.forgets,
    ends.dying_pays,
    resets.variety,
    resets.shared,
    observations.finite,
    rewards.finite,
    time.horizon,
    goals.rule,
    goals.success,
    goals.reachable,
    ends.limit,
    ends.endless,
    time.control_rate,
    observations.inside,
    observations.informative,
    observations.scale,
    observations.mutated,
    rewards.seen,
    rewards.scale,
    upkeep.speed,
    actions.effect,  # this and the next are the longest: the first to be left out where time is short
    actions.bounds,
    upkeep.leaks,
)
