"""The interface through which training loops get experience, wherever the environments are stepped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from torch import Generator, Tensor

from cairn.core.agent import Agent, OnPolicy
from cairn.core.run import TrainingRun
from cairn.core.types import Array, Rollout, Spec, Step


class Order(NamedTuple):
    """What to play next, and how. A tuple, because one is made for every step and tuples are cheap."""

    rows: int  # steps per environment; 0: one whole episode each
    progress: float = 0.0  # finished share of the run
    random: bool = False  # take random actions
    act: Mapping[str, Any] = {}  # further keywords for the agent's `act`; not to be mutated
    seeds: tuple[int, ...] = ()  # seeds to reset every environment with first; (): no reset


class Played(NamedTuple):
    """One step of N environments: obs [N, ...], action, step, and what the agent's memory recorded [N, k]."""

    obs: Array
    action: Array
    step: Step
    recorded: Array


class Collector(Protocol):
    """Environments, and an agent that acts in them.

    Off-policy: `begin` starts `rows` steps of every environment, the learner works, `end` returns them.
    On-policy: `rollout` plays and returns, because nothing is learned meanwhile.
    """

    spec: Spec
    num_envs: int

    @property
    def restarts(self) -> int:
        """Workers or samplers that were replaced so far."""

    @property
    def rows(self) -> int:
        """Steps per environment in one off-policy chunk."""

    def begin(self, agent: Agent, order: Order, *, updates: int, generator: Generator) -> None:
        """Start playing with the agent as it is after `updates` updates.

        `generator` draws random actions if the environments are stepped in this process, so that a checkpoint of the
        replay
        holds its state. Remote samplers are seeded at every reset instead.
        """

    def end(self) -> Iterable[Played]:
        """The steps that `begin` started, in order."""

    def rollout(self, agent: OnPolicy, order: Order, run: TrainingRun) -> Rollout | None:
        """`order.rows` steps per environment, or one whole episode each; None if the run was interrupted."""

    def metrics(self, updates: int | None) -> Mapping[str, Tensor]:
        """Counters for the log after `updates` updates; on-policy, `updates` is None."""

    def close(self) -> None:
        """Close environments and samplers."""


def ended(step: Step) -> Array:
    """[N] bool: where the episode ended, or was lost with its worker."""
    out: Array = step.terminated | step.truncated | ~step.valid
    return out
