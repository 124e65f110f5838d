"""The MuJoCo tasks whose arithmetic is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from cairn.core.errors import CairnError
from cairn.envs.wrappers import TimeFeature
from cairn.vector.mujoco import figures, locomotion, small
from cairn.vector.mujoco.simulated import Simulated

Kinds = dict[str, type[Simulated]]  # where an environment is defined -> its arithmetic
GYMNASIUM: Kinds = {
    "half_cheetah_v5:HalfCheetahEnv": locomotion.HalfCheetah,
    "hopper_v5:HopperEnv": locomotion.Hopper,
    "walker2d_v5:Walker2dEnv": locomotion.Walker2d,
    "ant_v5:AntEnv": locomotion.Ant,
    "humanoid_v5:HumanoidEnv": figures.Humanoid,
    "humanoidstandup_v5:HumanoidStandupEnv": figures.HumanoidStandup,
    "swimmer_v5:SwimmerEnv": locomotion.Swimmer,
    "inverted_pendulum_v5:InvertedPendulumEnv": small.InvertedPendulum,
    "inverted_double_pendulum_v5:InvertedDoublePendulumEnv": small.InvertedDoublePendulum,
    "reacher_v5:ReacherEnv": small.Reacher,
    "pusher_v5:PusherEnv": small.Pusher,
}
WRAPPERS = (gym.wrappers.TimeLimit, gym.wrappers.OrderEnforcing, TimeFeature)  # whose effect the vector knows


def simulated(name: str, envs: Sequence[Any]) -> Simulated:
    """The arithmetic of environments of one task. Raises CairnError where it is not known exactly."""
    env = envs[0]
    while isinstance(env, gym.Wrapper):
        if type(env) not in WRAPPERS:
            raise CairnError(f"{name} is in the wrapper {type(env).__name__}, which the mujoco vector does not know")
        env = env.env
    package, _, rest = f"{type(env).__module__}:{type(env).__qualname__}".rpartition(".")
    kind = _kinds(package).get(rest)
    if kind is None:
        raise CairnError(f"the mujoco vector does not know {name}")
    return kind([one.unwrapped for one in envs])


def _kinds(package: str) -> Kinds:
    """The environments that a package defines; those of other packages need not be installed."""
    if package == "gymnasium.envs.mujoco":
        return GYMNASIUM
    if package == "cairn.envs":
        from cairn.vector.mujoco import ants, far

        mazes = dict.fromkeys(("AntMaze", "AntPush", "AntFall", "AntFallStiff"), ants.Navigation)
        found: Kinds = {f"ant_tasks:{name}": kind for name, kind in mazes.items()}
        found |= {"ant_tasks:AntWalk": ants.Walk, "ant_tasks:AntGather": ants.Gather}
        return {**found, "reachfar:FetchReachFar": far.FarReach}
    if package == "gymnasium_robotics.envs.fetch":
        from cairn.vector.mujoco import fetch

        names = ("reach:MujocoFetchReachEnv", "push:MujocoFetchPushEnv", "slide:MujocoFetchSlideEnv")
        return dict.fromkeys((*names, "pick_and_place:MujocoFetchPickAndPlaceEnv"), fetch.Fetch)
    return {}
