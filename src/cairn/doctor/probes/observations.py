"""What a policy is shown."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces

from cairn.core.calls import option
from cairn.core.types import Array
from cairn.doctor.finding import Finding, plural
from cairn.doctor.play import draw
from cairn.doctor.task_probe import TaskProbe

LARGE, HUGE = 100.0, 10_000.0  # typical sizes of an entry; networks expect about 1
FAR = 10.0  # widths of the space: so far out, it is another unit
MOVES = 64
STATE, FEW = 0.3, 30  # a correlation that tells of a state, and the steps it takes to tell


def finite(p: TaskProbe) -> Iterator[Finding]:
    """No NaN, no infinity."""
    rows = _rows(p)
    bad = ~np.isfinite(rows)
    if bad.any():
        yield Finding(
            "obs-not-finite",
            "error",
            "Observations hold NaN or infinity.",
            f"in {int(bad.any(1).sum()):,} of {len(rows):,} observations, entries {_some(np.flatnonzero(bad.any(0)))}",
            "Look for a division by zero or a simulation that blew up; end the episode before it does.",
        )


def inside(p: TaskProbe) -> Iterator[Finding]:
    """Every observation lies in the space it is said to lie in."""
    env, low, high = p.first, *_bounds(p.first.env.observation_space)
    if low is None or high is None:
        return
    low, high = env.thin(low), env.thin(high)
    rows = _rows(p)
    width = np.where(np.isfinite(high - low), high - low, np.inf)
    over = np.maximum(low - rows, rows - high)
    out = over > 1e-6 * np.maximum(1.0, np.abs(rows))
    if not out.any():
        return
    far = bool((over > FAR * np.maximum(width, 1e-9)).any())
    where = np.flatnonzero(out.any(0))
    worst = int(np.argmax(over.max(0)))
    yield Finding(
        "obs-outside",
        "warning" if far else "hint",
        "Observations leave their space.",
        f"{int(out.any(1).sum()):,} of {len(rows):,}, entries {_some(where)}; entry {worst} came to"
        f" {rows[np.argmax(over[:, worst]), worst]:.4g} where {low[worst]:.4g} to {high[worst]:.4g} is declared",
        "Widen observation_space; agents that scale by its bounds are misled.",
    )


def informative(p: TaskProbe) -> Iterator[Finding]:
    """Entries that never change, or are another's copy, tell nothing."""
    rows = _rows(p)
    still = np.ptp(rows, axis=0) == 0
    if still.all():
        yield _constant(p, len(rows))
        return
    if p.images:
        return
    own = slice(0, p.spec.goal.observation if p.spec.goal is not None else None)
    quiet = np.flatnonzero(still[own])
    if len(quiet):
        yield Finding(
            "obs-constant",
            "hint",
            f"{plural(len(quiet), 'entry').replace('entrys', 'entries')} of the observation never changed.",
            f"entries {_some(quiet)} in {len(rows):,} observations",
            "Leave them out, unless play that is better than random moves them.",
        )
    twins = _twins(rows[:, own], still[own])
    if twins:
        yield Finding(
            "obs-duplicated",
            "hint",
            "Entries of the observation are copies of one another.",
            ", ".join(f"{a} = {b}" for a, b in twins[:5]) + f"; {plural(len(twins), 'pair')} in all",
            "Leave one of each out, or look whether the second was meant to be something else.",
        )


def _constant(p: TaskProbe, count: int) -> Finding:
    """To a bandit that is enough. Where rewards follow from a state, that state is hidden."""
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
    """How far what an action does not explain of a reward goes on to the next step: its correlation, 0 to 1."""
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
    """Networks expect entries of about 1; those of thousands drown the others."""
    if p.images or p.case.normalises:
        return
    size = np.sqrt((_rows(p) ** 2).mean(0))
    large = np.flatnonzero(size > LARGE)
    if not len(large):
        return
    worst = int(size.argmax())
    yield Finding(
        "obs-scale",
        "warning" if size[worst] > HUGE else "hint",
        "Some entries of the observation are far larger than others.",
        f"root mean square above {LARGE:g}: entries {_some(large)}; entry {worst} {size[worst]:.4g}, the median"
        f" entry {float(np.median(size)):.3g}",
        f"Scale them in the task, or use {option('agent.normalise')}.",
    )


def mutated(p: TaskProbe) -> Iterator[Finding]:
    """An observation that was returned must stay as it was."""
    copy = p.first
    obs, _ = p.ask("reset", lambda: copy.env.reset(seed=0))
    for step in range(MOVES):
        before = _parts(obs)
        copies = [part.copy() for part in before]
        action = draw(copy.action_space, p.rng)
        obs, _, terminated, truncated, _ = p.ask("step", partial(copy.env.step, action))
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
            obs, _ = p.ask("reset", copy.env.reset)


def _rows(p: TaskProbe) -> Array:
    return np.concatenate([trace.obs for trace in p.plays])


def _parts(obs: Any) -> list[Array]:
    """The arrays an observation is made of, not copies of them."""
    if isinstance(obs, dict):
        return [array for part in obs.values() for array in _parts(part)]
    if isinstance(obs, (tuple, list)):
        return [array for part in obs for array in _parts(part)]
    return [obs] if isinstance(obs, np.ndarray) else []


def _bounds(space: Any) -> tuple[Array | None, Array | None]:
    """Of the flat observation; None where it is not made of boxes."""
    if isinstance(space, spaces.Box):
        return space.low.ravel().astype(float), space.high.ravel().astype(float)
    if isinstance(space, spaces.Dict) and all(isinstance(part, spaces.Box) for part in space.values()):
        names = [name for name in ("observation", "achieved_goal", "desired_goal") if name in space.spaces]
        parts = [_bounds(space[name]) for name in names if len(names) == len(space.spaces)]
        if parts:
            return np.concatenate([low for low, _ in parts]), np.concatenate([high for _, high in parts])
    return None, None


def _twins(rows: Array, still: Array) -> list[tuple[int, int]]:
    """Pairs of columns that are equal throughout, each column with the first like it."""
    seen: dict[bytes, int] = {}
    pairs = []
    for i in np.flatnonzero(~still).tolist():
        first = seen.setdefault(np.ascontiguousarray(rows[:, i]).tobytes(), i)
        if first != i:
            pairs.append((first, i))
    return pairs


def _some(indices: Array) -> str:
    words = [str(i) for i in indices[:6].tolist()]
    return ", ".join(words) + (f" and {len(indices) - 6} more" if len(indices) > 6 else "")
