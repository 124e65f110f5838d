"""Checks of what an environment returned: numpy would silently broadcast or convert many mistakes."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cairn.core.errors import CairnError, EnvError
from cairn.core.old_gym import OLD
from cairn.core.types import Array, Spec
from cairn.envs.masks import MaskFault
from cairn.vector.deadline import Hang

LARGEST = float(np.finfo(np.float32).max)
NUMBERS = "fiub"  # numpy's kinds: float, integer, unsigned, boolean
# parts of the errors that wrappers and Python raise for the old interface
OLD_SIGNS = (
    "not enough values to unpack (expected 5, got 4)",
    "too many values to unpack (expected 2)",
    "unexpected keyword argument 'seed'",
    "unexpected keyword argument 'options'",
    "reset() takes 1 positional argument",
)


class Misfit(Exception):
    """An environment returned something that its spaces or Gymnasium's interface do not allow.

    A message with a remedy names the call itself.
    """

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.remedy = remedy


def blame(index: int, error: BaseException, when: str = "") -> EnvError:
    """The EnvError for an exception of a task, so that the user sees it as the task's fault."""
    if isinstance(error, Hang):
        return EnvError(index, f"did not answer within {error.args[0]:g} s{when}")
    if isinstance(error, Misfit):
        return EnvError(index, f"returned {error}: {error.remedy}" if error.remedy else f"returned {error}{when}")
    if isinstance(error, SystemExit):
        return EnvError(index, f"called sys.exit({'' if error.code is None else error.code}){when}")
    if isinstance(error, (TypeError, ValueError)) and any(sign in str(error) for sign in OLD_SIGNS):
        return EnvError(index, f"raised {type(error).__name__}{when} ({error}): {OLD}")
    return EnvError(index, f"raised {type(error).__name__}{when}: {error}")


class Rows:
    """Converts observations to rows of a Spec. Raises Misfit where one does not fit."""

    def __init__(self, spec: Spec, layout: Callable[[Any], Array]) -> None:
        self.shape, self.dtype, self.layout = spec.obs_shape, np.dtype(spec.obs_dtype), layout
        self.kinds = NUMBERS if self.dtype.kind == "f" else ""  # kinds that need no further check

    def __call__(self, obs: Any) -> Array:
        try:
            row = self.layout(obs)
        except Hang:
            raise
        except MaskFault as fault:
            raise Misfit(str(fault)) from None
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
    """The observation that a reset returned. Raises Misfit where it did not return (obs, info)."""
    if not isinstance(out, (tuple, list)) or len(out) != 2 or not isinstance(out[1], Mapping):
        raise Misfit(f"{_kind(out)} from reset, not (observation, info)", OLD)
    return out[0]


def check_step(out: Any) -> tuple[Any, float, bool, bool, Mapping[str, Any]]:
    """The five values of a step: obs, reward, terminated, truncated, info. Raises Misfit for wrong types."""
    if not isinstance(out, (tuple, list)) or len(out) != 5:
        raise Misfit(f"{_kind(out)} from step, not five", OLD)
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
    """A value for a message; arrays by their shape."""
    if isinstance(value, (np.ndarray, list, tuple)):
        return f"{type(value).__name__} of shape {np.shape(value)}"
    return repr(value)[:40]


def make_env(index: int, make: Callable[[], Any]) -> Any:
    """Make an environment. Raises EnvError where that fails; a CairnError passes, since it is a clear sentence."""
    try:
        return make()
    except CairnError:
        raise
    except (Exception, SystemExit) as error:
        raise blame(index, error, " while it was made") from error


def remake_env(index: int, make: Callable[[], Any]) -> Any:
    """Make an environment in place of a closed one. Raises EnvError where that fails for any reason."""
    try:
        return make_env(index, make)
    except EnvError:
        raise
    except CairnError as error:
        raise EnvError(index, f"could not be made again: {error}") from error


def close_env(env: Any) -> None:
    """Close an environment or a vector that is no longer needed; an error becomes a warning."""
    warn_once(fault_at_close(env))


def fault_at_close(env: Any) -> str:
    """Close an environment; returns its fault as a sentence, "" without one."""
    try:
        env.close()
    except (Exception, SystemExit) as error:
        what = blame(0, error, " while it was closed").what
        return f"an environment {what}; what was done before stands."
    return ""


@functools.cache
def warn_once(fault: str) -> None:
    """Print a fault once, however many environments have it; nothing for ""."""
    if fault:
        print(f"cairn: {' '.join(fault.split())}", file=sys.stderr)


def refuse_old_gym(*spaces: Any) -> None:
    """Raise CairnError for spaces of the old package gym."""
    for space in spaces:
        if type(space).__module__.partition(".")[0] == "gym":
            raise CairnError(f"the space {space} is old Gym's, not Gymnasium's: {OLD}.")
