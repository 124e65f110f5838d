"""Arrays that environments write their steps into."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cairn.core.types import Array, Spec


@dataclass(frozen=True)
class StepBuffers:
    """One row per environment, possibly in memory that is shared with another process.

    score [N] and over [N] are for statistics: the true reward and end of an episode, before wrappers clip rewards or
    split episodes for the learner.
    """

    obs: Array
    next_obs: Array
    reward: Array
    terminated: Array
    truncated: Array
    success: Array
    score: Array
    over: Array

    @staticmethod
    def fields(spec: Spec, n: int) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and dtype of each array for `n` environments."""
        obs = ((n, *spec.obs_shape), spec.obs_dtype)
        flag = ((n,), "bool")
        return {
            "obs": obs,
            "next_obs": obs,
            "reward": ((n,), "float32"),
            "terminated": flag,
            "truncated": flag,
            "success": ((n,), "int8"),
            "score": ((n,), "float32"),
            "over": flag,
        }

    @classmethod
    def allocate(cls, spec: Spec, n: int) -> StepBuffers:
        """New buffers of zeros."""
        return cls(**{k: np.zeros(shape, dtype) for k, (shape, dtype) in cls.fields(spec, n).items()})

    def rows(self, start: int, stop: int) -> StepBuffers:
        """A view of the rows from `start` to `stop` - 1."""
        return StepBuffers(**{name: column[start:stop] for name, column in vars(self).items()})

    def write(self, start: int, rows: StepBuffers) -> None:
        """Copy rows of another batch, beginning at row `start`."""
        for name, column in vars(rows).items():
            vars(self)[name][start : start + len(column)] = column
