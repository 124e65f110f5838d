"""Cairn's own ants; their arithmetic is that of `cairn.envs.ant_tasks`, which takes many ants at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cairn.core.types import Array
from cairn.envs.ant import FRAME_SKIP, POSE, SPEED, sensed
from cairn.envs.ant_tasks import APPLES, BOMBS, readings
from cairn.native.physics import Part, Plan
from cairn.vector.mujoco.simulated import Simulated, refuse_not_finite_actions


class Ants(Simulated):
    """Torques and steps of any of the ants."""

    def __init__(self, envs: Sequence[Any]) -> None:
        super().__init__(envs)
        self.steps: Array = np.zeros(len(envs), np.int64)

    def plan(self) -> Plan:
        return Plan(FRAME_SKIP, {"qpos": Part("qpos"), "qvel": Part("qvel")})

    def act(self, action: Array) -> None:
        refuse_not_finite_actions(action)
        super().act(action)
        self.steps += 1

    def begun(self, i: int) -> None:
        self.steps[i] = 0

    def sensed(self, *more: Array) -> Array:
        """Observations [N, width] with the task's own parts."""
        return sensed(self.rows.seen["qpos"], self.rows.seen["qvel"], *more, self.steps)


class Navigation(Ants):
    """AntMaze, AntPush, AntFall and AntFallStiff."""

    def __init__(self, envs: Sequence[Any]) -> None:
        super().__init__(envs)
        self.goals: Array = np.zeros((len(envs), len(self.env.goal)), np.float32)

    def begun(self, i: int) -> None:
        super().begun(i)
        self.goals[i] = self.envs[i].goal

    def observe(self, out: Array) -> None:
        state = self.sensed(self.env.block_at(self.rows.seen["qpos"])) if self.env.sees_block else self.sensed()
        width, axes = state.shape[1], self.goals.shape[1]
        out[:, :width] = state
        out[:, width : width + axes] = state[:, :axes]
        out[:, width + axes :] = self.goals

    def judge(self, action: Array, obs: Array) -> tuple[Array, Array]:
        axes = self.goals.shape[1]
        reward, success = self.env.judged(obs[:, -2 * axes : -axes], self.goals)
        self.success = success.astype(np.int8)
        return reward, np.zeros(len(reward), bool)


class Walk(Ants):
    """AntWalk."""

    def __init__(self, envs: Sequence[Any]) -> None:
        super().__init__(envs)
        self.goals: Array = np.zeros((len(envs), 2), np.float32)

    def begun(self, i: int) -> None:
        super().begun(i)
        self.goals[i] = self.envs[i].goal

    def observe(self, out: Array) -> None:
        qpos, qvel = self.rows.seen["qpos"], self.rows.seen["qvel"]
        out[:, :-4] = np.concatenate((qpos[:, 3:POSE], qvel[:, :SPEED]), axis=1)
        out[:, -4:-2], out[:, -2:] = qpos[:, :2], self.goals

    def judge(self, action: Array, obs: Array) -> tuple[Array, Array]:
        reward, success, fallen = self.env.judged(self.rows.seen["qpos"], self.goals)
        self.success = success.astype(np.int8)
        return reward, fallen


class Gather(Ants):
    """AntGather. What is left is kept here, not in the environments."""

    def __init__(self, envs: Sequence[Any]) -> None:
        super().__init__(envs)
        self.things: Array = np.zeros((len(envs), APPLES + BOMBS, 2))
        self.left: Array = np.ones((len(envs), APPLES + BOMBS), bool)
        self.judged: tuple[Array, Array] = (np.zeros(0), np.zeros(0))

    def begun(self, i: int) -> None:
        super().begun(i)
        self.things[i], self.left[i] = self.envs[i].things, self.envs[i].left

    def observe(self, out: Array) -> None:
        qpos = self.rows.seen["qpos"]
        reward, _, ended = self.env.judged(qpos, self.things, self.left)  # before the readings: what is caught is gone
        self.judged = reward, ended
        out[:] = self.sensed(readings(qpos, self.things, self.left))

    def judge(self, action: Array, obs: Array) -> tuple[Array, Array]:
        return self.judged
