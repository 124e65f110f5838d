"""Whether rewards are suitable for learning."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cairn.core.calls import option
from cairn.doctor.finding import Finding, plural
from cairn.doctor.play import Trace
from cairn.doctor.task_probe import TaskProbe

LARGE, SMALL = 1e5, 1e-3  # discounted returns that a critic should not have to fit
FEW = 200  # steps needed for a finding about what was never seen


def finite(p: TaskProbe) -> Iterator[Finding]:
    """Rewards must not be NaN or infinite."""
    rewards = np.concatenate([t.reward for t in p.plays])
    bad = int((~np.isfinite(rewards)).sum())
    if bad:
        yield Finding(
            "reward-not-finite",
            "error",
            "Rewards are NaN or infinite.",
            f"{bad:,} of {len(rewards):,} steps",
            "Look for a division by zero or the logarithm of one; a single such reward ends all learning.",
        )


def seen(p: TaskProbe) -> Iterator[Finding]:
    """Random play must meet different rewards or ends, or there is nothing to learn from."""
    if sum(t.length for t in p.plays) < FEW:
        return
    if not _any(p.plays) and p.goal is None:
        p.play_on(p.plays, lambda: _any(p.plays[-1:]))  # look longer for rare rewards
    uniform = [t for t in p.plays if t.behaviour == "uniform" and t.length]
    if _any(p.plays):
        if uniform and not _any(uniform):
            yield from _only_when_held(p, uniform[0].reward[0])
        return
    rewards = np.concatenate([t.reward for t in p.plays])
    constant = f"{rewards[0]:g} in each of {len(rewards):,} steps, {plural(len(p.plays), 'episode')}, none terminated"
    if p.goal is not None:
        if not p.case.hindsight:
            yield Finding(
                "reward-unseen",
                "hint",
                "Random play never reaches a goal.",
                f"reward {constant}",
                f"Use {option('hindsight', 'future')}: it learns from the goals that were reached instead.",
            )
        return
    yield Finding(
        "reward-constant",
        "warning",
        "The reward never changed and no episode ended early: nothing can be learned from what was seen.",
        f"reward {constant}, uniform actions and held ones",
        "Reward progress, begin some episodes near the reward, or bring demonstrations"
        f" ({option('demos')}, {option('expert')}).",
    )


def _any(traces: list[Trace]) -> bool:
    """Whether rewards differ, or an episode terminated."""
    return len({r for t in traces for r in t.reward}) > 1 or any(t.terminated for t in traces)


def _only_when_held(p: TaskProbe, reward: float) -> Iterator[Finding]:
    if p.goal is None:
        yield Finding(
            "reward-needs-holding",
            "hint",
            "Random play meets another reward only when actions are held for many steps.",
            f"{reward:g} in every step of every episode with fresh actions each step",
            "Explore with actions that last: a larger frame skip, sticky or correlated noise.",
        )


def scale(p: TaskProbe) -> Iterator[Finding]:
    """Discounted returns should be neither huge nor tiny."""
    rewards = np.concatenate([t.reward for t in p.plays])
    if not len(rewards) or not np.isfinite(rewards).all() or not rewards.any():
        return
    size = float(np.sqrt((rewards**2).mean()))
    horizon = min(1 / (1 - p.case.gamma) if p.case.gamma < 1 else np.inf, float(np.mean([t.length for t in p.plays])))
    returns = size * horizon
    if returns > LARGE or float(np.abs(rewards).max()) * horizon < SMALL:
        word, remedy = ("large", "Divide") if returns > LARGE else ("small", "Multiply")
        yield Finding(
            "reward-scale",
            "warning",
            f"Rewards are very {word}.",
            f"root mean square {size:.3g} a step, over {horizon:.0f} steps {returns:.3g}",
            f"{remedy} the reward so that returns lie between 1 and 1,000, or normalise it.",
        )
