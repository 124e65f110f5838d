"""Converts Gymnasium's spaces to a Spec, and observations to its rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from cairn.core.actions import Simple
from cairn.core.errors import CairnError
from cairn.core.layout import pack, width
from cairn.core.types import ActionSpec, Array, Box, Composite, Discrete, GoalSpec, MultiDiscrete, ObsPart, Spec
from cairn.envs.masks import MASK, check_mask, expected_length
from cairn.vector.checks import refuse_old_gym, warn_once

GOAL_KEYS = ("observation", "achieved_goal", "desired_goal")
IMAGE = 36  # smallest side in pixels of an array that counts as an image
CHANNELS = 64  # largest number of channels of an image
ONE_HOT = 1024  # largest number of options for one-hot encoding; more are embedded
Layout = Callable[[Any], Array]


def action_spec(space: spaces.Space[Any]) -> ActionSpec:
    """An action space as agents see it. Raises CairnError for unsupported spaces."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        leaves = list(_leaves(space, ()))
        if not leaves:
            raise CairnError(f"the action space {space} has no parts.")
        return Composite(tuple(_simple(leaf) for _, leaf in leaves), tuple(path for path, _ in leaves))
    return _simple(space)


def _simple(space: spaces.Space[Any]) -> Simple:
    if isinstance(space, spaces.Discrete):
        return Discrete(int(space.n), int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        nvec, start = (tuple(int(x) for x in np.ravel(ends)) for ends in (space.nvec, space.start))
        return MultiDiscrete(nvec, start, tuple(space.shape), str(space.dtype))
    if isinstance(space, spaces.MultiBinary):
        count = int(np.prod(space.shape))
        return MultiDiscrete((2,) * count, (0,) * count, tuple(space.shape), str(space.dtype))
    if isinstance(space, spaces.Box):
        if not math.prod(space.shape):
            raise CairnError(f"the action space {space} has no numbers.")
        low, high = space.low.flatten(), space.high.flatten()
        if not (low <= high).all():  # False also for NaN
            raise CairnError(f"the action space {space} has a lower bound above the upper one, or one that is NaN.")
        return Box(tuple(space.shape), tuple(low.tolist()), tuple(high.tolist()), str(space.dtype))
    raise CairnError(
        f"the action space {space} is not supported; Cairn acts in Discrete, MultiDiscrete, MultiBinary and Box spaces"
        " and in a Dict or Tuple of these."
    )


def spec_of_env(env: gym.Env[Any, Any]) -> tuple[Spec, Layout]:
    """`spec_of` its spaces, with the reachable region and the number of stacked frames that it declares."""
    for name in ("observation_space", "action_space"):
        if not isinstance(getattr(env, name, None), spaces.Space):
            raise CairnError(f"the environment has no {name}; set it to a space of gymnasium.spaces in its __init__.")
    spec, layout = spec_of(env.observation_space, env.action_space)
    reachable, stack = _attribute(env, "reachable", None), _attribute(env, "zero_padded_frames", 1)
    if spec.goal is not None and not _attribute(env, "position_seen", True):
        spec = replace(spec, goal=replace(spec.goal, seen=False))
    return replace(spec, reachable=reachable, stack=1 if spec.parts else stack), layout


def _attribute(env: gym.Env[Any, Any], name: str, default: Any) -> Any:
    """An attribute of an environment, or of the outermost wrapper that has it."""
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else default


def spec_of(observation: spaces.Space[Any], action: spaces.Space[Any]) -> tuple[Spec, Layout]:
    """A task's Spec, and the function that converts one of its observations to that Spec's array."""
    refuse_old_gym(observation, action)
    act = action_spec(action)
    spec, layout = _spec_of(observation, act)
    if not math.prod(spec.obs_shape) - spec.masked:
        raise CairnError(f"the observation space {observation} has no part that a network can read.")
    return spec, layout


def _spec_of(observation: spaces.Space[Any], act: ActionSpec) -> tuple[Spec, Layout]:
    if isinstance(observation, spaces.Dict) and MASK in observation.spaces:
        return _in_parts(observation, act, expected_length(observation[MASK], act))
    if isinstance(observation, spaces.Box):
        return _array(observation, act)
    if isinstance(observation, spaces.Dict) and set(observation.keys()) == set(GOAL_KEYS):
        widths = {key: _flat_width(observation[key]) for key in GOAL_KEYS}
        if widths["achieved_goal"] == widths["desired_goal"] and None not in widths.values():
            goal = GoalSpec(widths["observation"] or 0, widths["achieved_goal"] or 0)
            return Spec((goal.observation + 2 * goal.goal,), "float32", act, goal), _flatten_goal
    flat = _flat_width(observation)
    if flat is None or isinstance(observation, (spaces.Dict, spaces.Tuple)):
        return _in_parts(observation, act, 0)
    return Spec((flat,), "float32", act), lambda obs: np.asarray(spaces.flatten(observation, obs))


def _array(space: spaces.Box, act: ActionSpec) -> tuple[Spec, Layout]:
    """The Spec of an observation that is one array."""
    if space.shape == ():  # a single number
        return Spec((1,), "uint8" if space.dtype == np.uint8 else "float32", act), _row_of_one
    if is_image(space) and (space.dtype != np.uint8 or len(space.shape) == 2):
        shape, to_bytes = _image_shape(space), _to_bytes(space)
        return Spec(shape, "uint8", act), lambda obs: to_bytes(obs).reshape(shape)
    return Spec(tuple(space.shape), "uint8" if space.dtype == np.uint8 else "float32", act), lambda obs: obs


def lies_as_shown(space: spaces.Space[Any], spec: Spec) -> bool:
    """Whether observations need no conversion: one array each, with the Spec's shape and range."""
    if not isinstance(space, spaces.Box):
        return False
    same = tuple(space.shape) in (spec.obs_shape, ()) and not spec.parts
    return same and (spec.obs_dtype != "uint8" or space.dtype == np.uint8)


def _flat_width(space: spaces.Space[Any]) -> int | None:
    """The width of a space that consists of numbers and few options; None for other spaces."""
    for _, leaf in _leaves(space, ()):
        plain = isinstance(leaf, (spaces.Box, spaces.MultiBinary))
        few = isinstance(leaf, (spaces.Discrete, spaces.MultiDiscrete)) and spaces.flatdim(leaf) <= ONE_HOT
        if not (plain or few) or is_image(leaf):
            return None
    return spaces.flatdim(space)


def _leaves(space: spaces.Space[Any], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], spaces.Space[Any]]]:
    """The spaces that are neither Dict nor Tuple, with their paths: (".arm", "[0]")."""
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from _leaves(part, (*path, f".{key}"))
    elif isinstance(space, spaces.Tuple):
        for i, part in enumerate(space.spaces):
            yield from _leaves(part, (*path, f"[{i}]"))
    else:
        yield path, space


def _at(obs: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        obs = obs[int(step[1:-1])] if step[0] == "[" else obs[step[1:]]
    return obs


def _in_parts(space: spaces.Space[Any], act: ActionSpec, masked: int) -> tuple[Spec, Layout]:
    """The Spec and layout of an observation with several parts."""
    leaves = [(path, leaf) for path, leaf in _leaves(space, ()) if path != (f".{MASK}",) or not masked]
    goals = _goal_paths(space)
    leaves = [one for one in leaves if one[0] not in goals] + [one for one in leaves if one[0] in goals]
    parts: list[ObsPart] = []
    readers: list[tuple[tuple[str, ...], Callable[[Any], Array]]] = []
    for path, leaf in leaves:
        found = _part("".join(path).lstrip(".") or "observation", leaf)
        if found is not None:
            parts.append(found[0])
            readers.append((path, found[1]))
    total = width(parts, masked)
    in_bytes = any(part.form == "image" for part in parts)
    goal = None
    if goals:
        each = parts[-1].entries
        goal = GoalSpec(width(parts, 0) - 2 * each * (4 if in_bytes else 1), each, itemsize=4 if in_bytes else 1)
    spec = Spec((total,), "uint8" if in_bytes else "float32", act, goal, parts=tuple(parts), masked=masked)

    def layout(obs: Any) -> Array:
        mask = check_mask(obs[MASK], masked, act) if masked else None
        return pack(parts, [read(_at(obs, path)) for path, read in readers], mask)

    return spec, layout


def _goal_paths(space: spaces.Space[Any]) -> tuple[tuple[str, ...], ...]:
    """The paths of achieved and desired goal in an observation; () if it has no goals."""
    if not isinstance(space, spaces.Dict) or set(space.keys()) - {MASK} != set(GOAL_KEYS):
        return ()
    ends = [space["achieved_goal"], space["desired_goal"]]
    numbers = all(isinstance(end, spaces.Box) and not is_image(end) for end in ends)
    same = numbers and ends[0].shape == ends[1].shape
    return ((".achieved_goal",), (".desired_goal",)) if same else ()


def _part(name: str, leaf: spaces.Space[Any]) -> tuple[ObsPart, Callable[[Any], Array]] | None:
    """A leaf as a part, and the function that reads its value; None for text, which is left out."""
    if is_image(leaf):
        assert isinstance(leaf, spaces.Box)
        return ObsPart(name, "image", _image_shape(leaf)), _to_bytes(leaf)
    if isinstance(leaf, (spaces.Box, spaces.MultiBinary)):
        return ObsPart(name, "numbers", tuple(leaf.shape) or (1,)), np.asarray
    if isinstance(leaf, spaces.Discrete) and leaf.n > ONE_HOT:
        return ObsPart(name, "category", (1,), int(leaf.n)), lambda value: np.asarray(value) - leaf.start
    if isinstance(leaf, (spaces.Discrete, spaces.MultiDiscrete)):
        size = spaces.flatdim(leaf)
        return ObsPart(name, "numbers", (size,)), lambda value: np.asarray(spaces.flatten(leaf, value))
    if isinstance(leaf, spaces.Text) or leaf.dtype == np.dtype(str):
        warn_once(f"the part {name!r} of the observation is text; it is left out.")
        return None
    raise CairnError(
        f"the observation space {leaf} is not supported: its values have no fixed size. Turn it into a Box of fixed"
        " shape with gymnasium.ObservationWrapper."
    )


def is_image(space: spaces.Space[Any]) -> bool:
    """Whether a space is an image: uint8, or 0 to 1 or 255; 2D or with channels first or last; not tiny."""
    if not isinstance(space, spaces.Box) or len(space.shape) not in (2, 3):
        return False
    *channels, short, _ = sorted(space.shape)
    if short < IMAGE or any(count > CHANNELS for count in channels):
        return False
    if space.dtype == np.uint8:
        return True
    top = float(space.high.max())
    return bool(space.dtype.kind in "fiu" and len(space.shape) == 3 and (space.low == 0).all() and top in (1.0, 255.0))


def _image_shape(space: spaces.Box) -> tuple[int, ...]:
    return (1, *space.shape) if len(space.shape) == 2 else tuple(space.shape)


def _to_bytes(space: spaces.Box) -> Callable[[Any], Array]:
    """The function that converts an image of this space to uint8."""
    if space.dtype == np.uint8:
        return np.asarray
    scale = 255.0 / float(space.high.max())
    return lambda image: np.rint(np.clip(np.asarray(image, np.float32) * scale, 0, 255)).astype(np.uint8)


def _flatten_goal(obs: Mapping[str, Array]) -> Array:
    return np.concatenate([np.ravel(obs[key]) for key in GOAL_KEYS])


def _row_of_one(obs: Any) -> Array:
    row = np.asarray(obs)
    return row.reshape(1) if row.shape == () else row
