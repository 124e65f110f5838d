"""Whoever is asked what to do: a policy of Cairn's, an imported one, or any function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

import numpy as np

from cairn.algorithms.player import Player
from cairn.core.agent import Agent, BaseAgent
from cairn.core.calls import must_take_one
from cairn.core.checks import short
from cairn.core.errors import CairnError
from cairn.core.types import Array, Discrete, Spec
from cairn.vector.protocol import GOAL_KEYS


class Expert:
    """Observations [N, ...] -> actions [N] or [N, dim] in Cairn's units, without exploration.

    A function is asked about one observation at a time, as the task shows it (goal tasks: a dictionary), and answers in
    the environment's own units. CairnError where a policy was made for other observations or actions than `spec`'s.
    """

    def __init__(
        self, source: Agent | Callable[[Any], Any], spec: Spec, *, name: str = "the expert", device: str = "cpu"
    ) -> None:
        self.spec, self.name, self.device = spec, name, device
        self.agent: Agent | None = source if is_agent(source) else None
        self.function: Any = source
        self.player: Player | None = None
        self.count = 0  # environments that it plays
        if self.agent is None:
            must_take_one(self.function, name, "an observation")
        else:
            fits(self.agent.spec, spec, name)

    def __call__(self, obs: Array) -> Array:
        return self._asked(obs) if self.agent is None else self._playing(self.agent, len(obs))(obs)

    def forget(self, ended: Array) -> None:
        """[N] bool: what these environments show next begins an episode."""
        if self.agent is not None:
            self._playing(self.agent, len(ended)).forget(ended)

    def _playing(self, agent: Agent, count: int) -> Player:
        """The player of so many environments; another number of them is no continuation, and begins anew."""
        if self.player is None or count != self.count:
            self.player, self.count = Player(agent, device=self.device), count
        return self.player

    def _asked(self, obs: Array) -> Array:
        """A function's answers, each looked at: it is not ours."""
        answers = [self.function(self._shown(row)) for row in obs]  # what it raises is for its owner to see
        action = self.spec.action
        wanted = f"one of {action.n} actions" if isinstance(action, Discrete) else f"{action.dim} finite numbers"
        try:
            said = np.stack([np.asarray(answer) for answer in answers])
        except ValueError:  # of different shapes
            said = np.zeros(0, object)
        size = len(obs) * (1 if isinstance(action, Discrete) else action.dim)
        if said.dtype.kind not in "biuf" or said.size != size or not np.isfinite(said).all():
            raise CairnError(f"{self.name} returned the action {short(answers[0])}; the task expects {wanted}.")
        if isinstance(action, Discrete):
            out = action.from_env(said.reshape(len(obs)))
            if not ((out >= 0) & (out < action.n) & (out == np.floor(out))).all():
                raise CairnError(f"{self.name} returned the action {short(answers[0])}; the task expects {wanted}.")
            return out.astype(np.int64)
        out = action.from_env(said)
        return out.clip(-1, 1) if action.bounded else out

    def _shown(self, row: Array) -> Any:
        goal = self.spec.goal
        if goal is None:
            return row
        parts = (row[: goal.observation], row[goal.achieved], row[goal.desired])
        return dict(zip(GOAL_KEYS, parts, strict=True))


def is_agent(source: Agent | Callable[[Any], Any]) -> TypeGuard[Agent]:
    """Whether an expert is a policy of Cairn's; else it is a function of the user's."""
    return isinstance(source, BaseAgent)


def fits(mine: Spec, task: Spec, name: str) -> None:
    """CairnError where what an expert sees or does is not what the task shows and takes."""
    if (mine.obs_shape, mine.obs_dtype, mine.goal) != (task.obs_shape, task.obs_dtype, task.goal):
        raise CairnError(f"{name} observes {_seen(mine)} and the task has {_seen(task)}; name an expert of this task.")
    if mine.action != task.action:
        raise CairnError(
            f"{name} has {mine.action.described} and the task has {task.action.described}; name an expert of this task."
        )


def _seen(spec: Spec) -> str:
    goals = "" if spec.goal is None else f" with goals of {spec.goal.goal}"
    return f"{' x '.join(map(str, spec.obs_shape))} numbers{goals}"
