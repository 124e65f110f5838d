"""Finds out whether an environment's reset depends on its seed alone, or also on its earlier use."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from cairn.envs.task import Member, Task
from cairn.vector.deadline import Hang
from cairn.vector.protocol import EnvMaker

STEPS = 300  # steps of each of the two long episodes
EPISODES, SHORT = 20, 1  # short episodes, and the steps of each
SECONDS = 5.0  # time limit of each trial; high, so that a busy machine decides like an idle one
ENOUGH = 50  # with fewer steps in that time the answer is unknown
_known: dict[str, bool] = {}  # answers by task


def one_must_renew(makers: Sequence[Task | EnvMaker], envs: Sequence[gym.Env[Any, Any]]) -> bool:
    """Whether one of these environments must be remade; copies made by the same maker are tried once."""
    apart = {id(make): (make, env) for make, env in zip(makers, envs, strict=True)}
    return any(must_renew(make, env) for make, env in apart.values())


def must_renew(make: Task | EnvMaker, env: gym.Env[Any, Any]) -> bool:
    """Whether `env`, made by `make`, must be remade to play a seed as a new environment would.

    Box2D worlds must: the order in which they solve contacts depends on bodies destroyed before. Other environments are
    tried: a new one plays a seed twice, with the same random actions and a reset in between, then short episodes of
    several
    seeds in one order and in the reverse order. An environment that is too slow or raises counts as one that must. If
    `make` cannot make a second one beside `env` (it may own a port), or returns the same one, the answer is no; an
    environment that the user lent is not tried.
    """
    if isinstance(make, Member) and make.lends:
        return False
    named = isinstance(make, Task) and make.make is None and not make.wrappers
    key = repr(make) if named else ""  # a function's repr does not identify what it makes
    if key in _known:
        return _known[key]
    answer = _examine(make, env)
    if key:
        _known[key] = answer
    return answer


def _examine(make: EnvMaker, env: gym.Env[Any, Any]) -> bool:
    try:
        other = make()
    except Hang:
        raise
    except (Exception, SystemExit):
        return of_box2d(env)
    if other is env:
        return False
    try:
        return of_box2d(env) or _differs_on_replay(other)
    finally:
        with contextlib.suppress(Exception):
            other.close()


def of_box2d(env: gym.Env[Any, Any]) -> bool:
    """Whether an environment has a Box2D world."""
    world = getattr(env.unwrapped, "world", None)
    return ".box2d" in type(env.unwrapped).__module__ or type(world).__module__.partition(".")[0] == "Box2D"


def _differs_on_replay(env: gym.Env[Any, Any]) -> bool:
    try:
        env.action_space.seed(0)
        actions = [env.action_space.sample() for _ in range(STEPS)]
        first = _play(env, actions)
        if len(first) < 2 * ENOUGH or not _same(first, _play(env, actions, len(first))):
            return True
        return _differs_by_order(env, actions)
    except Hang:
        raise
    except (Exception, SystemExit):  # the environment's faults are reported when it is used
        return True


def _play(env: gym.Env[Any, Any], actions: list[Any], most: int | None = None) -> list[Any]:
    """Observations and rewards from one seed; `most` of them, or as many as fit into SECONDS."""
    obs, _ = env.reset(seed=0)
    out, start = [_copy(obs)], time.perf_counter()
    for t, action in enumerate(actions):
        obs, reward, terminated, truncated, _ = env.step(action)
        out += [_copy(obs), reward]
        if terminated or truncated or t == ENOUGH // 2:
            obs, _ = env.reset()
            out.append(_copy(obs))
        if len(out) >= most if most is not None else time.perf_counter() - start > SECONDS:
            break
    return out


def _differs_by_order(env: gym.Env[Any, Any], actions: list[Any]) -> bool:
    """Whether a short episode depends on the episode before it.

    Long episodes can hide the difference: the bodies have moved away.
    """
    start, played = time.perf_counter(), []
    for seed in range(EPISODES):
        played.append(_short(env, seed, actions))
        if time.perf_counter() - start > SECONDS:
            break
    return any(not _same(played[seed], _short(env, seed, actions)) for seed in reversed(range(len(played))))


def _short(env: gym.Env[Any, Any], seed: int, actions: list[Any]) -> list[Any]:
    obs, _ = env.reset(seed=seed)
    out = [_copy(obs)]
    for action in actions[SHORT * seed : SHORT * (seed + 1)]:
        obs, reward, terminated, truncated, _ = env.step(action)
        out += [_copy(obs), reward]
        if terminated or truncated:
            break
    return out


def _copy(obs: Any) -> Any:
    """A copy of an observation: environments may reuse their arrays."""
    if isinstance(obs, dict):
        return {key: _copy(value) for key, value in obs.items()}
    return np.array(obs) if isinstance(obs, np.ndarray) else obs


def _same(first: list[Any], second: list[Any]) -> bool:
    if len(first) != len(second):
        return False
    return all(_equal(a, b) for a, b in zip(first, second, strict=True))


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(_equal(x, y) for x, y in zip(a, b, strict=True))
    return bool(np.array_equal(a, b))
