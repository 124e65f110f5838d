"""Which level is at fault, by what each of them does beside an ideal other one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cairn.core.format import percent
from cairn.doctor.finding import Finding, plural
from cairn.doctor.levels.figures import Asked, Figures

GOOD = 0.9  # success from which no level is at fault
LOSS = 0.15  # of the episodes: what a level at fault costs at least
MUCH = 0.5  # of the larger loss: a second level that costs as much is at fault too
SEEN = 0.5  # share of the reachable cells below which exploration is too narrow
FALLS = 0.1  # share of episodes with a fall that is worth a finding
REACHED = 0.5  # share of near subgoals that a low level reaches which can follow at all
FOLLOWS = 0.5  # share of the way to its subgoals from which a low level follows
COVERED = 0.2  # share of the way to its subgoals below which a low level does not follow
FAR = 0.25  # share of subgoals beyond that worth a finding


@dataclass(frozen=True)
class Evidence:
    """What was measured. `mapped`: the oracle knew the walls. `seen` of the reachable `cells` were visited."""

    own: Figures
    oracle: Figures | None = None
    ideal: Figures | None = None
    mapped: bool = False
    lost: int = 0  # goals without a way in the reachable region
    goals: int = 0
    cells: int | None = None
    seen: int | None = None


def share(value: float) -> str:
    """A share of some episodes as text."""
    return percent(round(value, 2))


def losses(e: Evidence) -> tuple[float, float]:
    """The share of episodes that the low and the high level cost.

    The low level costs what waypoints over it miss, and what ideal steps would add; the high level what waypoints would
    add, and what it misses although its subgoals are reached. Without a map waypoints may lead into a wall: then they
    count against the low level for no more than the share of the distance to its subgoals that it does not cover.
    """
    success = e.own.success or 0.0
    missed = 0.0 if e.own.covered is None else 1 - e.own.covered
    low, high = [0.0], [0.0]
    if e.oracle is not None and e.oracle.success is not None:
        low.append(1 - e.oracle.success if e.mapped else min(1 - e.oracle.success, missed))
        high.append(e.oracle.success - success)
    elif e.ideal is None:
        low.append(missed)
    if e.ideal is not None and e.ideal.success is not None:
        low.append(e.ideal.success - success)
        high.append(1 - e.ideal.success)
    elif not e.mapped:
        high.append(1 - missed - success)
    return max(low), max(high)


def verdict(e: Evidence) -> tuple[str, Finding | None]:
    """A sentence that names the level at fault, and the finding if there is one."""
    success = e.own.success
    if success is None:
        return _without_success(e)
    told = f"this policy succeeds in {share(success)} of {plural(e.own.episodes, 'episode')}"
    if success >= GOOD:
        return f"No level is at fault: {told}.", None
    measured = _measured(e)
    if _unknown(e):
        what = "It cannot be told which level is at fault: waypoints on the straight line may lead into a wall."
        remedy = "Declare the region of reachable subgoals as `reachable` of the task, or the way as its `waypoints`."
        return what, Finding("level-unknown", "hint", what, measured, remedy)
    low, high = losses(e)
    low_fault, high_fault = (loss >= LOSS and loss >= MUCH * max(low, high) for loss in (low, high))
    if low_fault and high_fault:
        what = f"Both levels are at fault, the {'low' if low > high else 'high'} level more: {told}."
        remedy = f"{LOW_REMEDY} Then train the high level over it."
        return what, Finding("both-levels", "warning", what, measured, remedy)
    if low_fault:
        what = f"The low level is at fault: {_low_because(e)}."
        return what, Finding("low-level", "warning", what, measured, LOW_REMEDY)
    if high_fault:
        what = f"The high level is at fault: {_high_because(e)}."
        return what, Finding("high-level", "warning", what, measured, HIGH_REMEDY)
    return f"Neither level is shown to be at fault alone: {told}.", None


LOW_REMEDY = (
    "Train the low level first and alone (agent.subgoals random), or let it see more, and ask it for subgoals that it"
    " reaches (agent.subgoal_range)."
)
HIGH_REMEDY = (
    "Let the high level explore (agent.explore), use hindsight (agent.high_hindsight), and show it what its decisions"
    " depend on; freeze the low level meanwhile (agent.freeze low)."
)


def _unknown(e: Evidence) -> bool:
    """Whether walls that nobody told of may explain what both levels miss."""
    if e.mapped or e.ideal is not None or e.oracle is None or e.own.covered is None:
        return False
    return (e.oracle.success or 0.0) < (e.own.success or 0.0) + LOSS and e.own.covered < FOLLOWS


def _without_success(e: Evidence) -> tuple[str, Finding | None]:
    """The verdict for a task that does not tell success."""
    if e.own.covered is None:
        return "Nothing can be told: no subgoal had its time.", None
    if e.own.covered < COVERED:
        what = f"The low level is at fault: {_low_because(e)}."
        return what, Finding("low-level", "warning", what, _measured(e), LOW_REMEDY)
    told = f"the low level covers {share(e.own.covered)} of the way to its subgoals"
    return f"No level can be blamed, because the task does not tell success: {told}.", None


def _low_because(e: Evidence) -> str:
    if e.oracle is not None and e.oracle.success is not None:
        return f"oracle waypoints over it succeed in {share(e.oracle.success)}"
    if e.ideal is not None and e.ideal.success is not None:
        return f"with an ideal low level this high level succeeds in {share(e.ideal.success)}"
    return f"it covers {share(e.own.covered or 0.0)} of the way to its subgoals"


def _high_because(e: Evidence) -> str:
    success = share(e.own.success or 0.0)
    better = e.oracle is not None and e.oracle.success is not None and e.oracle.success > (e.own.success or 0.0)
    if e.oracle is not None and e.oracle.success is not None and better:
        return f"oracle waypoints over the same low level succeed in {share(e.oracle.success)}, its own in {success}"
    if e.ideal is not None and e.ideal.success is not None:
        return f"it succeeds in {share(e.ideal.success)} even where each of its subgoals is reached"
    covered = share(e.own.covered or 0.0)
    return f"the low level covers {covered} of the way to its subgoals, and {success} of the episodes succeed"


def _measured(e: Evidence) -> str:
    parts = [("this policy", e.own), ("oracle waypoints", e.oracle), ("ideal low level", e.ideal)]
    told = [f"{name} {share(one.success)}" for name, one in parts if one is not None and one.success is not None]
    if e.own.reached is not None and e.own.covered is not None:
        told.append(f"subgoals reached {share(e.own.reached)}, way to them covered {share(e.own.covered)}")
    return ", ".join(told)


def findings(e: Evidence) -> Iterator[Finding]:
    """The verdict's finding, and what else the figures show."""
    named = verdict(e)[1]
    if named is not None:
        yield named
    if e.lost:
        yield Finding(
            "no-way",
            "warning",
            "The reachable region of the task has no way from the start to a goal.",
            f"{e.lost} of {plural(e.goals, 'goal')}; its waypoints were on the straight line",
            "Let `reachable` of the task cover the way, with boxes that touch each other, and draw goals inside.",
        )
    far = _too_far(e.own.asked)
    if far is not None and (e.own.success or 0.0) < GOOD:
        yield far
    if e.cells and e.seen is not None and e.seen < SEEN * e.cells and (e.own.success or 0.0) < GOOD:
        yield Finding(
            "goal-space-unseen",
            "hint",
            "Most of the reachable region was never visited.",
            f"{e.seen} of {plural(e.cells, 'cell')}",
            "Explore by directed subgoals: agent.explore, with cells small enough to tell places apart (agent.cell).",
        )
    if e.own.fell is not None and e.own.fell >= FALLS:
        yield Finding(
            "falls",
            "warning",
            "The agent falls.",
            f"in {share(e.own.fell)} of the episodes, {e.own.falls_per_1000:.2g} falls per 1,000 steps",
            "Train the low level where a fall costs: a longer discount (agent.low.gamma), or a task of its own that"
            " ends with a fall.",
        )


def _too_far(asked: tuple[Asked, ...]) -> Finding | None:
    """The finding that the high level asks for subgoals farther than the low level follows."""
    known = [one for one in asked if one.reached is not None]
    for k in range(1, len(known)):
        near, beyond = known[:k], known[k:]
        reached = _reached(near)
        asked_beyond = sum(one.share for one in beyond)
        if reached >= REACHED and _reached(beyond) < reached / 2 and asked_beyond >= FAR:
            return Finding(
                "subgoals-too-far",
                "hint",
                "The high level asks for subgoals farther than the low level follows.",
                f"up to {near[-1].most:.3g} it reaches {share(reached)}, beyond {share(_reached(beyond))};"
                f" {share(asked_beyond)} of the subgoals are beyond",
                f"Lower agent.subgoal_range to about {near[-1].most:.2g}, or give a subgoal more steps (agent.every).",
            )
    return None


def _reached(ranges: list[Asked]) -> float:
    """The share of the subgoals of some ranges that was reached."""
    count = sum(one.count for one in ranges)
    return sum(one.count * (one.reached or 0.0) for one in ranges) / max(count, 1)
