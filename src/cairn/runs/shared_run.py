"""The run of one of several learners. All count the same steps, hear the same scores and stop together.

Learner 0 is the run that the user sees: it evaluates, writes the logs and saves what all have in common. The others
save beside it, in `learners/1`, `learners/2`, ..., what only they have: their replay and their random generators.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Generator, Tensor

from cairn.core.agent import Agent
from cairn.core.learners import Learners, gathered, shared
from cairn.core.seeding import derive
from cairn.core.state import Part, pack, unpack
from cairn.recipes.recipe import Recipe
from cairn.replay.protocol import Checkpointable
from cairn.runs.callbacks import Callbacks
from cairn.runs.evaluation import Score
from cairn.runs.folder import LEARNERS
from cairn.runs.interrupts import INTERRUPTS
from cairn.runs.lock import Lock
from cairn.runs.policy_files import checkpoints
from cairn.runs.run import Run

REASONS = (None, "SIGINT", "SIGTERM", "callback")  # to stop, as numbers that learners can send each other
Evaluator = Callable[[Agent, Callable[[], bool]], Score | None]


@dataclass
class OwnParts:
    """What one learner's agent has for itself: its random generators."""

    cfg: Any
    spec: Any
    own: Any
    training_parts: dict[str, Generator]
    policy_parts: dict[str, Part] = field(default_factory=dict)


class SharedRun(Run):
    """A run among `learners`. Steps are counted, and a wish to stop is heard, where all of them meet."""

    def __init__(
        self,
        recipe: Recipe,
        folder: Path | None,
        evaluator: Evaluator,
        *,
        learners: Learners,
        lock: Lock | None = None,
        callbacks: Callbacks | None = None,
    ) -> None:
        first = learners.rank == 0
        super().__init__(recipe if first else replace(recipe, log=()), folder, self._score, None, lock, callbacks)
        self.learners, self.first, self.judge = learners, first, evaluator
        self.reports = first
        self.agreed: str | None = None  # why all of them stop
        self.met = 0  # the steps of all learners when they met last

    # -- what all of them know

    def meet(self, valid: Tensor | None = None) -> None:
        """Add up the new steps of all learners, even out their rollouts, and stop if one of them was told to."""
        if valid is not None:
            even_(valid)
        mine = [self.step - self.met, REASONS.index(self.asked)]
        told = self.learners.gathered(torch.tensor(mine))
        self.step = self.met = self.met + int(told[:, 0].sum())
        self.agreed = self.agreed or REASONS[int(told[:, 1].max())]

    @property
    def interrupted(self) -> str | None:
        return self.agreed

    def env_seeds(self) -> list[int]:
        """Those of this learner's environments, which a run with one learner would have too."""
        seeds = super().env_seeds()
        count = len(seeds) // self.learners.count
        return seeds[self.learners.rank * count :][:count]

    def _score(self, agent: Agent, stop: Callable[[], bool]) -> Score | None:
        """The score of learner 0's evaluation."""
        score = self.judge(agent, stop) if self.first else None
        found: Score | None = self.learners.exchange(score)[0]
        return found

    def save(self, agent: Agent, replay: Checkpointable | None) -> None:
        """Save this learner's part; learner 0 saves once the others have."""
        if not self.first:
            super().save(kept(agent), replay)
        all_of(True)
        if self.first:
            super().save(agent, replay)

    # -- what only learner 0 does

    def __enter__(self) -> SharedRun:
        self.met = self.step
        if self.first:
            super().__enter__()
        else:
            INTERRUPTS.tell(self._interrupt)
        return self

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.first or self.asked is None:  # a second request ends learner 0, and with it the others
            super()._interrupt(number, frame)

    def _write_metrics(self, agent: Agent) -> None:
        if self.first:
            super()._write_metrics(agent)
        else:
            self.metrics.clear()


def run_of(
    recipe: Recipe, folder: Path | None, evaluator: Evaluator, *, lock: Lock | None, callbacks: Callbacks | None
) -> Run:
    """The run of this process, which may be one of several learners."""
    learners = shared()
    if learners is None:
        return Run(recipe, folder, evaluator, lock=lock, callbacks=callbacks)
    return SharedRun(recipe, folder, evaluator, learners=learners, lock=lock, callbacks=callbacks)


def all_of(ok: bool) -> bool:
    """Whether this holds for every learner."""
    learners = shared()
    return ok if learners is None else all(learners.exchange(ok))


def even_(valid: Tensor) -> None:
    """Leave out the last valid steps [T, N] of a rollout, in place, where another learner has fewer."""
    count = valid.sum()
    if surplus := int(count - gathered(count).min()):
        valid.view(-1)[valid.flatten().nonzero()[-surplus:]] = False


def all_have(paths: list[Path]) -> list[Path]:
    """Of this learner's checkpoints, those that all learners have."""
    learners = shared()
    if learners is None:
        return paths
    names: list[list[str]] = learners.exchange([path.name for path in paths])
    common = [name for name in names[0] if all(name in others for others in names)]
    return [path for name in common for path in paths if path.name == name]


def drop_newer(root: Path, step: int) -> None:
    """Remove checkpoints after a step: learner 0 did not come to save its own."""
    for path in checkpoints(root):
        if int(path.name) > step:
            shutil.rmtree(path, ignore_errors=True)


def kept(agent: Agent) -> Agent:
    """What this learner has in checkpoints: learner 0 all of the agent, the others what only they have."""
    learners = shared()
    if learners is None or learners.rank == 0:
        return agent
    return OwnParts(agent.cfg, agent.spec, agent.own, generators(agent))  # type: ignore[return-value]


def generators(agent: Agent) -> dict[str, Generator]:
    """The random generators of an agent, by name."""
    return {name: part for name, part in agent.training_parts.items() if isinstance(part, Generator)}


def own_streams(agent: Agent, seed: int) -> None:
    """Give the agent of every learner but the first random streams of its own."""
    learners = shared()
    if learners is not None and learners.rank:
        for name, generator in generators(agent).items():
            generator.manual_seed(derive(seed, "learner", learners.rank, name))


def same_state(agent: Agent) -> None:
    """Give every learner the networks, statistics and optimisers of learner 0."""
    learners = shared()
    if learners is None:
        return
    own = generators(agent)
    common = {f"training.{name}": part for name, part in agent.training_parts.items() if name not in own}
    common |= {f"policy.{name}": part for name, part in agent.policy_parts.items()}
    state = pack(common)
    for name in sorted(state):
        flat = state[name].reshape(-1).view(torch.uint8)  # of any type
        learners.broadcast_(flat)
        state[name] = flat.view(state[name].dtype).view(state[name].shape)
    if learners.rank:
        unpack(common, state)


def folder_of(folder: Path | None, rank: int) -> Path | None:
    """The folder of one learner of the run in `folder`."""
    return folder if folder is None or rank == 0 else folder / LEARNERS / str(rank)
