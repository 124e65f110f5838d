"""evaluations.npz: every episode of every evaluation of a run, in the format of SB3's EvalCallback."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cairn.core.errors import CairnError
from cairn.core.untrusted import MIB
from cairn.core.untrusted_zip import read_npz

EVALUATIONS = "evaluations.npz"
LARGEST = 256 * MIB  # bytes of the file


class Evaluation(NamedTuple):
    """One evaluation: the step of the run, and the return, length and success of each episode."""

    step: int
    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    successes: tuple[bool | None, ...]


def as_arrays(rows: Sequence[Evaluation]) -> dict[str, Any]:
    """The arrays timesteps [n], results [n, episodes], ep_lengths and, if any success was reported, successes."""
    if len({len(row.returns) for row in rows}) > 1:
        raise CairnError("evaluations of different numbers of episodes cannot be kept in one file.")
    steps, returns, lengths, successes = (list(column) for column in zip(*rows, strict=True))
    out: dict[str, Any] = {"timesteps": steps, "results": returns, "ep_lengths": lengths}
    if any(s is not None for row in successes for s in row):
        out["successes"] = np.array(successes, bool)
    return out


def read_evaluations(path: Path) -> list[Evaluation]:
    """The evaluations in such a file. Raises NotThere without it, CairnError where it is damaged."""
    found = read_npz(path, ("timesteps", "results", "ep_lengths"), optional=("successes",), most=LARGEST)
    steps, results, lengths, told = (found.get(k) for k in ("timesteps", "results", "ep_lengths", "successes"))
    assert steps is not None and results is not None and lengths is not None  # read_npz checked this
    fit = results.ndim == 2 and lengths.shape == results.shape and steps.shape == results.shape[:1]
    if not fit or (told is not None and told.shape != results.shape):
        raise CairnError(f"{path} is damaged: its arrays do not fit one another.")
    try:
        successes = np.full(results.shape, None) if told is None else told.astype(bool)
        return [
            Evaluation(int(step), tuple(map(float, row)), tuple(map(int, many)), tuple(flags.tolist()))
            for step, row, many, flags in zip(steps, results, lengths, successes, strict=True)
        ]
    except (TypeError, ValueError, OverflowError) as error:  # text, NaN or infinity instead of an integer
        raise CairnError(f"{path} is damaged: it holds values that are not numbers.") from error


def checksum(rows: Sequence[Evaluation]) -> int:
    """A checksum of the evaluations themselves: the bytes of a zip differ each time it is written."""
    plain = [(s, [*map(float, r)], [*map(int, n)], [*map(bool, told)]) for s, r, n, told in rows]
    return zlib.crc32(repr(plain).encode())
