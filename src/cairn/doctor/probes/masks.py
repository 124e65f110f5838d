"""Whether action masks allow what the task rewards, and agree with what it does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cairn.core.types import Array
from cairn.doctor.copies import Raised
from cairn.doctor.finding import Finding, plural
from cairn.doctor.play import draw, with_option
from cairn.doctor.task_probe import TaskProbe

TRIALS, SHARE = 160, 0.15  # half of them with a forbidden action, and their share of the time
LEAD = 12  # allowed steps at most before a trial
MARGIN = 0.1  # of the range of rewards
CHANCE = 0.2  # of the range of rewards, and of the trials, by which two samples may differ
FEW, SOME, MANY = 3, 8, 20  # trials needed for a finding
SEEN = 500  # masks needed to say that an option is never allowed


@dataclass(frozen=True)
class Trial:
    """What an action did: `forbidden` by the mask or allowed. `raised` where step() raised an error."""

    forbidden: bool
    reward: float = 0.0
    changed: bool = False
    raised: bool = False


def agree(p: TaskProbe) -> Iterator[Finding]:
    """Tries forbidden actions, which training never does, and compares what they do with allowed ones."""
    if not p.spec.masked:
        return
    trials = _trials(p)
    tried = [t for t in trials if t.forbidden]
    forbidden, allowed = ([t for t in trials if t.forbidden is which and not t.raised] for which in (True, False))
    if len(forbidden) < FEW or len(allowed) < FEW:
        return
    paid = np.concatenate([*(t.reward for t in p.plays), [t.reward for t in allowed]])
    got = np.array([t.reward for t in forbidden])
    if not (np.isfinite(paid).all() and np.isfinite(got).all()):
        return
    margin = MARGIN * float(np.ptp(np.concatenate([paid, got])))
    best = paid.max()
    better = int((got > best + margin).sum()) if margin > 0 else 0
    if better >= FEW:
        yield Finding(
            "mask-forbids-best",
            "warning" if got.max() > 0 else "hint",
            "The best reward that was seen is paid for forbidden actions only.",
            f"{better} of {len(tried)} forbidden actions that were tried paid more than any allowed one, up to"
            f" {got.max():.4g}; {len(paid):,} allowed ones paid at most {best:.4g}",
            "Check that the mask has 1 for allowed and 0 for forbidden options, in the order of the action space, and"
            " belongs to the state after the step.",
        )
    elif _refuses(allowed, forbidden):
        same = sum(not t.changed and t.reward == got[0] for t in allowed)
        yield Finding(
            "mask-contradicts",
            "warning",
            "The task refuses actions that its mask allows.",
            f"{plural(same, 'allowed action')} of {len(allowed)} did what all {len(forbidden)} forbidden ones did:"
            f" nothing changed, and the reward was {got[0]:.4g}, the lowest",
            "Let the mask forbid them too: it must be that of the observation it comes with.",
        )
    elif _alike(allowed, forbidden, paid) and len(forbidden) == len(tried):
        yield Finding(
            "mask-needless",
            "hint",
            "The task takes forbidden actions like any others.",
            f"of {len(forbidden)} forbidden actions that were tried none raised an error, and rewards lay between those"
            f" of allowed ones, {paid.min():.4g} to {paid.max():.4g}",
            "If they should be impossible, look whether the mask is in the order of the action space.",
        )


def allows(p: TaskProbe) -> Iterator[Finding]:
    """Each option should be allowed at some time."""
    if not p.spec.masked:
        return
    rows = np.concatenate([t.obs for t in p.plays])[:, p.view.columns("mask")]
    never = np.flatnonzero(~(rows > 0).any(0))
    if len(rows) >= SEEN and len(never):
        shown = ", ".join(map(str, never[:6])) + (f" and {len(never) - 6} more" if len(never) > 6 else "")
        yield Finding(
            "mask-never-allows",
            "hint",
            "Some options of the action were never allowed.",
            f"{'entry' if len(never) == 1 else 'entries'} {shown} of the mask in {len(rows):,} observations",
            "If play that is better than random does not allow them either, leave them out of the action space.",
        )


def _refuses(allowed: list[Trial], forbidden: list[Trial]) -> bool:
    """Whether forbidden actions are answered in one way, the worst, and some allowed ones in the same way."""
    answer = {(t.changed, t.reward) for t in forbidden}
    if len(forbidden) < SOME or len(answer) > 1 or forbidden[0].changed:
        return False
    others = [t for t in allowed if t.changed or t.reward != forbidden[0].reward]
    same = len(allowed) - len(others)
    worst = bool(others) and all(t.reward > forbidden[0].reward for t in others)
    return worst and same >= FEW and len(others) >= FEW


def _alike(allowed: list[Trial], forbidden: list[Trial], paid: Array) -> bool:
    """Whether forbidden actions change what is seen about as often as allowed ones, and are paid alike."""
    if min(len(allowed), len(forbidden)) < MANY:
        return False
    low, high = paid.min(), paid.max()
    inside = all(low <= t.reward <= high for t in forbidden)
    moves = [np.mean([t.changed for t in some]) for some in (forbidden, allowed)]
    mean = [np.mean([t.reward for t in some]) for some in (forbidden, allowed)]
    return bool(inside and abs(mean[0] - mean[1]) <= CHANCE * (high - low) and moves[0] >= moves[1] - CHANCE)


def _trials(p: TaskProbe) -> list[Trial]:
    """Forbidden and allowed actions in turn, each after some allowed steps from a reset."""
    copy, until = p.first, time.perf_counter() + SHARE * p.case.seconds
    trials: list[Trial] = []
    while len(trials) < TRIALS and time.perf_counter() < until:
        before = copy.reset()
        for _ in range(int(p.rng.integers(LEAD + 1))):
            obs, _, terminated, truncated, _ = copy.step(draw(copy.action_space, p.rng))
            before = copy.reset() if terminated or truncated else obs
        wanted = len(trials) % 2 == 0
        action = _one(p, wanted)
        if action is None:  # nothing is forbidden here
            wanted, action = False, copy.allowed(draw(copy.action_space, p.rng))
        try:
            after, reward, *_ = copy.raw_step(action)
        except Raised as raised:
            if not wanted:
                raise
            if raised.during != "step":
                continue
            trials.append(Trial(True, raised=True))
            continue
        trials.append(Trial(wanted, reward, bool((_seen(p, copy.flat(after)) != _seen(p, before)).any())))
    return trials


def _one(p: TaskProbe, forbidden: bool) -> Any:
    """An action of which one option is forbidden, or none is; None where nothing is forbidden."""
    copy = p.first
    action = copy.allowed(draw(copy.action_space, p.rng))
    if not forbidden:
        return action
    assert copy.mask is not None
    which = np.flatnonzero(~copy.mask)
    return with_option(copy.action_space, action, int(p.rng.choice(which))) if len(which) else None


def _seen(p: TaskProbe, flat: Array) -> Array:
    """What networks see of a flat observation: the mask is left out."""
    return flat[: p.view.size - p.spec.masked]
