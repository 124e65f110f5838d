"""A vector of a run that shares its process with others, which go on while its environments step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cairn.core.turns import Turns
from cairn.core.types import Array, Spec, Step
from cairn.vector.protocol import Separate, Vector


class InTurns:
    """The same vector. With `meet` all runs take a step at the same time, so that they ask for the same things."""

    def __init__(self, envs: Any, turns: Turns, *, meet: bool) -> None:
        self.envs, self.turns, self.meet = envs, turns, meet
        self.spec: Spec = envs.spec
        self.num_envs: int = envs.num_envs

    @property
    def restarts(self) -> int:
        return int(self.envs.restarts)

    def reset(self, seeds: Sequence[int]) -> Array:
        obs: Array = self.envs.reset(seeds)
        return obs

    def send(self, action: Array) -> None:
        if self.meet:
            self.turns.wait()
        self.envs.send(action)

    def recv(self) -> Step:
        self.turns.pause()
        step: Step = self.envs.recv()
        return step

    def step(self, action: Array) -> Step:
        self.send(action)
        return self.recv()

    def close(self) -> None:
        self.envs.close()


class SeparateInTurns(InTurns):
    """The same, of a vector whose environments can be started one by one."""

    def begin(self, index: int, seed: int) -> Array:
        """See `Separate`."""
        obs: Array = self.envs.begin(index, seed)
        return obs

    def rest(self, which: Array) -> None:
        """See `Separate`."""
        self.envs.rest(which)


def in_turns(envs: Vector, turns: Turns, *, meet: bool) -> Vector:
    """`envs`, whose run takes turns with others."""
    kind = SeparateInTurns if isinstance(envs, Separate) else InTurns
    return kind(envs, turns, meet=meet)
