"""A task under examination: its copies, the episodes that were played, and what is known about it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gymnasium as gym
import numpy as np

from cairn.core.goals import GoalRule
from cairn.core.types import Array, Spec
from cairn.doctor.play import BEHAVIOURS, Behaviour, Trace, as_row, draw, policy
from cairn.envs.goals import rule_in
from cairn.vector.protocol import EnvMaker, spec_of_env, success_of

SEED, FEW = 7, 5  # of the twins, and their steps: what is chaotic makes much of a rounding error later on
STARTS = 8  # seeds that are tried
EPISODES = 60  # played at random at most
SHARE = 0.2  # of the time given
WIDE = 512  # entries of an observation that are kept of it; more are thinned out evenly
LONGEST = 5_000  # steps of an episode that does not end


@dataclass(frozen=True)
class Case:
    """What the doctor knows besides the task."""

    name: str = "the task"
    gamma: float = 0.99  # γ
    assumed: bool = False  # no config gave γ
    hindsight: bool = False  # goals are relabelled
    normalises: bool = False  # the agent puts observations on one scale
    seconds: float = 60.0
    steps: int = 8_000  # played at random at most


class Raised(Exception):
    """The task raised an error of its own."""

    def __init__(self, during: str, error: BaseException) -> None:
        super().__init__(f"{type(error).__name__}: {error}")
        self.during, self.error = during, error


class TaskProbe:
    """What every probe is given. `note` is called with the name of each call of the task, and "" when it returned."""

    def __init__(self, make: EnvMaker, case: Case | None = None, note: Callable[[str], None] | None = None) -> None:
        self.make, self.case, self.note = make, case or Case(), note or (lambda what: None)
        self.start = time.perf_counter()
        self.rng = np.random.default_rng(0)
        self.copies: list[Copy] = []
        self.clock = {what: [0.0, 0.0] for what in ("make", "reset", "step", "compute_reward", "close")}

    @property
    def left(self) -> float:
        """Seconds."""
        return self.case.seconds - (time.perf_counter() - self.start)

    @cached_property
    def bare(self) -> gym.Env[Any, Any]:
        """The first environment, of which nothing is known yet."""
        env: gym.Env[Any, Any] = self.ask("make", self.make)
        return env

    @cached_property
    def first(self) -> Copy:
        """A scratch copy of the environment."""
        return self._add(self.bare)

    @cached_property
    def twins(self) -> tuple[Twin, Twin]:
        """Two more copies, each reset without a seed and then played under one seed with the same actions."""
        actions = [draw(self.first.action_space, self.rng) for _ in range(FEW)]
        one, other = self.another(), self.another()
        return Twin.of(one, actions), Twin.of(other, actions)

    def another(self) -> Copy:
        """A fresh copy."""
        return self._add(self.ask("make", self.make))

    def _add(self, env: gym.Env[Any, Any]) -> Copy:
        copy = Copy(self, env)
        self.copies.append(copy)
        return copy

    @property
    def spec(self) -> Spec:
        return self.first.spec

    @property
    def images(self) -> bool:
        return self.spec.obs_dtype == "uint8" and len(self.spec.obs_shape) > 1

    @property
    def limit(self) -> int | None:
        """Steps after which the task says that it truncates."""
        env: Any = self.first.env
        while isinstance(env, gym.Wrapper):
            if isinstance(env, gym.wrappers.TimeLimit):
                return int(env._max_episode_steps)
            env = env.env
        return None

    @cached_property
    def rule(self) -> GoalRule | Raised | None:
        """How goals are paid, or why that cannot be known; None where there are no goals."""
        if self.spec.goal is None:
            return None
        env = self.another().env
        try:
            rule: GoalRule = self.ask("compute_reward", lambda: rule_in(env, self.case.name))
        except Raised as raised:
            return raised
        return rule

    @cached_property
    def starts(self) -> list[Array]:
        """The first observations under some seeds."""
        return [self.first.reset(seed=seed) for seed in range(1, STARTS + 1)]

    @cached_property
    def plays(self) -> list[Trace]:
        """Random and scripted episodes, start as training begins them: one seed, then none."""
        traces: list[Trace] = []
        self.play_on(traces, lambda: len(traces) >= EPISODES or sum(t.length for t in traces) >= self.case.steps)
        return traces

    def play_on(self, traces: list[Trace], enough: Callable[[], bool]) -> None:
        """More episodes, until there are enough or a share of the time is gone."""
        until = time.perf_counter() + SHARE * self.case.seconds
        while not enough() and time.perf_counter() < until:
            trace = self.first.episode(BEHAVIOURS[len(traces) % len(BEHAVIOURS)], until, first=not traces)
            if trace.length or not traces:
                traces.append(trace)

    @cached_property
    def pay(self) -> float:
        """What a difference in reward is measured by: the range of the rewards seen, or their size if it is 0."""
        rewards = np.concatenate([t.reward for t in self.plays])
        rewards = rewards[np.isfinite(rewards)]
        if not len(rewards):
            return 1.0
        return float(np.ptp(rewards)) or float(np.abs(rewards).max()) or 1.0

    @cached_property
    def spread(self) -> Array:
        """[D] what an entry of the thinned observation ranges over in play: its 5th to its 95th percentile."""
        rows = np.concatenate([t.obs for t in self.plays])
        low, high = np.percentile(rows, (5, 95), axis=0)
        out: Array = np.maximum(high - low, rows.std(0))
        return out

    def ask(self, what: str, question: Callable[[], Any]) -> Any:
        """Run a call of the task: its time is measured, and the parent process knows which call is running."""
        self.note(what)
        start = time.perf_counter()
        try:
            return question()
        except (Exception, SystemExit) as error:  # sys.exit too: it must not end the examination
            raise Raised(what, error) from error
        finally:
            self.note("")
            self.clock[what][0] += time.perf_counter() - start
            self.clock[what][1] += 1

    def price(self, what: str) -> float:
        """Seconds that an answer took in the mean."""
        seconds, count = self.clock[what]
        return seconds / max(count, 1)

    def close(self) -> None:
        for copy in self.copies:
            with contextlib.suppress(Raised):
                self.ask("close", copy.env.close)


class Copy:
    """One environment, its observations as flat arrays of their own."""

    def __init__(self, probe: TaskProbe, env: gym.Env[Any, Any]) -> None:
        self.probe, self.env = probe, env
        self.spec, self.layout = spec_of_env(self.env)

    @property
    def action_space(self) -> Any:
        return self.env.action_space

    def reset(self, seed: int | None = None) -> Array:
        obs, _ = self.probe.ask("reset", lambda: self.env.reset(seed=seed))
        return self.flat(obs)

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.probe.ask("step", lambda: self.env.step(action))
        return self.flat(obs), float(reward), bool(terminated), bool(truncated), info

    def run(self, seed: int | None, actions: list[Any]) -> list[Array]:
        """The observations of a reset and of the actions after it, until the episode ends."""
        return [moment.obs for moment in self.play(seed, actions)]

    def play(self, seed: int | None, actions: Iterable[Any]) -> list[Moment]:
        """The same with what was paid and how it ended; the reset itself pays 0."""
        moments = [Moment(self.reset(seed))]
        for action in actions:
            obs, reward, terminated, truncated, _ = self.step(action)
            moments.append(Moment(obs, reward, terminated, truncated))
            if terminated or truncated:
                break
        return moments

    def flat(self, obs: Any) -> Array:
        return np.array(self.layout(obs), "uint8" if self.spec.obs_dtype == "uint8" else float).ravel()

    def thin(self, obs: Array) -> Array:
        return obs if obs.size <= WIDE else obs[:: -(-obs.size // WIDE)]

    def episode(self, behaviour: Behaviour, until: float = float("inf"), *, first: bool = False) -> Trace:
        """Played to its end, to `until` or to where it is too long."""
        act = policy(behaviour, self.action_space, self.probe.rng)
        seen = [self.reset(0 if first else None)]
        rows, actions = [self.thin(seen[0])], []
        rewards: list[float] = []
        terminated = truncated = False
        success = None
        while not (terminated or truncated) and len(rewards) < LONGEST and time.perf_counter() < until:
            action = act()
            obs, reward, terminated, truncated, info = self.step(action)
            rows.append(self.thin(obs))
            if self.spec.goal is not None:
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
        goal = self.spec.goal
        if goal is None:
            return np.zeros((0, 0)), np.zeros((0, 0))
        rows = np.array(seen)
        return rows[:, goal.achieved], rows[:, goal.desired]


@dataclass(frozen=True)
class Moment:
    """What was seen and paid after an action, and whether the episode ended with it."""

    obs: Array
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False


@dataclass(frozen=True)
class Twin:
    """A copy, the observations of its first three resets, and those under `SEED`."""

    copy: Copy
    starts: list[Array]
    seen: list[Array]

    @classmethod
    def of(cls, copy: Copy, actions: list[Any]) -> Twin:
        return cls(copy, [copy.reset() for _ in range(3)], copy.run(SEED, actions))
