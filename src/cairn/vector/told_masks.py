"""Masks that a Gymnasium VectorEnv tells in `info`, or that its environments have as a method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from cairn.envs.masks import MASK, METHOD, Beside, maskable, may_tell_by_info, mentions_mask, tells_by_info
from cairn.vector.checks import close_env


@dataclass(frozen=True)
class Told:
    """How masks are told, and what puts them beside observations."""

    beside: Beside
    by_method: bool

    @property
    def space(self) -> spaces.Dict:
        """The space of observations with their masks."""
        return self.beside.space


def told_masks(env: Any) -> Told | None:
    """How a VectorEnv tells masks that its observations do not show; None where it tells none.

    An environment of its own is made to see. Only a vector that cannot make one, and mentions masks, is reset.
    """
    shown, action = env.single_observation_space, env.single_action_space
    if not maskable(action) or (isinstance(shown, spaces.Dict) and MASK in shown.spaces):
        return None
    makers = getattr(env.unwrapped, "env_fns", None)
    if makers:
        one = makers[0]()
        if one.has_wrapper_attr(METHOD):
            close_env(one)
            return Told(Beside(shown, action), by_method=True)
        tells = may_tell_by_info(one) and tells_by_info(one)
        close_env(one)
    else:
        tells = mentions_mask(type(env.unwrapped)) and MASK in env.reset(seed=0)[1]
    return Told(Beside(shown, action), by_method=False) if tells else None


def told_by(info: Mapping[str, Any], i: int) -> Any:
    """The mask of environment `i` in the infos of a vector; None where there is none."""
    if MASK not in info or not np.broadcast_to(info.get(f"_{MASK}", True), len(info[MASK]))[i]:
        return None
    return info[MASK][i]
