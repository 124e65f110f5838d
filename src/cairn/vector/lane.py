"""A lane: some environments stepped one after the other, in this process or in a worker's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cairn.core.errors import EnvError
from cairn.core.types import Array, Spec
from cairn.vector.base import EnvMaker, spec_of_env, success_of


@dataclass(frozen=True)
class Slots:
    """Where a lane writes: one row per environment, possibly in memory shared with another process.

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
    def allocate(cls, spec: Spec, n: int) -> Slots:
        return cls(**{k: np.zeros(shape, dtype) for k, (shape, dtype) in cls.fields(spec, n).items()})

    def rows(self, start: int, stop: int) -> Slots:
        return Slots(**{k: v[start:stop] for k, v in self.__dict__.items()})


class Hang(Exception):
    """An environment has not answered for this many seconds."""


def blame(index: int, error: Exception, when: str = "") -> EnvError:
    """Whatever a task raises must reach the user as its fault, not as ours."""
    if isinstance(error, Hang):
        return EnvError(index, f"did not answer within {error.args[0]:g} s{when}")
    return EnvError(index, f"raised {type(error).__name__}{when}: {error}")


class Lane:
    """Steps its environments in turn and resets each as it ends; EnvError names the one that failed."""

    def __init__(self, makers: Sequence[EnvMaker], first: int = 0) -> None:
        self.envs = [make() for make in makers]
        self.first = first  # the index of our first environment in the whole vector, for messages
        self.spec, self.layout = spec_of_env(self.envs[0])
        self.slots = Slots.allocate(self.spec, len(self.envs))

    def reset(self, seeds: Sequence[int]) -> None:
        for i, (env, seed) in enumerate(zip(self.envs, seeds, strict=True)):
            try:
                obs, _ = env.reset(seed=int(seed))
                self.slots.obs[i] = self.layout(obs)
            except Exception as error:
                raise blame(self.first + i, error, " at reset") from error
        if not np.isfinite(self.slots.obs).all():
            self._name_the_bad_one(self.slots.obs)

    def step(self, actions: Array) -> None:
        s, scalar = self.slots, actions.ndim == 1
        for i, env in enumerate(self.envs):
            try:
                obs, reward, terminated, truncated, info = env.step(actions[i].item() if scalar else actions[i])
                s.next_obs[i] = self.layout(obs)
                s.reward[i] = reward
                s.terminated[i] = terminated
                s.truncated[i] = truncated
                s.score[i] = info.get("cairn/score", reward)
                s.over[i] = ended = terminated or truncated
                if ended:
                    s.over[i] = not info.get("cairn/goes_on", False)
                    s.success[i] = success_of(info)
                    obs, _ = env.reset()
                s.obs[i] = self.layout(obs)
            except Exception as error:
                raise blame(self.first + i, error) from error
        # A sum of squares is finite only where every number is; should it overflow, each is looked at by itself.
        total = s.reward.dot(s.reward)
        if s.obs.dtype != np.uint8:
            flat, fresh = s.next_obs.reshape(-1), s.obs.reshape(-1)
            total = total + flat.dot(flat) + fresh.dot(fresh)
        if not math.isfinite(total):
            self._name_the_bad_one(s.next_obs, s.reward)
            self._name_the_bad_one(s.obs)

    def _name_the_bad_one(self, obs: Array, reward: Array | None = None) -> None:
        for i in range(len(self.envs)):
            if reward is not None and not np.isfinite(reward[i]):
                raise EnvError(self.first + i, "returned a reward that is not finite")
            if not np.isfinite(obs[i]).all():
                raise EnvError(self.first + i, "returned an observation that is not finite")

    def close(self) -> None:
        for env in self.envs:
            env.close()
