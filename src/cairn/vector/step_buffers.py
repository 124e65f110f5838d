"""Where environments write what their steps did."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cairn.core.types import Array, Spec


@dataclass(frozen=True)
class StepBuffers:
    """Where a batch writes: one row per environment, possibly in memory shared with another process.

    score and over are for the statistics: what a task paid and where its episode ended, whatever learners are told
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
        return cls(**{k: np.zeros(shape, dtype) for k, (shape, dtype) in cls.fields(spec, n).items()})

    def rows(self, start: int, stop: int) -> StepBuffers:
        return StepBuffers(**{k: v[start:stop] for k, v in self.__dict__.items()})
