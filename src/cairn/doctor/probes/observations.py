"""Whether observations are suitable for learning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cairn.core.calls import option
from cairn.core.types import Array
from cairn.doctor.finding import Finding, plural
from cairn.doctor.play import draw
from cairn.doctor.task_probe import TaskProbe
from cairn.doctor.view import Part

LARGE, HUGE = 100.0, 10_000.0  # root mean squares of an entry; networks expect about 1
FAR = 10.0  # widths of the space beyond which the unit is probably wrong
MOVES = 64
STATE, FEW = 0.3, 30  # correlation that shows a hidden state, and steps needed to measure it


def finite(p: TaskProbe) -> Iterator[Finding]:
    """Observations must not contain NaN or infinity."""
    rows = _rows(p)
    bad = ~np.isfinite(rows)
    if bad.any():
        yield Finding(
            "obs-not-finite",
            "error",
            "Observations hold NaN or infinity.",
            f"in {int(bad.any(1).sum()):,} of {len(rows):,} observations, {p.view.named(np.flatnonzero(bad.any(0)))}",
            "Look for a division by zero or a simulation that blew up; end the episode before it does.",
        )


def inside(p: TaskProbe) -> Iterator[Finding]:
    """Observations must lie in their space."""
    low, high = p.view.bounds(p.first.env.observation_space)
    rows = _rows(p)
    width = np.where(np.isfinite(high - low), high - low, np.inf)
    over = np.maximum(low - rows, rows - high)
    out = over > 1e-6 * np.maximum(1.0, np.abs(rows))
    if not out.any():
        return
    far = bool((over > FAR * np.maximum(width, 1e-9)).any())
    worst = int(np.argmax(over.max(0)))
    yield Finding(
        "obs-outside",
        "warning" if far else "hint",
        "Observations leave their space.",
        f"{int(out.any(1).sum()):,} of {len(rows):,}, {p.view.named(np.flatnonzero(out.any(0)))};"
        f" {p.view.entry(worst)} came to {rows[np.argmax(over[:, worst]), worst]:.4g} where {low[worst]:.4g} to"
        f" {high[worst]:.4g} is declared",
        "Widen observation_space; agents that scale by its bounds are misled.",
    )


def informative(p: TaskProbe) -> Iterator[Finding]:
    """Parts and entries that never change, or copy others, carry no information."""
    rows, view = _rows(p), p.view
    still = (np.ptp(rows, axis=0) == 0) & ~_moved(p)
    if still.all():
        yield _constant(p, len(rows))
        return
    quiet = [part for part in view.parts if part.form != "mask" and part.thin.stop > part.thin.start]
    quiet = [part for part in quiet if still[part.thin].all() and view.own[part.thin].all()]
    for part in quiet if len(view.parts) > 1 else []:
        yield _quiet(part, len(rows))
        still[part.thin] = False
    entries = np.flatnonzero(still & view.numbers)
    if len(entries):
        yield Finding(
            "obs-constant",
            "hint",
            f"{plural(len(entries), 'entry').replace('entrys', 'entries')} of the observation never changed.",
            f"{view.named(entries)} in {len(rows):,} observations",
            "Leave them out, unless play that is better than random moves them.",
        )
    changing = np.flatnonzero(view.numbers & (np.ptp(rows, axis=0) > 0))
    twins = _twins(rows, changing)
    if twins:
        yield Finding(
            "obs-duplicated",
            "hint",
            "Entries of the observation are copies of one another.",
            ", ".join(f"{_which(p, a)} = {_which(p, b)}" for a, b in twins[:5])
            + f"; {plural(len(twins), 'pair')} in all",
            "Leave one of each out, or look whether the second was meant to be something else.",
        )


def _quiet(part: Part, count: int) -> Finding:
    picture = part.form == "image"
    return Finding(
        "obs-part-constant",
        "warning" if picture else "hint",
        f"The {'picture' if picture else 'part'} {part.name!r} of the observation never changed.",
        f"the same in {count:,} observations",
        "Check whether it is drawn anew at each step; a network that reads it learns nothing from it."
        if picture
        else "Leave it out, unless play that is better than random changes it.",
    )


def _moved(p: TaskProbe) -> Array:
    """Which thinned columns belong to an image that did change, perhaps where the thinned one does not show it."""
    moved = np.zeros(len(p.view.index), bool)
    for part in p.view.parts:
        moved[part.thin] = part.form == "image" and p.first.first_values.get(part.name, 0) is None
    return moved


def _which(p: TaskProbe, column: int) -> str:
    """A column in short: its number, with the name of its part where there are several."""
    [part] = [part for part in p.view.parts if part.thin.start <= column < part.thin.stop]
    name = part.name if p.spec.parts else ""
    return f"{name}[{p.view.index[column] - part.at.start}]" if name else str(p.view.index[column])


def _constant(p: TaskProbe, count: int) -> Finding:
    """A constant observation is enough for a bandit; otherwise the task hides a state."""
    seen = f"{count:,} observations of {plural(len(p.plays), 'episode')}, all the same"
    state = _hidden_state(p)
    if state < STATE:
        return Finding(
            "obs-constant",
            "hint",
            "The observation never changes: there is one state, as in a bandit.",
            f"{seen}; rewards do not depend on the steps before (correlation {state:.2f})",
            "If the task has a state, return it as it is after the step.",
        )
    return Finding(
        "obs-constant",
        "error",
        "The observation never changes.",
        f"{seen}; rewards depend on a state that is not shown (correlation {state:.2f} from step to step)",
        "Return the state as it is after the step, not one that was stored at reset.",
    )


def _hidden_state(p: TaskProbe) -> float:
    """How much of the reward depends on a hidden state: the correlation of residuals of successive steps, 0 to 1."""
    traces = [t for t in p.plays if t.length > 1 and t.behaviour == "uniform" and np.isfinite(t.reward).all()]
    if not traces:
        return 0.0
    action, reward = np.concatenate([t.action for t in traces]), np.concatenate([t.reward for t in traces])
    features = np.column_stack([np.ones(len(action)), action, action**2])
    rest = reward - features @ np.linalg.lstsq(features, reward, rcond=None)[0]
    parts = np.split(rest, np.cumsum([t.length for t in traces])[:-1])
    now, then = np.concatenate([x[1:] for x in parts]), np.concatenate([x[:-1] for x in parts])
    if len(now) < FEW or min(now.std(), then.std()) < 1e-9 * max(1.0, float(np.abs(reward).max())):
        return 0.0
    return max(0.0, float(np.corrcoef(now, then)[0, 1]))


def scale(p: TaskProbe) -> Iterator[Finding]:
    """Entries should be about 1 in size; entries of thousands dominate the others."""
    if p.images or p.case.normalises:
        return
    size = np.where(p.view.columns("numbers"), np.sqrt((_rows(p) ** 2).mean(0)), 0.0)
    large = np.flatnonzero(size > LARGE)
    if not len(large):
        return
    worst = int(size.argmax())
    yield Finding(
        "obs-scale",
        "warning" if size[worst] > HUGE else "hint",
        "Some entries of the observation are far larger than others.",
        f"root mean square above {LARGE:g}: {p.view.named(large)}; {p.view.entry(worst)} {size[worst]:.4g}, the median"
        f" entry {float(np.median(size[p.view.columns('numbers')])):.3g}",
        f"Scale them in the task, or use {option('agent.normalise')}.",
    )


def mutated(p: TaskProbe) -> Iterator[Finding]:
    """An observation that was returned must not change later."""
    copy = p.first
    obs = copy.raw_reset(seed=0)
    for step in range(MOVES):
        before = _parts(obs)
        copies = [part.copy() for part in before]
        obs, _, terminated, truncated, _ = copy.raw_step(copy.allowed(draw(copy.action_space, p.rng)))
        if any(not np.array_equal(a, b, equal_nan=True) for a, b in zip(before, copies, strict=True)):
            yield Finding(
                "obs-mutated",
                "warning",
                "step() overwrites the observation it returned before.",
                f"the observation of step {step} had other values after step {step + 1}",
                "Return a copy: replay buffers would store the same array many times.",
            )
            return
        if terminated or truncated:
            obs = copy.raw_reset()


def _rows(p: TaskProbe) -> Array:
    return np.concatenate([trace.obs for trace in p.plays])


def _parts(obs: Any) -> list[Array]:
    """The arrays of an observation, not copied."""
    if isinstance(obs, dict):
        return [array for part in obs.values() for array in _parts(part)]
    if isinstance(obs, (tuple, list)):
        return [array for part in obs for array in _parts(part)]
    return [obs] if isinstance(obs, np.ndarray) else []


def _twins(rows: Array, changing: Array) -> list[tuple[int, int]]:
    """Pairs of these columns that are always equal, each column with its first copy."""
    seen: dict[bytes, int] = {}
    pairs = []
    for i in changing.tolist():
        first = seen.setdefault(np.ascontiguousarray(rows[:, i]).tobytes(), i)
        if first != i:
            pairs.append((first, i))
    return pairs
