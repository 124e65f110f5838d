"""The one interface through which loops get experience, wherever the environments are stepped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import torch
from torch import Generator, Tensor

from cairn.core.agent import Agent, OnPolicy
from cairn.core.run import TrainingRun
from cairn.core.types import Array, Box, Rollout, Spec, Step


class Order(NamedTuple):
    """What is to be played next, and how. Made for every step of a small task, so it is a tuple: cheap to make."""

    rows: int  # steps of each environment; 0: one whole episode of each
    progress: float = 0.0  # of the run
    random: bool = False  # take random actions
    act: Mapping[str, Any] = {}  # more keywords for the agent's `act`; never changed
    seeds: tuple[int, ...] = ()  # reset every environment with these first; (): play on


class Played(NamedTuple):
    """One step of N environments: what was seen [N, ...], what was done, what the agent's memory recorded [N, k]."""

    obs: Array
    action: Array
    step: Step
    recorded: Array


class Collector(Protocol):
    """Environments and the agent that acts in them.

    Off-policy: `begin` starts `rows` steps of every environment, the learner works, `end` returns them.
    On-policy: `rollout` does both, since nothing is learned while a rollout is played.
    """

    spec: Spec
    num_envs: int

    @property
    def restarts(self) -> int:
        """Workers or samplers replaced so far."""

    @property
    def rows(self) -> int:
        """Steps of each environment in one off-policy chunk."""

    def begin(self, agent: Agent, order: Order, *, updates: int, generator: Generator) -> None:
        """Start playing with the agent as it is after `updates` updates.

        `generator` draws random actions where the environments are stepped in this process, so that a checkpoint of
        the replay holds its state. Samplers elsewhere are seeded at every reset instead.
        """

    def end(self) -> Iterable[Played]:
        """The steps that were begun, in order."""

    def rollout(self, agent: OnPolicy, order: Order, run: TrainingRun) -> Rollout | None:
        """`rows` steps of every environment, or one whole episode of each; None where the run was interrupted."""

    def metrics(self, updates: int | None) -> Mapping[str, Tensor]:
        """Counters for the log, `updates` updates into the run; None on-policy, where play and learning alternate."""

    def close(self) -> None: ...


def random_actions(spec: Spec, count: int, generator: Generator) -> Array:
    """Uniform actions [N] or [N, dim], as exploration begins with."""
    if isinstance(spec.action, Box):
        return torch.empty(count, spec.action.dim).uniform_(-1, 1, generator=generator).numpy()
    return torch.randint(spec.action.n, (count,), generator=generator).numpy()


def ended(step: Step) -> Array:
    """[N] bool: the episode of these is over, or was lost with its worker."""
    out: Array = step.terminated | step.truncated | ~step.valid
    return out
