"""Checks of what an environment returned: numpy would broadcast or convert much that means a mistake."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from cairn.core.errors import CairnError, EnvError
from cairn.core.types import Array, Spec
from cairn.vector.deadline import Hang

LARGEST = float(np.finfo(np.float32).max)
NUMBERS = "fiub"  # numpy's kinds: floats, integers, unsigned ones, booleans
OLD = (
    "it follows the interface of old Gym; Gymnasium's is reset(seed=, options=) -> (obs, info) and"
    " step(action) -> (obs, reward, terminated, truncated, info): change it, or wrap it with the package shimmy"
    " (GymV21CompatibilityV0, GymV26CompatibilityV0)"
)
# what wrappers of Gymnasium and Python itself say where an environment follows the old interface
OLD_SIGNS = (
    "not enough values to unpack (expected 5, got 4)",
    "too many values to unpack (expected 2)",
    "unexpected keyword argument 'seed'",
    "unexpected keyword argument 'options'",
    "reset() takes 1 positional argument",
)


class Misfit(Exception):
    """An environment returned something that its spaces or Gymnasium's interface do not allow."""


def blame(index: int, error: BaseException, when: str = "") -> EnvError:
    """The EnvError for whatever a task raised: the user must see it as the task's fault, not as ours."""
    if isinstance(error, Hang):
        return EnvError(index, f"did not answer within {error.args[0]:g} s{when}")
    if isinstance(error, Misfit):
        return EnvError(index, f"returned {error}{when}")
    if isinstance(error, SystemExit):
        return EnvError(index, f"called sys.exit({'' if error.code is None else error.code}){when}")
    if isinstance(error, (TypeError, ValueError)) and any(sign in str(error) for sign in OLD_SIGNS):
        return EnvError(index, f"raised {type(error).__name__}{when} ({error}): {OLD}")
    return EnvError(index, f"raised {type(error).__name__}{when}: {error}")


class Rows:
    """Lays observations out as one row of a Spec each; Misfit where one does not fit."""

    def __init__(self, spec: Spec, layout: Callable[[Any], Array]) -> None:
        self.shape, self.dtype, self.layout = spec.obs_shape, np.dtype(spec.obs_dtype), layout
        self.kinds = NUMBERS if self.dtype.kind == "f" else ""  # these need no further check

    def __call__(self, obs: Any) -> Array:
        try:
            row = self.layout(obs)
        except Hang:
            raise
        except Exception as error:
            raise Misfit(f"an observation that does not fit its space ({type(error).__name__}: {error})") from error
        if (
            type(row) is np.ndarray
            and row.shape == self.shape
            and (row.dtype == self.dtype or row.dtype.kind in self.kinds)
        ):
            out: Array = row
            return out
        return self._check(row)

    def _check(self, row: Any) -> Array:
        try:
            row = np.asarray(row)
        except ValueError:
            raise Misfit("an observation that is no array: its parts have different lengths") from None
        if row.shape != self.shape:
            raise Misfit(f"an observation of shape {row.shape} where its space has {self.shape}")
        if row.dtype.kind not in NUMBERS:
            raise Misfit(f"an observation of {row.dtype} where its space has numbers")
        if self.dtype.kind == "u" and (row.dtype.kind == "f" or row.min(initial=0) < 0 or row.max(initial=0) > 255):
            raise Misfit(f"an observation of {row.dtype} that is not made of bytes, where its space has uint8")
        checked: Array = row
        return checked


def check_reset(out: Any) -> Any:
    """The observation that a reset returned; Misfit where it returned something else than (obs, info)."""
    if not isinstance(out, (tuple, list)) or len(out) != 2 or not isinstance(out[1], Mapping):
        raise Misfit(f"{_kind(out)} from reset, not (observation, info): {OLD}")
    return out[0]


def check_step(out: Any) -> tuple[Any, float, bool, bool, Mapping[str, Any]]:
    """What a step returned: observation, reward, terminated, truncated, info; Misfit where one is of another type."""
    if not isinstance(out, (tuple, list)) or len(out) != 5:
        raise Misfit(f"{_kind(out)} from step, not five: {OLD}")
    obs, reward, terminated, truncated, info = out
    if not isinstance(reward, float):
        reward = _number(reward)
    if not -LARGEST <= reward <= LARGEST:
        raise Misfit(
            f"a reward of {reward:g}, which is too large for float32"
            if math.isfinite(reward)
            else "a reward that is not finite"
        )
    if type(terminated) is not bool:
        terminated = _flag(terminated, "terminated")
    if type(truncated) is not bool:
        truncated = _flag(truncated, "truncated")
    if type(info) is not dict and not isinstance(info, Mapping):
        raise Misfit(f"an info of type {type(info).__name__} where it must be a dictionary")
    return obs, reward, terminated, truncated, info


def _kind(out: Any) -> str:
    return f"{len(out)} values" if isinstance(out, (tuple, list)) else f"one {type(out).__name__}"


def _number(reward: Any) -> float:
    try:
        value = np.asarray(reward)
    except ValueError:
        value = np.empty(0, object)
    if value.size != 1 or value.dtype.kind not in NUMBERS:
        raise Misfit(f"a reward that is not one number ({_short(reward)})")
    return float(value.reshape(()))


def _flag(flag: Any, name: str) -> bool:
    value = np.asarray(flag)
    if value.size != 1 or value.dtype.kind not in NUMBERS or value.reshape(()) not in (0, 1):
        raise Misfit(f"a {name} that is neither True nor False ({_short(flag)})")
    return bool(value.reshape(()))


def _short(value: Any) -> str:
    """A value in a sentence: an array by its shape."""
    if isinstance(value, (np.ndarray, list, tuple)):
        return f"{type(value).__name__} of shape {np.shape(value)}"
    return repr(value)[:40]


class Checked(gym.Wrapper[Any, Any, Any, Any]):
    """An environment for a vector that is not ours: what it returns is checked and passed on unchanged."""

    def __init__(self, env: gym.Env[Any, Any], row: Rows) -> None:
        super().__init__(env)
        self.row = row

    def reset(self, **given: Any) -> tuple[Any, dict[str, Any]]:
        try:
            out = self.env.reset(**given)
            self.row(check_reset(out))
        except (Exception, SystemExit) as error:
            raise blame(0, error, " at reset") from error
        return out

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        try:
            out = self.env.step(action)
            self.row(check_step(out)[0])
        except (Exception, SystemExit) as error:
            raise blame(0, error) from error
        return out


def make_env(index: int, make: Callable[[], Any]) -> Any:
    """An environment; EnvError where making it failed. A CairnError is a sentence for the user already."""
    try:
        return make()
    except CairnError:
        raise
    except (Exception, SystemExit) as error:
        raise blame(index, error, " while it was made") from error


def remake_env(index: int, make: Callable[[], Any]) -> Any:
    """An environment in the place of one that was closed; EnvError where making it failed, in whatever way."""
    try:
        return make_env(index, make)
    except EnvError:
        raise
    except CairnError as error:
        raise EnvError(index, f"could not be made again: {error}") from error


def close_env(env: Any) -> None:
    """Close an environment, or a vector of them, whose work is done: an error there becomes a warning."""
    warn_once(fault_at_close(env))


def fault_at_close(env: Any) -> str:
    """Close an environment; what went wrong there in one sentence, "" where nothing did."""
    try:
        env.close()
    except (Exception, SystemExit) as error:
        what = blame(0, error, " while it was closed").what
        return f"an environment {what}; what was done before stands."
    return ""


@functools.cache
def warn_once(fault: str) -> None:
    """Print a fault once, however many environments fail in the same way; nothing for ""."""
    if fault:
        print(f"cairn: {' '.join(fault.split())}", file=sys.stderr)


def refuse_old_gym(*spaces: Any) -> None:
    for space in spaces:
        if type(space).__module__.partition(".")[0] == "gym":
            raise CairnError(f"the space {space} is old Gym's, not Gymnasium's: {OLD}.")
