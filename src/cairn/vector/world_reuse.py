"""Whether an environment's reset is a function of its seed alone, or also of its earlier use."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import gymnasium as gym
import numpy as np

from cairn.envs.task import Task
from cairn.vector.deadline import Hang
from cairn.vector.protocol import EnvMaker

STEPS = 300  # of each of the trial's two replays
SECONDS = 5.0  # a bound for each; high, so that a busy machine decides as an idle one does
ENOUGH = 50  # with fewer steps in that time nothing is known
_known: dict[str, bool] = {}  # by task, in this process


def must_renew(make: Task | EnvMaker, env: gym.Env[Any, Any]) -> bool:
    """Whether `env`, which `make` made, must be made anew to play a seed as a new environment would.

    Box2D worlds must: they solve contacts in an order that depends on bodies destroyed before. Others are tried: a new
    environment plays a seed twice, with the same random actions and a reset between. One that is too slow, or raises
    meanwhile, counts as one that must. Where a second environment cannot be made beside `env` (it may own a port), or
    `make` returns the same one again, `env` is left as it is.
    """
    key = repr(make) if isinstance(make, Task) else ""  # the repr of a function does not say what it makes
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
    world = getattr(env.unwrapped, "world", None)
    return ".box2d" in type(env.unwrapped).__module__ or type(world).__module__.partition(".")[0] == "Box2D"


def _differs_on_replay(env: gym.Env[Any, Any]) -> bool:
    try:
        env.action_space.seed(0)
        actions = [env.action_space.sample() for _ in range(STEPS)]
        first = _play(env, actions)
        return len(first) < 2 * ENOUGH or not _same(first, _play(env, actions, len(first)))
    except Hang:
        raise
    except (Exception, SystemExit):  # the environment's own faults are reported where it is used
        return True


def _play(env: gym.Env[Any, Any], actions: list[Any], most: int | None = None) -> list[Any]:
    """Observations and rewards from one seed; `most` of them, or as many as there is time for."""
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


def _copy(obs: Any) -> Any:
    """A copy of an observation: environments may return the same array again."""
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
