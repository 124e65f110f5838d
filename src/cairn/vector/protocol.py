"""The contract every backend keeps, and the parts they share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from cairn.core.errors import CairnError
from cairn.core.types import ActionSpec, Array, Box, Discrete, Episode, GoalSpec, Spec, Step
from cairn.vector.checks import refuse_old_gym

EnvMaker = Callable[[], gym.Env[Any, Any]]
GOAL_KEYS = ("observation", "achieved_goal", "desired_goal")


class Vector(Protocol):
    """N environments that act as one. `step` is `send` then `recv`; work done between the two overlaps with them.

    Actions are in Cairn's units (see `Box.to_env`), [N] or [N, dim]. Step.next_obs is always the true successor.
    What follows a reset depends on its seeds and the actions alone; see `world_reuse`.
    """

    spec: Spec
    num_envs: int

    @property
    def restarts(self) -> int:
        """Workers replaced so far."""

    def reset(self, seeds: Sequence[int]) -> Array: ...
    def send(self, action: Array) -> None: ...
    def recv(self) -> Step: ...
    def step(self, action: Array) -> Step: ...
    def close(self) -> None: ...


@runtime_checkable
class Separate(Protocol):
    """A vector whose environments can each be begun and left alone; scores need it, training does not."""

    def begin(self, index: int, seed: int) -> Array:
        """One environment begins an episode from a seed; its first observation."""

    def rest(self, which: Array) -> None:
        """These [N] bool are not stepped until they are begun or all are reset; their rows come back not valid."""


class EpisodeStats:
    """Returns and lengths of episodes, from true rewards alone (Gymnasium's own counter is wrong under SAME_STEP)."""

    def __init__(self, num_envs: int) -> None:
        self.total = np.zeros(num_envs)
        self.length = np.zeros(num_envs, np.int64)

    def reset(self) -> None:
        self.total[:] = 0
        self.length[:] = 0

    def update(self, reward: Array, ended: Array, valid: Array, success: Array) -> tuple[Episode, ...]:
        """success is [N] int8: 1, 0, or -1 where the task does not tell. Returns the episodes that just ended."""
        self.total += reward * valid
        self.length += valid
        if not ended.any():
            return ()
        done = []
        for i in np.flatnonzero(ended & valid):
            verdict = None if success[i] < 0 else bool(success[i])
            done.append(Episode(int(i), float(self.total[i]), int(self.length[i]), verdict))
            self.total[i] = self.length[i] = 0
        return tuple(done)

    def forget(self, index: int) -> None:
        """Drop the open episode of an environment that was lost."""
        self.total[index] = self.length[index] = 0


def success_of(info: Mapping[str, Any]) -> int:
    """1 or 0 where the task says whether it succeeded, else -1."""
    for key in ("is_success", "success"):
        if key in info:
            return int(bool(info[key]))
    return -1


def action_spec(space: spaces.Space[Any]) -> ActionSpec:
    if isinstance(space, spaces.Discrete):
        return Discrete(int(space.n), int(space.start))
    if isinstance(space, spaces.Box):
        low, high = space.low.flatten(), space.high.flatten()
        if not (low <= high).all():  # nor where one is not a number
            raise CairnError(f"the action space {space} has a lower bound above the upper one, or one that is NaN.")
        whole = {"dtype": str(space.dtype)} if np.issubdtype(space.dtype, np.integer) else {}
        return Box(tuple(space.shape), tuple(low.tolist()), tuple(high.tolist()), **whole)
    raise CairnError(f"the action space {space} is not supported; Cairn acts in Discrete and Box spaces.")


def spec_of_env(env: gym.Env[Any, Any]) -> tuple[Spec, Callable[[Any], Array]]:
    """`spec_of` its spaces, with the reachable subgoals and the number of stacked frames that it declares."""
    for name in ("observation_space", "action_space"):
        if not isinstance(getattr(env, name, None), spaces.Space):
            raise CairnError(f"the environment has no {name}; set it to a space of gymnasium.spaces in its __init__.")
    spec, layout = spec_of(env.observation_space, env.action_space)
    reachable, stack = _attribute(env, "reachable", None), _attribute(env, "zero_padded_frames", 1)
    return replace(spec, reachable=reachable, stack=stack), layout


def _attribute(env: gym.Env[Any, Any], name: str, default: Any) -> Any:
    """An attribute of an environment or of the nearest wrapper that has it."""
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else default


def spec_of(observation: spaces.Space[Any], action: spaces.Space[Any]) -> tuple[Spec, Callable[[Any], Array]]:
    """A task's Spec, and the function that lays one of its observations out as that Spec's array."""
    refuse_old_gym(observation, action)
    act = action_spec(action)
    if isinstance(observation, spaces.Box) and observation.shape:  # one without a shape is laid out as [1] below
        small = observation.dtype == np.uint8
        dtype = "uint8" if small else "float32"
        if observation.shape == ():  # one number is a row of one
            return Spec((1,), dtype, act), _row_of_one
        return Spec(tuple(observation.shape), dtype, act), lambda obs: obs
    if isinstance(observation, spaces.Dict) and set(observation.keys()) == set(GOAL_KEYS):
        widths = {k: spaces.flatdim(observation[k]) for k in GOAL_KEYS}
        if widths["achieved_goal"] == widths["desired_goal"]:
            goal = GoalSpec(widths["observation"], widths["achieved_goal"])
            return Spec((sum(widths.values()),), "float32", act, goal), _flatten_goal
    try:
        width = spaces.flatdim(observation)
    except (NotImplementedError, ValueError):
        raise CairnError(f"the observation space {observation} cannot be laid out as one array.") from None
    return Spec((width,), "float32", act), lambda obs: np.asarray(spaces.flatten(observation, obs))


def _flatten_goal(obs: dict[str, Array]) -> Array:
    return np.concatenate([np.ravel(obs[key]) for key in GOAL_KEYS])


def _row_of_one(obs: Any) -> Array:
    row = np.asarray(obs)
    return row.reshape(1) if row.shape == () else row
