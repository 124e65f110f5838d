"""Experts that imitation learns from: a Cairn policy, an imported one, or any function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

import numpy as np

from cairn.algorithms.player import Player
from cairn.core.agent import Agent, BaseAgent
from cairn.core.calls import must_take_one
from cairn.core.checks import short
from cairn.core.composite_actions import discrete_or_box
from cairn.core.errors import CairnError
from cairn.core.types import Array, Discrete, Spec
from cairn.vector.spaces import GOAL_KEYS


class Expert:
    """Maps observations [N, ...] to actions [N] or [N, dim] in Cairn's units, without exploration.

    Args:
        source: An agent; or a function of one observation as the task returns it (a dictionary in goal tasks), which
            returns an action in the environment's own units.
        spec: The spaces of the task.
        name: What messages call the expert.
        device: The torch device of the agent.

    Raises:
        CairnError: The agent was made for other observations or actions than the task's.
    """

    def __init__(
        self, source: Agent | Callable[[Any], Any], spec: Spec, *, name: str = "the expert", device: str = "cpu"
    ) -> None:
        self.spec, self.name, self.device = spec, name, device
        self.agent: Agent | None = source if is_agent(source) else None
        self.function: Any = source
        self.player: Player | None = None
        self.count = 0  # environments of the player
        if self.agent is None:
            must_take_one(self.function, name, "an observation")
        else:
            fits(self.agent.spec, spec, name)

    def __call__(self, obs: Array) -> Array:
        return self._asked(obs) if self.agent is None else self._playing(self.agent, len(obs))(obs)

    def forget(self, ended: Array) -> None:
        """Tell a policy with memory which episodes ended, [N] bool."""
        if self.agent is not None:
            self._playing(self.agent, len(ended)).forget(ended)

    def _playing(self, agent: Agent, count: int) -> Player:
        """The player for `count` environments; it starts anew if their number changes."""
        if self.player is None or count != self.count:
            self.player, self.count = Player(agent, device=self.device), count
        return self.player

    def _asked(self, obs: Array) -> Array:
        """The actions of a user's function, checked."""
        answers = [self.function(self._shown(row)) for row in obs]  # its exceptions reach the user, who wrote it
        action = discrete_or_box(self.spec.action, "an expert that is a function")
        wanted = f"one of {action.n} actions" if isinstance(action, Discrete) else f"{action.dim} finite numbers"
        try:
            said = np.stack([np.asarray(answer) for answer in answers])
        except ValueError:  # the answers have different shapes
            said = np.zeros(0, object)
        size = len(obs) * (1 if isinstance(action, Discrete) else action.dim)
        if said.dtype.kind not in "biuf" or said.size != size or not np.isfinite(said).all():
            raise CairnError(f"{self.name} returned the action {short(answers[0])}; the task expects {wanted}.")
        if isinstance(action, Discrete):
            out = action.from_env(said.reshape(len(obs)))
            if not ((out >= 0) & (out < action.n) & (out == np.floor(out))).all():
                raise CairnError(f"{self.name} returned the action {short(answers[0])}; the task expects {wanted}.")
            return out.astype(np.int64)
        row: Array = action.from_env(said)
        return row.clip(-1, 1) if action.bounded else out

    def _shown(self, row: Array) -> Any:
        goal = self.spec.goal
        if goal is None:
            return row
        parts = (row[: goal.observation], row[goal.achieved], row[goal.desired])
        return dict(zip(GOAL_KEYS, parts, strict=True))


def is_agent(source: Agent | Callable[[Any], Any]) -> TypeGuard[Agent]:
    """Whether an expert is a Cairn policy; otherwise it is a user's function."""
    return isinstance(source, BaseAgent)


def fits(mine: Spec, task: Spec, name: str) -> None:
    """Raise CairnError where an expert has other observations or actions than the task."""
    if (mine.obs_shape, mine.obs_dtype, mine.goal) != (task.obs_shape, task.obs_dtype, task.goal):
        raise CairnError(f"{name} observes {_seen(mine)} and the task has {_seen(task)}; name an expert of this task.")
    if mine.action != task.action:
        raise CairnError(
            f"{name} has {mine.action.described} and the task has {task.action.described}; name an expert of this task."
        )


def _seen(spec: Spec) -> str:
    goals = "" if spec.goal is None else f" with goals of {spec.goal.goal}"
    return f"{' x '.join(map(str, spec.obs_shape))} numbers{goals}"
