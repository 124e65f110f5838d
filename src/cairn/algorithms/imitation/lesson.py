"""What an imitation algorithm learns from: an expert or recorded episodes, and values if it needs them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cairn.algorithms.imitation.demos import Demos, read, record
from cairn.algorithms.imitation.expert import Expert, is_agent
from cairn.algorithms.imitation.values import Critics, Fitted, Rollouts, Values
from cairn.core.agent import Agent
from cairn.core.calls import option
from cairn.core.errors import CairnError
from cairn.core.seeding import derive, derive_many
from cairn.core.state import pack
from cairn.core.types import Array
from cairn.core.untrusted import shown
from cairn.envs.task import LONGEST, Task
from cairn.vector.protocol import Vector

Source = Agent | Callable[[Any], Any]


@dataclass(frozen=True)
class Question:
    """What a recipe says about its expert. `agent` is the name of the algorithm that learns."""

    agent: str
    cfg: Any
    task: Task
    expert: str  # the name of the expert; "" if the caller passes one or there is none
    demos: str
    seed: int
    device: str


@dataclass(frozen=True)
class Lesson:
    """An expert or its recorded episodes, and its values. `spent` environment steps were taken to fit the values."""

    expert: Expert | None
    demos: Demos | None
    values: Values | None
    spent: int = 0

    def close(self) -> None:
        """Close the environments of the values."""
        if self.values is not None:
            self.values.close()


# prepare(question, expert, environments, fit=) -> Lesson; fit=False skips the slow fitting of values
Prepare = Callable[..., Lesson]


def from_expert(ask: Question, source: Source | None, envs: Vector, *, fit: bool = True) -> Lesson:
    """The lesson of an algorithm that queries an expert for actions. Raises CairnError without one."""
    demos = _demos(ask, envs)
    if source is None:
        raise CairnError(
            f"{ask.agent} learns from an expert: name one with {option('expert')}, a folder or a zoo entry."
        )
    return Lesson(_expert(ask, source, envs), demos, None)


def from_expert_or_demos(ask: Question, source: Source | None, envs: Vector, *, fit: bool = True) -> Lesson:
    """The lesson of an algorithm that can also learn from recorded episodes alone."""
    if source is None and ask.demos:
        return Lesson(None, _demos(ask, envs), None)
    return from_expert(ask, source, envs)


def with_values(ask: Question, source: Source | None, envs: Vector, *, fit: bool = True) -> Lesson:
    """The lesson of an algorithm that needs values of actions, from the source that `agent.values` names."""
    plain, cfg = from_expert(ask, source, envs), ask.cfg
    expert, demos = plain.expert, plain.demos
    assert expert is not None
    if cfg.values == "critics":
        return Lesson(expert, demos, Critics(expert.agent, expert.name, near=cfg.near))
    if cfg.values == "rollouts":
        return Lesson(expert, demos, Rollouts(ask.task, expert, gamma=cfg.gamma, count=cfg.judged))
    if not fit:
        return plain
    spent = 0
    if demos is None:
        seeds, longest = derive_many(ask.seed, cfg.fit_episodes, "values"), max(ask.task.longest, LONGEST)
        demos = record(expert, envs, seeds, ask.task.id, longest=longest)
        assert demos is not None  # None only if stopped
        spent = demos.steps
    values = Fitted(demos, envs.spec, gamma=cfg.gamma, seed=derive(ask.seed, "values"), device=ask.device)
    return Lesson(expert, demos, values, spent)


def _expert(ask: Question, source: Source, envs: Vector) -> Expert:
    named = ask.expert if is_agent(source) else ""
    return Expert(source, envs.spec, name=named or "the expert", device=ask.device)


def _demos(ask: Question, envs: Vector) -> Demos | None:
    return read(Path(ask.demos), envs.spec) if ask.demos else None


def checksums(ask: Question, lesson: Lesson, *, given: bool) -> dict[str, str]:
    """Checksums of the expert's weights and of the demonstrations. An expert that was `given` has no name: none."""
    found = {}
    if ask.expert and not given and lesson.expert is not None and lesson.expert.agent is not None:
        tensors = pack(lesson.expert.agent.policy_parts)
        found["expert"] = _checksum(tensors[name].cpu().numpy() for name in sorted(tensors))
    if ask.demos and lesson.demos is not None:
        found["demos"] = _checksum(x for e in lesson.demos.episodes for x in (e.obs, e.action, e.reward))
    return found


def _checksum(arrays: Iterable[Array]) -> str:
    total = hashlib.sha256()
    for x in arrays:
        total.update(f"{x.dtype} {x.shape}".encode())
        total.update(np.ascontiguousarray(x).tobytes())
    return total.hexdigest()


def check_unchanged(ask: Question, was: Any, now: Mapping[str, str], folder: Path) -> None:
    """Raise CairnError where the expert or the demonstrations have changed since the run was started."""
    for what, named in (("expert", ask.expert), ("demos", ask.demos)):
        if isinstance(was, dict) and what in was and what in now and was[what] != now[what]:
            raise CairnError(
                f"{folder} holds a run with {what} {shown(named, 60)}, which has changed since the run was"
                " started. Restore the old one, or start a new run in another folder."
            )
