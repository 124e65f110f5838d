"""Converts observations from a user, one or a batch, to the rows that an agent takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from gymnasium import spaces

from cairn.core.checks import short
from cairn.core.errors import CairnError
from cairn.core.types import Array, Spec
from cairn.envs.masks import MASK
from cairn.vector.spaces import lies_as_shown


def rows_of(obs: Any, space: spaces.Space[Any], spec: Spec, layout: Callable[[Any], Array]) -> tuple[Array, bool]:
    """Rows [N, *obs_shape], and whether `obs` was a single observation.

    Args:
        obs: An observation of `space`, a batch of them, or rows that are laid out already; arrays, tensors or lists. A
            batch for a Dict or a Tuple space has a batch in each of its parts.
        space: The task's observation space.
        spec: The task's spec.
        layout: Converts an observation of `space` to a row; see `spec_of`.

    Raises:
        CairnError: `obs` fits neither the space nor the rows, or is not finite.
    """
    laid = _laid_out(obs, space, spec)
    if laid is None:
        read, count = _read(space, obs, "the observation")
        if isinstance(space, spaces.Box) and tuple(space.shape) == spec.obs_shape and lies_as_shown(space, spec):
            laid = read if count is not None else read[None]
        else:
            rows = [read] if count is None else [_pick(read, i) for i in range(count)]
            laid = np.stack([np.asarray(layout(row)) for row in rows]) if rows else np.zeros((0, *spec.obs_shape))
        single = count is None
    else:
        single = laid.shape == spec.obs_shape
        laid = laid[None] if single else laid
    with np.errstate(over="ignore"):
        laid = np.ascontiguousarray(laid, spec.obs_dtype)
    if spec.obs_dtype != "uint8" and not np.isfinite(laid).all():
        raise CairnError("the observation holds numbers that are not finite (NaN, or too large).")
    return laid, single


def with_mask(obs: Any, mask: Any, space: spaces.Space[Any], spec: Spec) -> Any:
    """Observations, one or a batch, together with their masks, in the form of the task's own observations.

    `mask` is [options] or [N, options]. None allows every action, unless the observation has a mask.
    """
    assert isinstance(space, spaces.Dict)  # tasks with masks have Dict observations
    if isinstance(obs, Mapping) and MASK in obs:
        return obs if mask is None else {**obs, MASK: mask}
    rest = {key: part for key, part in space.spaces.items() if key != MASK}
    if set(rest) == {"observation"} and not (isinstance(obs, Mapping) and "observation" in obs):
        obs = {"observation": obs}
    _, count = _parts(rest, obs, "the observation")
    shape = (spec.masked,) if count is None else (count, spec.masked)
    given = np.ones(shape, np.int8) if mask is None else _numbers(mask, "action_masks")
    if given.size != math.prod(shape):
        raise CairnError(f"action_masks has shape {given.shape}; for this observation it must be {shape}.")
    given = given.reshape(-1, spec.masked)
    for start, stop in pairwise(np.cumsum([0, *spec.action.choices])):
        if not given[:, start:stop].any(1).all():
            raise CairnError("action_masks allows no action in one of its rows.")
    return {**obs, MASK: given.reshape(shape).astype(bool)}


def _laid_out(obs: Any, space: spaces.Space[Any], spec: Spec) -> Array | None:
    """`obs` if it is an array laid out as the agent takes it and the task's own differs; else None."""
    if isinstance(space, spaces.Box) and tuple(space.shape) == spec.obs_shape:
        return None
    array = obs if isinstance(obs, np.ndarray) else obs.detach().cpu().numpy() if hasattr(obs, "detach") else None
    if array is None or array.dtype.kind != "f" or spec.obs_shape not in (array.shape, array.shape[1:]):
        return None
    if isinstance(space, spaces.Discrete):  # floats may also be state numbers
        spread = np.isin(array, (0, 1)).all() and (array.sum(-1) == 1).all()
        return array if spread else None
    return array


def _read(space: spaces.Space[Any], obs: Any, name: str) -> tuple[Any, int | None]:
    """An observation, or a batch, with arrays for its parts; and the batch size, None for a single one."""
    if isinstance(space, spaces.Dict):
        return _parts(dict(space.spaces), obs, name)
    if isinstance(space, spaces.Tuple):
        if not isinstance(obs, (tuple, list)) or len(obs) != len(space.spaces):
            raise CairnError(f"{name} must be a tuple of {len(space.spaces)} parts, as the task shows it.")
        parts, count = _parts(dict(enumerate(space.spaces)), dict(enumerate(obs)), name)
        return tuple(parts.values()), count
    if not isinstance(space, (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
        if not space.contains(obs):
            raise CairnError(f"{name} is {short(obs)}; this task shows {space}.")
        return obs, None
    array = _numbers(obs, name)
    shape = tuple(space.shape or ())
    if shape not in (array.shape, array.shape[1:]):
        batch = f"(N, {', '.join(map(str, shape))})" if shape else "(N,)"
        raise CairnError(f"{name} of this task has shape {shape}, or {batch} for a batch, not {array.shape}.")
    _check_range(space, array, name)
    whole = not isinstance(space, spaces.Box)
    array = array.astype(np.int64) if whole else array
    return array, None if array.ndim == len(shape) else len(array)


def _parts(wanted: dict[Any, spaces.Space[Any]], obs: Any, name: str) -> tuple[dict[Any, Any], int | None]:
    keys = ", ".join(map(str, wanted))
    if not isinstance(obs, Mapping):
        raise CairnError(f"{name} must be a dictionary with the keys {keys}, as the task shows it.")
    for key in wanted:
        if key not in obs:
            raise CairnError(f"{name} has no {key!r}; this task shows {keys}.")
    for key in obs:
        if key not in wanted:
            raise CairnError(f"{name} has {key!r}, which this task does not show; it shows {keys}.")
    parts = {key: _read(part, obs[key], f"{key!r} of {name}") for key, part in wanted.items()}
    counts = {count for _, count in parts.values()}
    if len(counts) > 1:
        raise CairnError(f"the parts of {name} ({keys}) hold different numbers of observations.")
    return {key: value for key, (value, _) in parts.items()}, counts.pop() if counts else None


def _numbers(obs: Any, name: str) -> Array:
    """An array of numbers from an array, a tensor or a list."""
    try:
        array = obs.detach().cpu().numpy() if hasattr(obs, "detach") else np.asarray(obs)
    except Exception as error:  # rows of different lengths, or a foreign __array__
        raise CairnError(f"{name} is {short(obs)}; it must be an array of numbers.") from error
    if array.dtype.kind not in "biuf":
        raise CairnError(f"{name} is {short(obs)}; it must be an array of numbers.")
    return array


def _check_range(space: spaces.Space[Any], array: Array, name: str) -> None:
    """Raise CairnError for NaN, and for numbers outside a space of integers."""
    if isinstance(space, spaces.Box) and space.dtype != np.uint8:
        if np.isnan(array).any():
            raise CairnError(f"{name} holds NaN.")
        return
    low: Any
    high: Any
    if isinstance(space, spaces.Box):
        low, high = 0, 255
    elif isinstance(space, spaces.Discrete):
        low, high = int(space.start), int(space.start + space.n) - 1
    elif isinstance(space, spaces.MultiDiscrete):
        low, high = space.start, space.start + space.nvec - 1
    else:
        low, high = 0, 1
    wrong = ~((array >= low) & (array <= high) & (array == np.floor(array)))
    if wrong.any():
        allowed = f"from {np.min(low)} to {np.max(high)}"
        raise CairnError(f"{name} holds {array[wrong].flat[0]!s}; this task shows whole numbers {allowed}.")


def _pick(read: Any, index: int) -> Any:
    """One observation of a batch."""
    if isinstance(read, dict):
        return {key: _pick(value, index) for key, value in read.items()}
    if isinstance(read, tuple):
        return tuple(_pick(value, index) for value in read)
    return read[index]
