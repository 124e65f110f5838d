"""Scores on fresh seeds: one whole episode per seed, without exploration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cairn.algorithms.player import Player
from cairn.core.agent import Agent
from cairn.core.device import one_thread
from cairn.core.errors import EnvError
from cairn.core.format import percent
from cairn.core.types import Array, Episode, Step
from cairn.envs.task import LONGEST, say_cut
from cairn.nets.cnn import has_images
from cairn.vector.protocol import Separate, Vector

Policy = Callable[[Array], Array]
Clear = Callable[[Sequence[Episode]], bool]  # whether the first episodes leave no doubt about all


@dataclass(frozen=True)
class Score:
    """The result of a policy over some episodes.

    Attributes:
        mean: Mean return.
        std: Standard deviation of the returns.
        success: Share of successful episodes; None where the task does not report success.
        episodes: Number of episodes.
        steps: Number of steps in all.
        returns: Return of each episode, in the order of the seeds.
        lengths: Steps of each episode.
        successes: Success of each episode; None where it was not reported.
    """

    mean: float
    std: float
    success: float | None
    episodes: int
    steps: int
    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    successes: tuple[bool | None, ...] = ()

    @staticmethod
    def of(episodes: Sequence[Episode]) -> Score:
        """The score of these episodes."""
        totals = [e.total for e in episodes]
        told = any(e.success is not None for e in episodes)  # then an unreported success is a failure
        return Score(
            mean=float(np.mean(totals)),
            std=float(np.std(totals)),
            success=float(np.mean([bool(e.success) for e in episodes])) if told else None,
            episodes=len(episodes),
            steps=sum(e.length for e in episodes),
            returns=tuple(totals),
            lengths=tuple(e.length for e in episodes),
            successes=tuple(e.success for e in episodes),
        )

    def __str__(self) -> str:
        told = "" if self.success is None else f", success {percent(self.success)}"
        return f"{self.mean:.1f} ± {self.std:.1f}{told} over {self.episodes} episodes"


def as_policy(agent: Agent, *, explore: bool = False, device: str = "cpu") -> Player:
    """The agent as a policy that maps observations to actions."""
    return Player(agent, explore=explore, device=device)


def evaluate(
    policy: Policy,
    envs: Vector,
    seeds: Sequence[int],
    stop: Callable[[], bool] = bool,
    *,
    longest: int = LONGEST,
    clear: Clear | None = None,
) -> Score | None:
    """Play one episode from each seed, as many at a time as there are environments.

    On a CPU, an agent's result for a seed does not depend on the other seeds.

    Args:
        policy: Maps observations [N, ...] to actions.
        envs: The environments.
        seeds: One per episode.
        stop: Called at every step; True ends the evaluation.
        longest: Steps after which an episode is cut, which is printed once.
        clear: Asked about the episodes of the first seeds, as soon as all of these are over; True ends the evaluation.

    Returns:
        The score, of the first seeds if it was clear; None if `stop` returned True.

    Raises:
        CairnError: The policy does not fit the environments.
        EnvError: An environment keeps failing.
    """
    if isinstance(policy, Player):
        policy.must_suit(envs.spec)
    images = isinstance(policy, Player) and has_images(policy.agent.spec)
    with one_thread(unless=images):
        table = Table(policy, envs, seeds, longest)
        play = _apart if isinstance(envs, Separate) else _in_turns
        over = play(table, stop, clear)
        return Score.of(over) if over else None


class Table:
    """Which environment plays which seed, and the results."""

    def __init__(self, policy: Policy, envs: Any, seeds: Sequence[int], longest: int) -> None:
        self.envs, self.seeds, self.longest = envs, [int(seed) for seed in seeds], longest
        self.solo = policy.alone(envs.num_envs) if isinstance(policy, Player) else None
        self.policy = policy
        self.forget = getattr(policy, "forget", lambda ended: None)
        self.found: dict[int, Episode] = {}
        self.number = np.zeros(envs.num_envs, np.int64)  # number of the seed that each environment plays
        self.playing = np.zeros(envs.num_envs, bool)
        self.total, self.length = np.zeros(envs.num_envs), np.zeros(envs.num_envs, np.int64)
        self.restarts = envs.restarts
        self.first: list[Episode] = []  # of the first seeds, up to the first that is not over

    def decided(self, clear: Clear | None) -> bool:
        """Whether the episodes of the first seeds leave no doubt. Of all that are over, most would be short ones."""
        if clear is None:
            return False
        before = len(self.first)
        self.played()
        return len(self.first) > before and len(self.first) < len(self.seeds) and clear(self.first)

    def played(self) -> list[Episode]:
        """The episodes of the first seeds."""
        while len(self.first) in self.found:
            self.first.append(self.found[len(self.first)])
        return self.first

    def begin(self, env: int, number: int) -> int:
        """Assign a seed to an environment, which is about to play it; returns the seed."""
        self.number[env], self.playing[env] = number, True
        self.total[env] = self.length[env] = 0
        if self.solo is not None:
            self.solo.begin(env, self.seeds[number])
        else:
            self.forget(np.arange(len(self.number)) == env)
        return self.seeds[number]

    def step(self, obs: Array) -> Step:
        """One step of all environments with the policy's actions."""
        if self.envs.restarts - self.restarts > len(self.seeds) + 10:
            raise EnvError(0, "keeps failing during evaluation")
        step: Step = self.envs.step(self.policy(obs) if self.solo is None else self.solo(obs, self.playing))
        if self.solo is None:
            self.forget(step.terminated | step.truncated | ~step.valid)
        return step

    def done(self, step: Step) -> list[int]:
        """The environments whose episode ended with this step, or is cut."""
        counted = self.playing & step.valid
        self.length += counted
        self.total += np.where(counted, step.reward, 0)
        if not step.episodes and self.length.max() < self.longest:  # nearly always
            return []
        over = {episode.env: episode for episode in step.episodes if self.playing[episode.env]}
        for env in np.flatnonzero(counted & (self.length >= self.longest)).tolist():
            if env not in over:
                over[env] = Episode(env, float(self.total[env]), int(self.length[env]), None)
                say_cut(self.longest)
        for env, episode in over.items():
            self.found[int(self.number[env])], self.playing[env] = episode, False
        return sorted(over)


def _apart(table: Table, stop: Callable[[], bool], clear: Clear | None) -> list[Episode]:
    """Each environment begins its next seed when it is free, and pauses when there is none. [] if stopped."""
    envs, first = table.envs, min(len(table.seeds), table.envs.num_envs)
    obs = envs.reset([*table.seeds[:first], *table.seeds[:1] * (envs.num_envs - first)])
    for env in range(first):
        table.begin(env, env)
    envs.rest(~table.playing)
    waiting = iter(range(first, len(table.seeds)))
    while np.count_nonzero(table.playing):
        if stop():
            return []
        step = table.step(obs)
        obs = step.obs
        if np.count_nonzero(step.valid) < len(step.valid):
            for env in np.flatnonzero(table.playing & ~step.valid).tolist():  # its worker was lost: the same seed again
                obs[env] = envs.begin(env, table.begin(env, table.number[env]))
        done = table.done(step)
        if done and table.decided(clear):
            break
        for env, number in zip(done, waiting, strict=False):
            obs[env] = envs.begin(env, table.begin(env, number))
        if done and not table.playing[done].all():
            envs.rest(~table.playing)
    return table.played()


def _in_turns(table: Table, stop: Callable[[], bool], clear: Clear | None) -> list[Episode]:
    """For environments that cannot be started one by one: all play on until the last one is done."""
    envs = table.envs
    for start in range(0, len(table.seeds), envs.num_envs):
        count = min(len(table.seeds) - start, envs.num_envs)
        chunk = table.seeds[start : start + count]
        obs = envs.reset(chunk + chunk[:1] * (envs.num_envs - count))
        for env in range(count):
            table.begin(env, start + env)
        while table.playing.any():
            if stop():
                return []
            step = table.step(obs)
            table.done(step)
            obs = step.obs
        if table.decided(clear):
            break
    return table.played()
