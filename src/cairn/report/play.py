"""Plays one episode of a policy step by step, for films and plans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from cairn.algorithms.player import Player
from cairn.core.types import Array, Episode
from cairn.envs.task import LONGEST, say_cut
from cairn.runs.evaluation import Policy
from cairn.vector.protocol import success_of
from cairn.vector.spaces import spec_of_env

Watch = Callable[[Array, Array | None], None]


def play(
    policy: Policy | Player, env: gym.Env[Any, Any], *, seed: int, watch: Watch, longest: int = LONGEST
) -> Episode:
    """Play an episode; returns its result.

    Args:
        policy: The policy.
        env: The environment.
        seed: Seed of the reset.
        watch: Called with every observation [...], the last one too, and the current subgoal [d] or None. It is called
            before the step, when the environment is still in the state of the observation.
        longest: Steps after which the episode is cut, which is printed once.
    """
    spec, layout = spec_of_env(env)
    player = policy if isinstance(policy, Player) else None
    if player is not None:
        player.must_suit(spec)
    obs, info = env.reset(seed=seed)
    if player is not None:
        player.forget(np.ones(1, bool))
    total, length, ended = 0.0, 0, False
    while not ended and length < longest:
        row = np.array(layout(obs), spec.obs_dtype)
        action = spec.action.to_env(policy(row[None]))[0]
        point = None if player is None else player.subgoal()
        watch(row, None if point is None else point[0])
        obs, reward, terminated, truncated, info = env.step(action.item() if action.ndim == 0 else action)
        total, length, ended = total + float(reward), length + 1, bool(terminated or truncated)
    if not ended:
        say_cut(longest)
    watch(np.array(layout(obs), spec.obs_dtype), None)
    told = success_of(info)
    return Episode(0, total, length, None if told < 0 else bool(told))
