"""Whether an environment's reset is a function of its seed alone, or of what it was used for before."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import gymnasium as gym
import numpy as np

from cairn.vector.deadline import Hang
from cairn.vector.protocol import EnvMaker

STEPS = 300  # of each of the trial's two plays
SECONDS = 5.0  # a bound for each; high, so that a busy machine finds what an idle one does
ENOUGH = 50  # with fewer steps in that time nothing is known
_found: dict[str, bool] = {}  # by task, in this process


def remembers(make: EnvMaker, env: gym.Env[Any, Any]) -> bool:
    """Whether `env`, which `make` made, must be made anew to play a seed as a new one would.

    Worlds of Box2D do: they solve contacts in an order that depends on bodies destroyed before. Others are tried: a
    new environment plays a seed twice, with the same random actions and a reset between. One that is too slow, or
    fails meanwhile, is taken as one that remembers. One that cannot be made beside `env` (it may own a port) is not
    known, and is left as it is; so is one that `make` hands out again and again.
    """
    key = repr(make) if hasattr(make, "id") else ""  # only a task is known by its name
    if key in _found:
        return _found[key]
    found = _found_out(make, env)
    if key:
        _found[key] = found
    return found


def _found_out(make: EnvMaker, env: gym.Env[Any, Any]) -> bool:
    try:
        other = make()
    except Hang:
        raise
    except (Exception, SystemExit):
        return of_box2d(env)
    if other is env:
        return False
    try:
        return of_box2d(env) or _tried(other)
    finally:
        with contextlib.suppress(Exception):
            other.close()


def of_box2d(env: gym.Env[Any, Any]) -> bool:
    world = getattr(env.unwrapped, "world", None)
    return ".box2d" in type(env.unwrapped).__module__ or type(world).__module__.partition(".")[0] == "Box2D"


def _tried(env: gym.Env[Any, Any]) -> bool:
    try:
        env.action_space.seed(0)
        actions = [env.action_space.sample() for _ in range(STEPS)]
        first = _played(env, actions)
        return len(first) < 2 * ENOUGH or not _same(first, _played(env, actions, len(first)))
    except Hang:
        raise
    except (Exception, SystemExit):  # the environment's own faults are told where it is used
        return True


def _played(env: gym.Env[Any, Any], actions: list[Any], most: int | None = None) -> list[Any]:
    """Observations and rewards from one seed; `most` of them, or as many as there is time for."""
    obs, _ = env.reset(seed=0)
    out, begun = [_copied(obs)], time.perf_counter()
    for t, action in enumerate(actions):
        obs, reward, terminated, truncated, _ = env.step(action)
        out += [_copied(obs), reward]
        if terminated or truncated or t == ENOUGH // 2:
            obs, _ = env.reset()
            out.append(_copied(obs))
        if len(out) >= most if most is not None else time.perf_counter() - begun > SECONDS:
            break
    return out


def _copied(obs: Any) -> Any:
    """Environments may hand out the same array again."""
    if isinstance(obs, dict):
        return {key: _copied(value) for key, value in obs.items()}
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
