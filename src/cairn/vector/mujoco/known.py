"""The MuJoCo tasks whose arithmetic is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from cairn.core.errors import CairnError
from cairn.envs.wrappers import TimeFeature
from cairn.vector.mujoco import ants, locomotion
from cairn.vector.mujoco.simulated import Simulated

GYMNASIUM, ANTS = "gymnasium.envs.mujoco.", "cairn.envs.ant_tasks:"
# where an environment is defined -> its arithmetic
KNOWN: dict[str, type[Simulated]] = {
    f"{GYMNASIUM}half_cheetah_v5:HalfCheetahEnv": locomotion.HalfCheetah,
    f"{GYMNASIUM}hopper_v5:HopperEnv": locomotion.Hopper,
    f"{GYMNASIUM}walker2d_v5:Walker2dEnv": locomotion.Walker2d,
    f"{GYMNASIUM}ant_v5:AntEnv": locomotion.Ant,
    f"{GYMNASIUM}humanoid_v5:HumanoidEnv": locomotion.Humanoid,
    f"{GYMNASIUM}swimmer_v5:SwimmerEnv": locomotion.Swimmer,
    **{f"{ANTS}{name}": ants.Navigation for name in ("AntMaze", "AntPush", "AntFall")},
    f"{ANTS}AntGather": ants.Gather,
}
WRAPPERS = (gym.wrappers.TimeLimit, gym.wrappers.OrderEnforcing, TimeFeature)  # whose effect the vector knows


def simulated(name: str, envs: Sequence[Any]) -> Simulated:
    """The arithmetic of environments of one task. Raises CairnError where it is not known exactly."""
    env = envs[0]
    while isinstance(env, gym.Wrapper):
        if type(env) not in WRAPPERS:
            raise CairnError(f"{name} is in the wrapper {type(env).__name__}, which the mujoco vector does not know")
        env = env.env
    kind = KNOWN.get(f"{type(env).__module__}:{type(env).__qualname__}")
    if kind is None:
        raise CairnError(f"the mujoco vector does not know {name}")
    return kind([one.unwrapped for one in envs])
