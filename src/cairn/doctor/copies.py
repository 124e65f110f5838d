"""Copies of a task under examination, and what they may raise."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from cairn.core.types import Array
from cairn.doctor.play import Behaviour, Trace, as_row, permitted, policy
from cairn.doctor.view import View
from cairn.vector.protocol import success_of
from cairn.vector.spaces import spec_of_env

if TYPE_CHECKING:
    from cairn.doctor.task_probe import TaskProbe

SEED = 7  # of the twins
LONGEST = 5_000  # steps after which an episode is cut


class Raised(Exception):
    """The task raised an exception, during the call named `during`; "observation" where one could not be read."""

    def __init__(self, during: str, error: BaseException, *, allowed: bool = False) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.during, self.error = during, error
        self.allowed = allowed  # whether it was a step whose action a mask allowed


class Copy:
    """One environment, whose observations are new flat arrays. Actions that its mask forbids are replaced."""

    def __init__(self, probe: TaskProbe, env: gym.Env[Any, Any]) -> None:
        self.probe, self.env = probe, env
        self.spec, self.layout = spec_of_env(self.env)
        self.view = View(self.spec)
        self.first_values: dict[str, Array | None] = {}  # of images, by name; None once another was seen
        self.mask: Array | None = None  # which options are allowed now; None where all always are

    @property
    def action_space(self) -> Any:
        """The action space of the environment."""
        return self.env.action_space

    def reset(self, seed: int | None = None) -> Array:
        """The flat first observation of a new episode."""
        return self.flat(self.raw_reset(seed))

    def raw_reset(self, seed: int | None = None) -> Any:
        """The first observation of a new episode as the task returned it."""
        obs, _ = self.probe.ask("reset", lambda: self.env.reset(seed=seed))
        self._see(obs)
        return obs

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Gymnasium's five values, with a flat observation."""
        obs, reward, terminated, truncated, info = self.raw_step(self.allowed(action))
        return self.flat(obs), reward, terminated, truncated, info

    def raw_step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Gymnasium's five values for exactly this action."""
        try:
            obs, reward, terminated, truncated, info = self.probe.ask("step", lambda: self.env.step(action))
        except Raised as raised:
            if self.mask is not None and np.array_equal(self.allowed(action), action):
                raise Raised("step", raised.error, allowed=True) from raised.error
            raise
        self._see(obs)
        return obs, float(reward), bool(terminated), bool(truncated), info

    def allowed(self, action: Any) -> Any:
        """The action, or an allowed one in its place."""
        return permitted(self.action_space, action, self.mask)

    def _see(self, obs: Any) -> None:
        """Note what is allowed now."""
        if self.spec.masked:
            self.mask = self.view.mask(self._row(obs))

    def _row(self, obs: Any) -> Array:
        try:
            return self.layout(obs)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise Raised("observation", error) from error

    def run(self, seed: int | None, actions: list[Any]) -> list[Array]:
        """The observations of a reset and of the actions after it, until the episode ends."""
        return [moment.obs for moment in self.play(seed, actions)]

    def play(self, seed: int | None, actions: Iterable[Any]) -> list[Moment]:
        """The same with rewards and ends; the reset itself has reward 0."""
        moments = [Moment(self.reset(seed))]
        for action in actions:
            replaced = self.mask is not None and not np.array_equal(self.allowed(action), action)
            obs, reward, terminated, truncated, _ = self.step(action)
            moments.append(Moment(obs, reward, terminated, truncated, replaced))
            if terminated or truncated:
                break
        return moments

    def flat(self, obs: Any) -> Array:
        """An observation as a new flat array."""
        flat = self.view.flat(self._row(obs))
        for part in self.view.parts:
            if part.form == "image":
                self._note_change(part.name, flat[part.at])
        return flat

    def _note_change(self, name: str, image: Array) -> None:
        """Compare an image with the first one, until one differs."""
        first = self.first_values.setdefault(name, image)
        if first is not None and not np.array_equal(first, image):
            self.first_values[name] = None

    def thin(self, obs: Array) -> Array:
        """A part of a flat observation; see `View.thin`."""
        return self.view.thin(obs)

    def episode(self, behaviour: Behaviour, until: float = float("inf"), *, first: bool = False) -> Trace:
        """Play an episode until it ends, is too long, or the clock shows `until`."""
        act = policy(behaviour, self.action_space, self.probe.rng)
        seen = [self.reset(0 if first else None)]
        rows, actions = [self.thin(seen[0])], []
        rewards: list[float] = []
        terminated = truncated = False
        success = None
        while not (terminated or truncated) and len(rewards) < LONGEST and time.perf_counter() < until:
            action = self.allowed(act())
            obs, reward, terminated, truncated, info = self.step(action)
            rows.append(self.thin(obs))
            if self.view.goal is not None:
                seen.append(obs)
            actions.append(as_row(self.action_space, action))
            rewards.append(reward)
            if terminated or truncated:
                verdict = success_of(info)
                success = None if verdict < 0 else bool(verdict)
        achieved, desired = self._goals(seen)
        return Trace(
            behaviour,
            np.array(rows, float),
            np.array(actions) if actions else np.zeros((0, 0)),
            np.array(rewards, float),
            achieved,
            desired,
            terminated,
            truncated,
            success,
        )

    def _goals(self, seen: list[Array]) -> tuple[Array, Array]:
        goal = self.view.goal
        if goal is None:
            return np.zeros((0, 0)), np.zeros((0, 0))
        rows = np.array(seen)
        return rows[:, goal.achieved], rows[:, goal.desired]


@dataclass(frozen=True)
class Moment:
    """Observation and reward after an action, whether the episode ended, and whether the action was `replaced`."""

    obs: Array
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    replaced: bool = False


@dataclass(frozen=True)
class Twin:
    """A copy, the observations of its first three resets, and those with seed `SEED`."""

    copy: Copy
    starts: list[Array]
    seen: list[Array]

    @classmethod
    def of(cls, copy: Copy, actions: list[Any]) -> Twin:
        """Play a copy: three resets, then `actions` after a reset with `SEED`."""
        return cls(copy, [copy.reset() for _ in range(3)], copy.run(SEED, actions))
