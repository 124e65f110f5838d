"""Whether an observation shows how fast things move."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cairn.core.calls import option
from cairn.core.types import Array
from cairn.doctor.finding import Finding
from cairn.doctor.task_probe import TaskProbe

ROWS = 200  # steps needed
ENTRIES = 40  # of an observation and an action together, above which their products are left out
FEW = 4  # rows for each number that is fitted
UNKNOWN = 0.3  # share of a change that the last observation leaves unexplained
KNOWN = 0.15  # and what is left of it, with the one before
FACTOR = 4.0  # by which it must become less
RESTING = 0.01  # share of steps
WIDEST = 8.0  # standard deviations; rarer values would dominate the fit
RIDGE = 1e-3


@dataclass(frozen=True)
class Moves:
    """Steps of random play in standard deviations: obs [N, D], action [N, A], the changes before and after [N, D]."""

    obs: Array
    action: Array
    before: Array
    after: Array
    rests: Array  # [N, D] bool: the entry did not change before or after this step
    columns: Array  # of the thinned observation, [D]


def speed_shown(p: TaskProbe) -> Iterator[Finding]:
    """The last observation must say as much about the next one as the last two.

    The change of each entry is predicted from the observation and the action, and once more with the change before it.
    Halves of the steps predict each other. Where a position is shown without its speed, only the second works. An entry
    that often rests, as at a wall, is judged by the steps in which it moves: that it stops there is no linear function
    of anything, and that it goes on resting is easily predicted.
    """
    if p.case.remembers:
        return
    moves = _moves(p)
    if moves is None:
        return
    seen = np.concatenate([moves.obs, moves.action], 1)
    if seen.shape[1] <= ENTRIES:
        seen = _with_products(seen)
    if FEW * (seen.shape[1] + moves.before.shape[1]) > len(seen):
        return
    alone, both = _both_ways(seen, moves)
    hidden = (alone >= UNKNOWN) & (both <= KNOWN) & (both * FACTOR <= alone)
    if not hidden.any():
        return
    worst = int(np.where(hidden, alone - both, -np.inf).argmax())
    which = np.zeros(len(p.view.index), bool)
    which[moves.columns[hidden]] = True
    yield Finding(
        "speed-hidden",
        "warning",
        "Something moves, and the observation does not show how fast: the one before it must be known too.",
        f"{p.view.named(which)}: {min(alone[worst], 1):.0%} of the next change of"
        f" {p.view.entry(int(moves.columns[worst]))} cannot be predicted from the observation and the action, and"
        f" {both[worst]:.0%} if the change before it is known",
        f"Show the speed in the observation, join the last two ({option('history', '2')}), or use agent.memory.",
    )


def _moves(p: TaskProbe) -> Moves | None:
    """All steps of random play that follow another one; None where they are too few or nothing moves."""
    columns = np.flatnonzero(p.view.numbers)
    traces = [t for t in p.plays if t.length > 1]
    if not len(columns) or sum(t.length - 1 for t in traces) < ROWS:
        return None
    obs = [t.obs[:, columns].astype(float) for t in traces]
    seen = np.concatenate([o[1:-1] for o in obs])
    before = np.concatenate([o[1:-1] - o[:-2] for o in obs])
    after = np.concatenate([o[2:] - o[1:-1] for o in obs])
    action = np.concatenate([t.action[1:].reshape(t.length - 1, -1).astype(float) for t in traces])
    moving = (seen.std(0) > 1e-9) & (after.std(0) > 1e-9) & np.isfinite(seen).all(0) & np.isfinite(after).all(0)
    if not moving.any():
        return None
    rests = ((np.abs(before) < 1e-9) | (np.abs(after) < 1e-9))[:, moving]
    seen, before, after = (_standard(part[:, moving]) for part in (seen, before, after))
    return Moves(seen, _standard(action), before, after, rests, columns[moving])


def _both_ways(seen: Array, moves: Moves) -> tuple[Array, Array]:
    """What is left unexplained of each entry [D], by `seen` alone and with the changes before."""
    more = np.concatenate([seen, moves.before], 1)
    alone, both = _unexplained(seen, moves.after), _unexplained(more, moves.after)
    for entry in np.flatnonzero((moves.rests.mean(0) > RESTING) & (alone >= UNKNOWN)):
        kept = ~moves.rests[:, entry]
        if kept.sum() < max(ROWS, FEW * more.shape[1]):
            alone[entry] = both[entry] = 0.0  # it moves too rarely to tell
            continue
        after = moves.after[kept, entry : entry + 1]
        alone[entry], both[entry] = (float(_unexplained(rows[kept], after)[0]) for rows in (seen, more))
    return alone, both


def _standard(rows: Array) -> Array:
    spread = rows.std(0)
    scaled: Array = np.clip((rows - rows.mean(0)) / np.where(spread > 1e-9, spread, 1.0), -WIDEST, WIDEST)
    return scaled


def _with_products(rows: Array) -> Array:
    """[N, K] with the products of all pairs, so that rotations and forces that depend on a state can be fitted."""
    i, j = np.triu_indices(rows.shape[1])
    return np.concatenate([rows, _standard(rows[:, i] * rows[:, j])], 1)


def _unexplained(seen: Array, after: Array) -> Array:
    """The share [D] of the variance of `after` [N, D] that a linear fit on `seen` [N, K] leaves, on the other half."""
    rows = np.concatenate([np.ones((len(seen), 1)), seen], 1)
    first = np.arange(len(rows)) < len(rows) // 2
    left = np.zeros(after.shape[1])
    for half in (first, ~first):
        x = rows[half]
        gram = x.T @ x + RIDGE * len(x) * np.eye(x.shape[1])
        left += ((after[~half] - rows[~half] @ np.linalg.solve(gram, x.T @ after[half])) ** 2).sum(0)
    share: Array = left / np.maximum(((after - after.mean(0)) ** 2).sum(0), 1e-12)
    return share
