"""Action masks: which discrete options are currently allowed, as a part of the observation.

Tasks provide masks by a method `action_masks()`, as for sb3-contrib, in `info["action_mask"]`, as Gymnasium's Taxi, or
under the key "action_mask" of a Dict observation, as in PettingZoo. `ActionMasks` converts the first two to the third.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from cairn.core.actions import Array
from cairn.core.composite_actions import ActionSpec
from cairn.core.errors import CairnError

MASK = "action_mask"  # the key in an info and in an observation
METHOD = "action_masks"
ABSTRACT = ("builtins", "typing", "abc", "gymnasium.core")  # modules of base classes that are no task


def maskable(space: Any) -> bool:
    """Whether actions consist of discrete options only."""
    return isinstance(space, (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary))


def options(space: spaces.Space[Any]) -> int:
    """The length of a mask: one entry per option of each choice."""
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    return int(np.sum(space.nvec)) if isinstance(space, spaces.MultiDiscrete) else 2 * int(np.prod(space.shape or ()))


class MaskFault(ValueError):
    """A fault of a mask; the message completes "environment 0 returned"."""


def shows_mask(env: gym.Env[Any, Any]) -> bool:
    """Whether observations already contain the mask."""
    space = getattr(env, "observation_space", None)
    return isinstance(space, spaces.Dict) and MASK in space.spaces


def may_tell_by_info(env: gym.Env[Any, Any]) -> bool:
    """Whether the files of the environment or of a wrapper mention masks; only then it is reset to test."""
    return any(mentions_mask(layer) for layer in _layers(env))


def tells_by_info(env: gym.Env[Any, Any]) -> bool:
    """Whether the info of a reset has a mask. Closes the environment."""
    try:
        return MASK in env.reset(seed=0)[1]
    except Exception:  # errors will be reported when the task is used
        return False
    finally:
        env.close()


def tells_masks(env: gym.Env[Any, Any], another: Callable[[], gym.Env[Any, Any]]) -> bool:
    """Whether the environment tells masks that its observations do not show. `another` makes one to be reset."""
    if not maskable(getattr(env, "action_space", None)) or shows_mask(env):
        return False
    return env.has_wrapper_attr(METHOD) or (may_tell_by_info(env) and tells_by_info(another()))


def mentions_mask(kind: type) -> bool:
    """Whether the files of a class and of its bases have the key of masks: a function beside it may make the info."""
    return any(_has_key(base) for base in kind.__mro__ if base.__module__ not in ABSTRACT)


@cache
def _has_key(kind: type) -> bool:
    for part in (inspect.getmodule(kind), kind):  # a cell of a notebook has the class alone
        try:
            text = inspect.getsource(part)  # type: ignore[arg-type]  # None raises TypeError
        except (OSError, TypeError):  # compiled, or typed into an interpreter
            continue
        if f'"{MASK}"' in text or f"'{MASK}'" in text:
            return True
    return False


def _layers(env: Any) -> Iterator[type]:
    while env is not None:
        yield type(env)
        env = env.env if isinstance(env, gym.Wrapper) else None


class ActionMasks(gym.Wrapper[Any, Any, Any, Any]):
    """Adds a task's mask to its observation, under the key "action_mask".

    At the end of an episode a mask may forbid every action; it is replaced by one that allows all.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.by_method = env.has_wrapper_attr(METHOD)
        self.beside = Beside(env.observation_space, env.action_space)
        self.observation_space = self.beside.space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(seed=seed, options=options)
        return self.beside(obs, self._mask(info), over=False), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        over = bool(terminated) or bool(truncated)
        return self.beside(obs, self._mask(info), over=over), reward, terminated, truncated, info

    def _mask(self, info: Mapping[str, Any]) -> Any:
        return self.env.get_wrapper_attr(METHOD)() if self.by_method else info.get(MASK)


class Beside:
    """Puts masks beside observations of `shown`: in their Dict, or in one with the key "observation"."""

    def __init__(self, shown: spaces.Space[Any], action: spaces.Space[Any]) -> None:
        self.length = options(action)
        self.nested = not isinstance(shown, spaces.Dict)
        parts = dict(shown.spaces) if isinstance(shown, spaces.Dict) else {"observation": shown}
        self.space = spaces.Dict({**parts, MASK: spaces.MultiBinary(self.length)})

    def __call__(self, obs: Any, mask: Any, over: bool) -> Any:
        """An observation with its mask. Where the episode is `over`, a mask that forbids all allows all."""
        if over and (mask is None or not np.any(np.concatenate([np.ravel(one) for one in _listed(mask)]))):
            mask = np.ones(self.length, np.int8)
        return {**({"observation": obs} if self.nested else obs), MASK: mask}


class WithoutMask(gym.ObservationWrapper[Any, Any, Any]):
    """Removes the mask from a Dict observation."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        assert isinstance(env.observation_space, spaces.Dict)
        self.observation_space = spaces.Dict({k: v for k, v in env.observation_space.spaces.items() if k != MASK})

    def observation(self, observation: Any) -> Any:
        """The observation without its mask."""
        return {key: value for key, value in observation.items() if key != MASK}


def _listed(mask: Any) -> list[Any]:
    return list(mask) if isinstance(mask, (tuple, list)) and mask else [mask]


def expected_length(space: spaces.Space[Any], action: ActionSpec) -> int:
    """The length of masks in an observation space. Raises CairnError where it does not fit the actions."""
    wanted = sum(action.choices)
    told = int(np.prod(space.shape)) if space.shape is not None else -1
    if told != wanted or not wanted:
        raise CairnError(
            f"the observation has an {MASK!r} of {told} entries, and the action space has {wanted} options"
            f" ({action.described}); a mask has one entry for each."
        )
    return wanted


def check_mask(mask: Any, length: int, action: ActionSpec) -> Array:
    """A mask as [length] bool. Raises MaskFault for invalid masks, and for a choice without allowed options."""
    try:
        flat = np.concatenate([np.asarray(one).reshape(-1) for one in _listed(mask)])
    except (TypeError, ValueError):
        raise MaskFault(f"an {MASK} that is no array") from None
    if flat.dtype.kind not in "biuf" or not np.isin(flat, (0, 1)).all():
        raise MaskFault(f"an {MASK} with entries that are neither 0 nor 1")
    if len(flat) != length:
        raise MaskFault(f"an {MASK} of {len(flat)} entries where its action space has {length} options")
    allowed: Array = flat != 0
    start = 0
    for count in action.choices:
        if not allowed[start : start + count].any():
            raise MaskFault(f"an {MASK} that allows no action")
        start += count
    return allowed
