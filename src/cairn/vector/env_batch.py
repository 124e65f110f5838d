"""Several environments stepped one after the other, in this process or in a worker."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cairn.core.types import Array, Composite
from cairn.vector.checks import Rows, blame, check_reset, check_step, fault_at_close, make_env, remake_env
from cairn.vector.finite import refuse_not_finite
from cairn.vector.protocol import EnvMaker, success_of
from cairn.vector.spaces import spec_of_env
from cairn.vector.step_buffers import StepBuffers
from cairn.vector.world_reuse import one_must_renew


class EnvBatch:
    """Steps its environments in turn and resets those that end. EnvError names the one that failed."""

    def __init__(self, makers: Sequence[EnvMaker], first: int = 0) -> None:
        self.makers, self.first = list(makers), first  # number of the first environment, for messages
        self.envs = [make_env(first + i, make) for i, make in enumerate(self.makers)]
        self.spec, layout = spec_of_env(self.envs[0])
        self.row = Rows(self.spec, layout)
        # the action of an environment from its row; None where it is the row, or the number in it
        self.structured = self.spec.action.structured if isinstance(self.spec.action, Composite) else None
        self.buffers = StepBuffers.allocate(self.spec, len(self.envs))
        self.awake = list(range(len(self.envs)))  # environments that are stepped
        self.used = [False] * len(self.envs)  # those that were reset since they were made
        self.open = [True] * len(self.envs)  # environments that were not closed
        self.renews: bool | None = None  # the answer of `one_must_renew`; None if unknown

    def renew(self, *which: int) -> None:
        """Before new seeds, remake those (all, or `which`) whose resets depend on earlier use."""
        for i in which or range(len(self.envs)):
            if self.used[i] and self._must_renew():
                self._close(i)  # before the new one: it may own a port, a licence, a display
                self.envs[i] = remake_env(self.first + i, self.makers[i])
                self.open[i], self.used[i] = True, False

    def _must_renew(self) -> bool:
        if self.renews is None:
            self.renews = one_must_renew(self.makers, self.envs)
        return self.renews

    def reset(self, seeds: Sequence[int]) -> None:
        """Reset all environments with one seed each."""
        for i, seed in zip(range(len(self.envs)), seeds, strict=True):
            self.begin(i, seed)

    @np.errstate(over="ignore", invalid="ignore")
    def begin(self, i: int, seed: int) -> None:
        """Start an episode of environment `i` from a seed."""
        self.used[i] = True
        try:
            self.buffers.obs[i] = self.row(check_reset(self.envs[i].reset(seed=int(seed))))
        except (Exception, SystemExit) as error:
            raise blame(self.first + i, error, " at reset") from error
        if not np.isfinite(self.buffers.obs[i]).all():
            refuse_not_finite(self.first + i, self.buffers.obs[i : i + 1])
        self.awake = sorted({*self.awake, i})

    def rest(self, which: Array) -> None:
        """Do not step the environments `which` [n] bool until `begin` is called for them."""
        s, self.awake = self.buffers, np.flatnonzero(~which).tolist()
        for column in (s.reward, s.score, s.terminated, s.truncated, s.over):
            column[which] = 0

    @np.errstate(over="ignore", invalid="ignore")  # overflows become an EnvError below
    def step(self, actions: Array) -> None:
        """Step all with actions [n, ...] in the task's units; the results are in `buffers`."""
        s, scalar = self.buffers, actions.ndim == 1
        given = actions if self.structured is None else [self.structured(row) for row in actions]
        began = False  # whether there are observations of new episodes beside the successors
        for i in self.awake:
            env = self.envs[i]
            try:
                out = env.step(actions[i].item() if scalar else given[i])
                obs, reward, terminated, truncated, info = check_step(out)
                s.next_obs[i] = row = self.row(obs)
                s.reward[i] = reward
                s.terminated[i] = terminated
                s.truncated[i] = truncated
                s.score[i] = info.get("cairn/score", reward)
                s.over[i] = ended = terminated or truncated
                if ended:
                    s.over[i] = not info.get("cairn/goes_on", False)
                    s.success[i] = success_of(info)
                    row = self.row(check_reset(env.reset()))
                    began = True
                s.obs[i] = row
            except (Exception, SystemExit) as error:
                raise blame(self.first + i, error) from error
        # One sum of squares shows whether all numbers are finite; if it overflows, each is checked.
        total = s.reward.dot(s.reward)
        if s.obs.dtype != np.uint8:
            total = total + np.vdot(s.next_obs, s.next_obs) + (np.vdot(s.obs, s.obs) if began else 0.0)
        if not math.isfinite(total):
            refuse_not_finite(self.first, s.next_obs, s.reward)
            refuse_not_finite(self.first, s.obs)

    def _close(self, i: int) -> None:
        self.open[i] = False
        try:
            self.envs[i].close()
        except (Exception, SystemExit) as error:
            raise blame(self.first + i, error, " while it was closed") from error

    def close(self) -> str:
        """Close all; returns the first fault, or ""."""
        still_open = [env for i, env in enumerate(self.envs) if self.open[i]]
        self.open = [False] * len(self.envs)
        return next((fault for fault in [fault_at_close(env) for env in still_open] if fault), "")
