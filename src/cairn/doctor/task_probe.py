"""A task under examination: its copies, the episodes played so far, and what is known about it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gymnasium as gym
import numpy as np

from cairn.core.goals import GoalRule
from cairn.core.types import Array, GoalSpec, Spec
from cairn.doctor.copies import Copy, Raised, Twin
from cairn.doctor.play import BEHAVIOURS, Trace, draw
from cairn.doctor.view import View
from cairn.envs.goals import rule_in
from cairn.envs.masks import ActionMasks, tells_masks
from cairn.vector.protocol import EnvMaker

FEW = 5  # steps of the twins: few, because chaotic tasks amplify rounding errors
STARTS = 8  # number of seeds
EPISODES = 60  # random episodes at most
SHARE = 0.2  # of the time, for random episodes


@dataclass(frozen=True)
class Case:
    """What the doctor knows apart from the task."""

    name: str = "the task"
    gamma: float = 0.99  # γ
    assumed: bool = False  # no config gave γ
    hindsight: bool = False  # whether goals are relabelled
    normalises: bool = False  # whether the agent normalises observations
    remembers: bool = False  # whether the agent has memory
    seconds: float = 60.0
    steps: int = 8_000  # random steps at most


class TaskProbe:
    """The argument of every probe. `note` is called with the name of each call of the task, and "" at its end."""

    def __init__(self, make: EnvMaker, case: Case | None = None, note: Callable[[str], None] | None = None) -> None:
        self.make, self.case, self.note = make, case or Case(), note or (lambda what: None)
        self.start = time.perf_counter()
        self.rng = np.random.default_rng(0)
        self.copies: list[Copy] = []
        self.tells: bool | None = None  # whether the task tells masks that its observations do not show
        self.clock = {what: [0.0, 0.0] for what in ("make", "reset", "step", "compute_reward", "close")}

    @property
    def left(self) -> float:
        """Seconds left."""
        return self.case.seconds - (time.perf_counter() - self.start)

    @cached_property
    def bare(self) -> gym.Env[Any, Any]:
        """The first environment, before anything is known about it."""
        return self._made()

    @cached_property
    def first(self) -> Copy:
        """A scratch copy of the environment."""
        return self._add(self.bare)

    @cached_property
    def twins(self) -> tuple[Twin, Twin]:
        """Two more copies, each reset without a seed and then played with one seed and the same actions."""
        actions = [draw(self.first.action_space, self.rng) for _ in range(FEW)]
        one, other = self.another(), self.another()
        return Twin.of(one, actions), Twin.of(other, actions)

    def another(self) -> Copy:
        """A new copy."""
        return self._add(self._made())

    def _made(self) -> gym.Env[Any, Any]:
        """A new environment, which shows its masks as in training."""
        env: gym.Env[Any, Any] = self.ask("make", self.make)
        if self.tells is None and isinstance(env, gym.Env):
            self.tells = self.ask("make", lambda: tells_masks(env, self.make))
        return ActionMasks(env) if self.tells else env

    def _add(self, env: gym.Env[Any, Any]) -> Copy:
        copy = Copy(self, env)
        self.copies.append(copy)
        return copy

    @property
    def spec(self) -> Spec:
        """The task's spaces."""
        return self.first.spec

    @property
    def view(self) -> View:
        """How observations are read."""
        return self.first.view

    @property
    def goal(self) -> GoalSpec | None:
        """Where achieved and desired goals lie in flat observations; None for a task without goals."""
        return self.view.goal

    @property
    def images(self) -> bool:
        """Whether observations are images."""
        return self.view.images

    @property
    def limit(self) -> int | None:
        """Steps after which the task says that it truncates; None without a limit."""
        env: Any = self.first.env
        while isinstance(env, gym.Wrapper):
            if isinstance(env, gym.wrappers.TimeLimit):
                return int(env._max_episode_steps)
            env = env.env
        return None

    @cached_property
    def rule(self) -> GoalRule | Raised | None:
        """The reward rule of goals, or the error of finding it; None for a task without goals."""
        if self.goal is None:
            return None
        env = self.another().env
        try:
            rule: GoalRule = self.ask("compute_reward", lambda: rule_in(env, self.case.name))
        except Raised as raised:
            return raised
        return rule

    @cached_property
    def starts(self) -> list[Array]:
        """The first observations for some seeds."""
        return [self.first.reset(seed=seed) for seed in range(1, STARTS + 1)]

    @cached_property
    def plays(self) -> list[Trace]:
        """Random and scripted episodes, reset as in training: first with a seed, then without."""
        traces: list[Trace] = []
        self.play_on(traces, lambda: len(traces) >= EPISODES or sum(t.length for t in traces) >= self.case.steps)
        return traces

    def play_on(self, traces: list[Trace], enough: Callable[[], bool]) -> None:
        """Play more episodes until `enough` is true, or a share of the time is used up."""
        until = time.perf_counter() + SHARE * self.case.seconds
        while not enough() and time.perf_counter() < until:
            trace = self.first.episode(BEHAVIOURS[len(traces) % len(BEHAVIOURS)], until, first=not traces)
            if trace.length or not traces:
                traces.append(trace)

    @cached_property
    def pay(self) -> float:
        """The unit of differences in reward: the range of the rewards seen, or their size if it is 0."""
        rewards = np.concatenate([t.reward for t in self.plays])
        rewards = rewards[np.isfinite(rewards)]
        if not len(rewards):
            return 1.0
        return float(np.ptp(rewards)) or float(np.abs(rewards).max()) or 1.0

    @cached_property
    def spread(self) -> Array:
        """[D] the range of each entry of the thinned observation in play: 5th to 95th percentile."""
        rows = np.concatenate([t.obs for t in self.plays])
        low, high = np.percentile(rows, (5, 95), axis=0)
        out: Array = np.maximum(high - low, rows.std(0))
        return out

    def ask(self, what: str, question: Callable[[], Any]) -> Any:
        """Call the task: measures the time, and tells the parent process which call is running."""
        self.note(what)
        start = time.perf_counter()
        try:
            return question()
        except (Exception, SystemExit) as error:  # sys.exit must not end the examination
            raise Raised(what, error) from error
        finally:
            self.note("")
            self.clock[what][0] += time.perf_counter() - start
            self.clock[what][1] += 1

    def price(self, what: str) -> float:
        """Mean seconds per call."""
        seconds, count = self.clock[what]
        return seconds / max(count, 1)

    def close(self) -> None:
        """Close all copies; errors are ignored."""
        for copy in self.copies:
            with contextlib.suppress(Raised):
                self.ask("close", copy.env.close)
