"""Scores on fresh seeds: one episode a seed, whole episodes, no exploration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cairn.agents.base import Agent
from cairn.agents.player import Player
from cairn.core.errors import EnvError
from cairn.core.types import Array, Episode
from cairn.vector.base import Vector

Policy = Callable[[Array], Array]


@dataclass(frozen=True)
class Score:
    """What a policy did over some episodes. `success` is None where the task does not tell."""

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
        totals = [e.total for e in episodes]
        told = any(e.success is not None for e in episodes)  # then silence is a failure
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
        told = "" if self.success is None else f", success {100 * self.success:.4g} %"
        return f"{self.mean:.1f} ± {self.std:.1f}{told} over {self.episodes} episodes"


def as_policy(agent: Agent, *, explore: bool = False, device: str = "cpu") -> Player:
    return Player(agent, explore=explore, device=device)


def evaluate(policy: Policy, envs: Vector, seeds: Sequence[int], stop: Callable[[], bool] = bool) -> Score | None:
    """Play one episode from each seed, as many at a time as there are environments. None where `stop` said so."""
    if isinstance(policy, Player):
        policy.must_suit(envs.spec)
    episodes: list[Episode] = []
    before = envs.restarts
    forget = getattr(policy, "forget", lambda ended: None)
    for start in range(0, len(seeds), envs.num_envs):
        chunk = list(seeds[start : start + envs.num_envs])
        spare = envs.num_envs - len(chunk)
        obs = envs.reset(chunk + chunk[:1] * spare)
        forget(np.ones(envs.num_envs, bool))
        first: dict[int, Episode] = {i: Episode(i, 0.0, 0, None) for i in range(len(chunk), envs.num_envs)}
        while len(first) < envs.num_envs:
            if stop():
                return None
            if envs.restarts - before > len(seeds) + 10:
                raise EnvError(0, "keeps failing during evaluation")
            step = envs.step(policy(obs))
            obs = step.obs
            forget(step.terminated | step.truncated | ~step.valid)
            for episode in step.episodes:
                first.setdefault(episode.env, episode)
        episodes += [first[i] for i in range(len(chunk))]
    return Score.of(episodes)
