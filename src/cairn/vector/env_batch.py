"""A batch: some environments stepped one after the other, in this process or in a worker's."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cairn.core.errors import EnvError
from cairn.core.types import Array
from cairn.vector.checks import Rows, began, blame, fault_at_close, made, remade, stepped
from cairn.vector.protocol import EnvMaker, spec_of_env, success_of
from cairn.vector.step_buffers import StepBuffers
from cairn.vector.world_reuse import remembers


class EnvBatch:
    """Steps its environments in turn and resets each as it ends; EnvError names the one that failed."""

    def __init__(self, makers: Sequence[EnvMaker], first: int = 0) -> None:
        self.makers, self.first = list(makers), first  # index of our first environment in the vector, for messages
        self.envs = [made(first + i, make) for i, make in enumerate(self.makers)]
        self.spec, layout = spec_of_env(self.envs[0])
        self.row = Rows(self.spec, layout)
        self.buffers = StepBuffers.allocate(self.spec, len(self.envs))
        self.awake = list(range(len(self.envs)))  # those that are stepped
        self.used = [False] * len(self.envs)  # those that were reset since they were made
        self.open = [True] * len(self.envs)  # those that were not closed
        self.remember: bool | None = None  # whether they remember, once that is asked

    def renew(self, *which: int) -> None:
        """Before a seed is played (in these, or in all): environments that remember earlier ones are made anew."""
        for i in which or range(len(self.envs)):
            if self.used[i] and self._remember():
                self._close(i)  # first: it may own a port, a licence, a display
                self.envs[i] = remade(self.first + i, self.makers[i])
                self.open[i], self.used[i] = True, False

    def _remember(self) -> bool:
        if self.remember is None:
            self.remember = remembers(self.makers[0], self.envs[0])
        return self.remember

    def reset(self, seeds: Sequence[int]) -> None:
        for i, seed in zip(range(len(self.envs)), seeds, strict=True):
            self.begin(i, seed)

    @np.errstate(over="ignore", invalid="ignore")
    def begin(self, i: int, seed: int) -> None:
        """One environment alone begins an episode."""
        self.used[i] = True
        try:
            self.buffers.obs[i] = self.row(began(self.envs[i].reset(seed=int(seed))))
        except (Exception, SystemExit) as error:
            raise blame(self.first + i, error, " at reset") from error
        if not np.isfinite(self.buffers.obs[i]).all():
            self._name_the_bad_one(self.buffers.obs)
        self.awake = sorted({*self.awake, i})

    def rest(self, which: Array) -> None:
        """These [n] bool are not stepped until they are begun again."""
        self.awake = np.flatnonzero(~which).tolist()
        for column in (
            self.buffers.reward,
            self.buffers.score,
            self.buffers.terminated,
            self.buffers.truncated,
            self.buffers.over,
        ):
            column[which] = 0

    @np.errstate(over="ignore", invalid="ignore")  # what is too large is told in a sentence
    def step(self, actions: Array) -> None:
        s, scalar = self.buffers, actions.ndim == 1
        for i in self.awake:
            env = self.envs[i]
            try:
                out = env.step(actions[i].item() if scalar else actions[i])
                obs, reward, terminated, truncated, info = stepped(out)
                s.next_obs[i] = row = self.row(obs)
                s.reward[i] = reward
                s.terminated[i] = terminated
                s.truncated[i] = truncated
                s.score[i] = info.get("cairn/score", reward)
                s.over[i] = ended = terminated or truncated
                if ended:
                    s.over[i] = not info.get("cairn/goes_on", False)
                    s.success[i] = success_of(info)  # type: ignore[arg-type]
                    row = self.row(began(env.reset()))
                s.obs[i] = row
            except (Exception, SystemExit) as error:
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
                raise EnvError(self.first + i, "returned an observation that is not finite, or too large for float32")

    def _close(self, i: int) -> None:
        self.open[i] = False
        try:
            self.envs[i].close()
        except (Exception, SystemExit) as error:
            raise blame(self.first + i, error, " while it was closed") from error

    def close(self) -> str:
        """What went wrong in the first that could not be closed; all are."""
        still = [env for i, env in enumerate(self.envs) if self.open[i]]
        self.open = [False] * len(self.envs)
        return next((fault for fault in [fault_at_close(env) for env in still] if fault), "")
