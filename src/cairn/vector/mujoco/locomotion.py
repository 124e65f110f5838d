"""Gymnasium's walkers and swimmers, version 5."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cairn.core.types import Array
from cairn.native.physics import Part, Plan
from cairn.vector.mujoco.simulated import Simulated, squared_sum, weighted

EVERYTHING = {"qpos": Part("qpos"), "qvel": Part("qvel")}


class AfterPhysics(Simulated):
    """A task that Gymnasium's `do_simulation` steps."""

    reads = EVERYTHING

    def plan(self) -> Plan:
        return Plan(self.env.frame_skip, self.reads, after="mj_rnePostConstraint")


class Gait(AfterPhysics):
    """A body that is paid for its speed along x. Tasks add their health and costs."""

    skipped = 1  # entries of qpos that are not observed
    fastest: float | None = None  # beyond which observed speeds are cut

    def __init__(self, envs: Sequence[Any]) -> None:
        super().__init__(envs)
        env = self.env
        self.skip = self.skipped * bool(env._exclude_current_positions_from_observation)
        self.dt, self.forward_weight, self.control_weight = env.dt, env._forward_reward_weight, env._ctrl_cost_weight
        self.before: Array = np.zeros(len(envs))  # x before the step

    def place(self) -> Array:
        """x [N] of what is paid for moving."""
        x: Array = self.rows.seen["qpos"][:, 0]
        return x

    def act(self, action: Array) -> None:
        super().act(action)
        self.before = self.place().copy()

    def observe(self, out: Array) -> None:
        position, speed = self.rows.seen["qpos"][:, self.skip :], self.rows.seen["qvel"]
        middle = position.shape[1]
        out[:, :middle] = position
        if self.fastest is not None:
            speed = np.clip(speed, -self.fastest, self.fastest)
        out[:, middle : middle + speed.shape[1]] = speed

    def judge(self, action: Array, obs: Array) -> tuple[Array, Array]:
        gained = self.gained()
        return gained - self.control_cost(action), np.zeros(len(gained), bool)

    def gained(self) -> Array:
        """The reward for the speed [N]."""
        out: Array = self.forward_weight * ((self.place() - self.before) / self.dt)
        return out

    def control_cost(self, action: Array) -> Array:
        """The cost of the actions [N]."""
        return weighted(self.control_weight, squared_sum(action))


class HalfCheetah(Gait):
    """HalfCheetah-v5."""


class Swimmer(Gait):
    """Swimmer-v5."""

    skipped = 2


class Upright(Gait):
    """A body that is paid for staying upright, and whose episode can end where it does not."""

    def __init__(self, envs: Sequence[Any]) -> None:
        super().__init__(envs)
        self.bonus, self.ends = self.env._healthy_reward, self.env._terminate_when_unhealthy
        self.heights = self.env._healthy_z_range

    def healthy(self) -> Array:
        """Whether each is upright [N]."""
        raise NotImplementedError

    def costs(self, action: Array) -> Array:
        """What is subtracted from the reward [N]."""
        return self.control_cost(action)

    def judge(self, action: Array, obs: Array) -> tuple[Array, Array]:
        healthy = self.healthy()
        reward = self.gained() + healthy * self.bonus - self.costs(action)
        return reward, ~healthy & bool(self.ends)


class Walker2d(Upright):
    """Walker2d-v5."""

    fastest = 10

    def healthy(self) -> Array:
        z, angle = self.rows.seen["qpos"][:, 1:3].T
        return within(z, self.heights) & within(angle, self.env._healthy_angle_range)


class Hopper(Walker2d):
    """Hopper-v5."""

    def healthy(self) -> Array:
        low, high = self.env._healthy_state_range
        joints = [
            within(part, (low, high)).all(axis=1) for part in (self.rows.seen["qpos"][:, 2:], self.rows.seen["qvel"])
        ]
        return super().healthy() & joints[0] & joints[1]


class Ant(Upright):
    """Ant-v5."""

    skipped = 2

    def __init__(self, envs: Sequence[Any]) -> None:
        super().__init__(envs)
        body = 3 * int(self.env.model.body(self.env._main_body).id)
        self.reads = {**EVERYTHING, "place": Part("xpos", body, body + 1), "force": Part("cfrc_ext")}
        self.forces: Array = np.zeros(0)

    def place(self) -> Array:
        x: Array = self.rows.seen["place"][:, 0]
        return x

    def observe(self, out: Array) -> None:
        super().observe(out)
        self.forces = np.clip(self.rows.seen["force"], *self.env._contact_force_range)
        if self.env._include_cfrc_ext_in_observation:
            seen = self.forces[:, 6:]  # the first body is the world
            out[:, -seen.shape[1] :] = seen

    def healthy(self) -> Array:
        position, speed = self.rows.seen["qpos"], self.rows.seen["qvel"]
        low, high = self.heights
        finite = np.isfinite(position).all(axis=1) & np.isfinite(speed).all(axis=1)
        out: Array = finite & (low <= position[:, 2]) & (position[:, 2] <= high)
        return out

    def costs(self, action: Array) -> Array:
        contact: Array = self.env._contact_cost_weight * squared_sum(self.forces)
        return self.control_cost(action) + contact


def within(x: Array, limits: tuple[float, float]) -> Array:
    """Whether x lies strictly between two numbers."""
    out: Array = (limits[0] < x) & (x < limits[1])
    return out
