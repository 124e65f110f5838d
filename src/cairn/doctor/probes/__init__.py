"""The probes. Each is a function of a TaskProbe that yields findings about one question.

Likely causes come first: of two findings with equal severity, the earlier one is listed first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from cairn.doctor.finding import Finding
from cairn.doctor.probes import (
    actions,
    api,
    ends,
    goals,
    masks,
    memory,
    motion,
    observations,
    pictures,
    resets,
    rewards,
    time,
    upkeep,
)
from cairn.doctor.task_probe import TaskProbe

Probe = Callable[[TaskProbe], Iterator[Finding]]

FIRST: tuple[Probe, ...] = (api.version, api.interface)  # after an error here nothing can be measured
PROBES: tuple[Probe, ...] = (
    resets.repeats,
    resets.forgets,
    ends.dying_pays,
    resets.variety,
    resets.shared,
    observations.finite,
    pictures.legible,
    masks.agree,
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
    masks.allows,
    memory.history,
    motion.speed_shown,
    rewards.seen,
    rewards.scale,
    upkeep.speed,
    actions.effect,  # the slowest probes come last, to be skipped if time runs out
    actions.bounds,
    upkeep.leaks,
)
