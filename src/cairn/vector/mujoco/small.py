"""Gymnasium's pendulums and arms, version 5."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cairn.core.types import Array
from cairn.native.physics import Part
from cairn.vector.mujoco.locomotion import EVERYTHING, AfterPhysics
from cairn.vector.mujoco.simulated import lengths, squared_sum, weighted


class InvertedPendulum(AfterPhysics):
    """InvertedPendulum-v5."""

    def observe(self, out: Array) -> None:
        out[:] = np.concatenate((self.rows.seen["qpos"], self.rows.seen["qvel"]), axis=1)

    def judge(self, action: Array, obs: Array) -> tuple[Array, Array]:
        position, speed = self.rows.seen["qpos"], self.rows.seen["qvel"]
        finite = np.isfinite(position).all(axis=1) & np.isfinite(speed).all(axis=1)
        terminated = ~finite | (np.abs(position[:, 1]) > 0.2)
        return (~terminated).astype(float), terminated


class InvertedDoublePendulum(AfterPhysics):
    """InvertedDoublePendulum-v5."""

    reads = {**EVERYTHING, "tip": Part("site_xpos", 0, 3), "push": Part("qfrc_constraint", 0, 1)}

    def observe(self, out: Array) -> None:
        seen = self.rows.seen
        angles = seen["qpos"][:, 1:]
        speeds, push = (np.clip(seen[name], -10, 10) for name in ("qvel", "push"))
        out[:] = np.concatenate((seen["qpos"][:, :1], np.sin(angles), np.cos(angles), speeds, push), axis=1)

    def judge(self, action: Array, obs: Array) -> tuple[Array, Array]:
        x, _, y = self.rows.seen["tip"].T
        first, second = self.rows.seen["qvel"][:, 1:3].T
        far, fast = 0.01 * x**2 + (y - 2) ** 2, 1e-3 * first**2 + 5e-3 * second**2
        terminated = y <= 1
        return self.env._healthy_reward * (~terminated).astype(int) - far - fast, terminated


class Reaching(AfterPhysics):
    """An arm whose reward is made of distances between bodies."""

    bodies: tuple[str, ...] = ()

    def __init__(self, envs: Sequence[Any]) -> None:
        super().__init__(envs)
        at = {name: 3 * int(self.model.body(name).id) for name in self.bodies}
        self.reads = {**EVERYTHING, **{name: Part("xpos", start, start + 3) for name, start in at.items()}}

    def way(self, to: str, start: str) -> Array:
        """The way from one body to another [N, 3]."""
        out: Array = self.rows.seen[to] - self.rows.seen[start]
        return out

    def effort(self, action: Array) -> Array:
        """The reward, below 0, for the actions [N]."""
        return weighted(self.env._reward_control_weight, -squared_sum(action))


class Reacher(Reaching):
    """Reacher-v5."""

    bodies = ("fingertip", "target")

    def observe(self, out: Array) -> None:
        position, speed = self.rows.seen["qpos"], self.rows.seen["qvel"]
        angles, way = position[:, :2], self.way("fingertip", "target")
        out[:] = np.concatenate((np.cos(angles), np.sin(angles), position[:, 2:], speed[:, :2], way[:, :2]), axis=1)

    def judge(self, action: Array, obs: Array) -> tuple[Array, Array]:
        near = -lengths(self.way("fingertip", "target")) * self.env._reward_dist_weight
        return near + self.effort(action), np.zeros(len(obs), bool)


class Pusher(Reaching):
    """Pusher-v5."""

    bodies = ("tips_arm", "object", "goal")

    def observe(self, out: Array) -> None:
        seen = self.rows.seen
        parts = (seen["qpos"][:, :7], seen["qvel"][:, :7], *(seen[name] for name in self.bodies))
        out[:] = np.concatenate(parts, axis=1)

    def judge(self, action: Array, obs: Array) -> tuple[Array, Array]:
        near = -lengths(self.way("object", "tips_arm")) * self.env._reward_near_weight
        far = -lengths(self.way("object", "goal")) * self.env._reward_dist_weight
        return far + self.effort(action) + near, np.zeros(len(obs), bool)
