"""An agent that plays: arrays in, arrays out, and what it remembers of the episodes in between."""

from __future__ import annotations

from typing import Any

import torch

from cairn.agents.base import Agent, Remembering
from cairn.core.errors import CairnError
from cairn.core.types import Array, Discrete, Spec


def _choices(spec: Spec) -> int:
    return spec.action.n if isinstance(spec.action, Discrete) else 0


def _taken(spec: Spec) -> str:
    return f"one of {_choices(spec)} actions" if _choices(spec) else f"actions of {spec.action_shape[0]} numbers"


class Player:
    """An agent as a function of arrays: observations [N, ...] to actions [N] or [N, dim], in Cairn's units.

    An agent that remembers (it has `memory`) is given one for its N environments; `forget` says whose episode ended.
    """

    def __init__(self, agent: Agent, *, explore: bool = False, device: str = "cpu") -> None:
        self.agent, self.explore, self.device = agent, explore, device
        self.memory: Any = None

    def __call__(self, obs: Array) -> Array:
        rows = torch.from_numpy(obs).to(self.device)
        if not isinstance(self.agent, Remembering):
            return self.agent.act(rows, explore=self.explore).cpu().numpy()
        if self.memory is None:
            self.memory = self.agent.memory(len(obs))
        return self.agent.act(rows, explore=self.explore, memory=self.memory).cpu().numpy()

    def must_suit(self, task: Spec) -> None:
        """CairnError where the agent sees or does other things than this task shows and takes."""
        mine = self.agent.spec
        if (mine.obs_shape, mine.action_shape) != (task.obs_shape, task.action_shape) or _choices(mine) != _choices(
            task
        ):
            raise CairnError(
                f"this policy sees {mine.obs_shape} and takes {_taken(mine)}; its task shows {task.obs_shape} and wants"
                f" {_taken(task)}: it was saved with another task, or with other arguments."
            )

    def subgoal(self) -> Array | None:
        """The points [N, d] that a hierarchy makes for, since it last acted."""
        target = getattr(self.memory, "target", None)
        return None if target is None else target.cpu().numpy().copy()

    def forget(self, ended: Array) -> None:
        """[N] bool: what these environments show next begins an episode."""
        if self.memory is not None:
            self.memory.forget(ended)
