"""Plays episodes of a hierarchy with its own levels, or with an ideal one in the place of either."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
import torch

from cairn.algorithms.hiro.agent import HIRO
from cairn.core.device import one_thread
from cairn.core.types import Array
from cairn.doctor.levels.ways import MOST_AXES, Map, widened, within
from cairn.envs.task import Task
from cairn.vector.checks import Rows, blame, check_reset, check_step, close_env, make_env
from cairn.vector.protocol import success_of
from cairn.vector.spaces import spec_of_env

AT_ONCE = 20  # environments that play together
PASSED = 0.25  # of the longest subgoal: how near a waypoint of the task is before the next one follows
EDGE = 1e-6  # how far outside the reachable region rounding may put a point
WALL = 16  # points of a step of an ideal low level that must lie inside the reachable region


@dataclass
class Played:
    """One episode. `ended` is False where time ran out before its end."""

    path: list[Array] = field(default_factory=list)  # positions [d] at each step, the last one too
    asked: list[tuple[int, Array]] = field(default_factory=list)  # step and subgoal [d] of each decision
    fallen: list[bool] = field(default_factory=list)  # at each step, where the task tells
    achieved: Array | None = None  # [g] at the last step, in a task with goals
    total: float = 0.0
    success: bool | None = None
    ended: bool = False
    lost: bool = False  # the oracle found no way


class Director(Protocol):
    """Chooses actions and subgoals for N episodes that play together."""

    def begin(self, count: int) -> None:
        """Start `count` episodes."""

    def act(self, rows: Array) -> tuple[Array, Array, Array]:
        """Actions, subgoals [N, d], and which of them are new [N] bool, for observations [N, width]."""

    def moved(self, i: int, env: gym.Env[Any, Any], here: Array, played: Played) -> None:
        """Episode `i` is at `here` [d] and about to take its step."""


class Own:
    """Both levels of the policy."""

    def __init__(self, agent: HIRO) -> None:
        self.agent = agent
        self.memory: Any = None

    def begin(self, count: int) -> None:
        """Start `count` episodes."""
        self.memory = self.agent.memory(count)

    def act(self, rows: Array) -> tuple[Array, Array, Array]:
        """Act as the policy does."""
        due = (self.memory.clock == 0).numpy().copy()
        action = self.agent.act(torch.from_numpy(rows), explore=False, memory=self.memory)
        return action.numpy(), self.memory.target.numpy().copy(), due

    def moved(self, i: int, env: gym.Env[Any, Any], here: Array, played: Played) -> None:
        """Leave it where it is."""


class Ideal(Own):
    """The high level of the policy over an ideal low level, which moves straight to each subgoal in the time it has.

    It stops at the edge of the reachable region. The environment needs a method `place(point)`.
    """

    def moved(self, i: int, env: gym.Env[Any, Any], here: Array, played: Played) -> None:
        """Put the episode where an ideal low level would have it after this step."""
        step, target = played.asked[-1]
        start, every = played.path[step], self.agent.cfg.every
        there = start + (target - start) * min((len(played.path) - step) / every, 1.0)
        region = self.agent.spec.reachable
        if region is not None:
            here = region.nearest(here)
            line = here + np.linspace(0, 1, WALL)[:, None] * (there - here)
            out = np.flatnonzero((np.abs(region.nearest(line) - line) > EDGE).any(1))
            there = line[out[0] - 1] if len(out) else there
        env.get_wrapper_attr("place")(there)


class Oracle:
    """The low level of the policy, with waypoints of the shortest way to the goal as its subgoals.

    `shared` axes of a goal are the first axes of a subgoal. The way lies in the reachable region; without one it is the
    straight line. Where the task has a method `waypoints(goal)`, its points are passed first, in order.
    """

    def __init__(self, agent: HIRO, shared: int, envs: Sequence[gym.Env[Any, Any]], stride: Array) -> None:
        """`stride` [d] is the longest step along each axis: gaps between boxes that one step crosses are no walls."""
        self.agent, self.shared, self.envs = agent, shared, envs
        self.reach = agent.range.cpu().numpy().astype(float)
        region = agent.spec.reachable
        axes = 0 if region is None else min(len(region.boxes[0][0]), shared)
        self.map = self.wide = None
        if region is not None and 1 <= axes <= MOST_AXES:
            self.map = Map(region, self.reach, axes, agent.cfg.near)
            near = agent.cfg.near + float(np.linalg.norm(stride[:axes])) / 2
            self.wide = Map(widened(region, stride / 2), self.reach, axes, near)
        self.near = max(agent.cfg.near, PASSED * float(self.reach.min()))
        self.plans: list[list[Array]] = []
        self.clock, self.target = 0, np.zeros((0, agent.dim), np.float32)
        self.lost: Array = np.zeros(0, bool)

    def begin(self, count: int) -> None:
        """Start `count` episodes, whose goals are not known yet."""
        self.plans, self.clock = [], 0
        self.target, self.lost = np.zeros((count, self.agent.dim), np.float32), np.zeros(count, bool)

    def act(self, rows: Array) -> tuple[Array, Array, Array]:
        """Choose waypoints as often as the high level decides, and act towards them."""
        layout = self.agent.spec.goal
        assert layout is not None
        goals, here = rows[:, layout.desired].astype(float), rows[:, self.agent.positions].astype(float)
        if not self.plans:
            self.plans = [self._passed(env, goal) for env, goal in zip(self.envs, goals, strict=False)]
        due = np.full(len(rows), self.clock == 0)
        if self.clock == 0:
            for i, plan in enumerate(self.plans):
                self.target[i] = self._waypoint(i, here[i], plan, goals[i, : self.shared])
        self.clock = (self.clock + 1) % self.agent.cfg.every
        view = self.agent.low_view(torch.from_numpy(rows), torch.from_numpy(self.target))
        return self.agent.low.act(view, explore=False).numpy(), self.target.copy(), due

    def moved(self, i: int, env: gym.Env[Any, Any], here: Array, played: Played) -> None:
        """Note whether there is a way."""
        played.lost = bool(self.lost[i])

    def _passed(self, env: gym.Env[Any, Any], goal: Array) -> list[Array]:
        """The points to pass on the way to a goal, as the task tells them."""
        if not env.has_wrapper_attr("waypoints"):
            return []
        return [np.asarray(point, float)[: self.shared] for point in env.get_wrapper_attr("waypoints")(goal)]

    def _waypoint(self, i: int, here: Array, plan: list[Array], goal: Array) -> Array:
        """The next subgoal [d] from `here` [d]."""
        while plan and np.linalg.norm(plan[0] - here[: len(plan[0])]) < self.near:
            plan.pop(0)
        there = here.copy()
        ahead = plan[0] if plan else goal
        there[: len(ahead)] = ahead
        if self.map is not None and self.wide is not None:
            p = self.map.axes
            found = self.map.waypoint(here[:p], there[:p])
            if found is None:
                found = self.wide.waypoint(here[:p], there[:p])
                found = None if found is None else self.map.inside(found)
            self.lost[i] |= found is None
            there[:p] = there[:p] if found is None else found
        return within(here, there, self.reach)


class Stage:
    """Environments of one task in which directors play in turn. Closes them at the end."""

    def __init__(self, agent: HIRO, task: Task, episodes: int) -> None:
        self.agent, self.longest = agent, task.longest
        count = min(task.at_most(episodes), episodes, AT_ONCE)
        self.envs: list[gym.Env[Any, Any]] = [make_env(i, task) for i in range(count)]
        self.spec, layout = spec_of_env(self.envs[0])
        self.rows = Rows(self.spec, layout)

    def close(self) -> None:
        """Close all environments."""
        for env in self.envs:
            close_env(env)

    def can(self, method: str) -> bool:
        """Whether the task has this method."""
        return self.envs[0].has_wrapper_attr(method)

    def play(self, director: Director, seeds: Sequence[int], deadline: float) -> list[Played]:
        """Play an episode of each seed; those that the deadline (of `time.monotonic`) cuts are not `ended`."""
        out: list[Played] = []
        with one_thread(), torch.no_grad():
            for k in range(0, len(seeds), len(self.envs)):
                if out and time.monotonic() > deadline:
                    break
                out += self._together(director, seeds[k : k + len(self.envs)], deadline)
        return out

    def _together(self, director: Director, seeds: Sequence[int], deadline: float) -> list[Played]:
        played = [Played() for _ in seeds]
        rows: Array = np.stack([self._reset(i, seed) for i, seed in enumerate(seeds)]).astype(self.spec.obs_dtype)
        going = np.ones(len(seeds), bool)
        director.begin(len(seeds))
        for step in range(self.longest):
            action, target, due = director.act(rows)
            ready = self.spec.action.to_env(action)
            here = rows[:, self.agent.positions].copy()
            for i in np.flatnonzero(going).tolist():
                one = played[i]
                one.path.append(here[i])
                if due[i]:
                    one.asked.append((step, target[i]))
                director.moved(i, self.envs[i], here[i], one)
                rows[i], over = self._step(i, ready[i], one)
                if self.agent.spec.goal is not None:
                    one.achieved = rows[i, self.agent.spec.goal.achieved].copy()
                if over or step + 1 == self.longest:
                    one.path.append(rows[i, self.agent.positions].copy())
                    one.ended, going[i] = True, False
            if not going.any() or time.monotonic() > deadline:
                break
        return played

    def _reset(self, i: int, seed: int) -> Array:
        try:
            return self.rows(check_reset(self.envs[i].reset(seed=seed)))
        except Exception as error:
            raise blame(i, error, " in a reset") from error

    def _step(self, i: int, action: Any, one: Played) -> tuple[Array, bool]:
        """Take one step; returns the next observation and whether the episode is over."""
        given = action.item() if np.ndim(action) == 0 else action
        try:
            obs, reward, terminated, truncated, info = check_step(self.envs[i].step(given))
            row = self.rows(obs)
        except Exception as error:
            raise blame(i, error) from error
        one.total += reward
        if "fallen" in info:
            one.fallen.append(bool(info["fallen"]))
        told = success_of(info)
        one.success = None if told < 0 else bool(told)
        return row, terminated or truncated
