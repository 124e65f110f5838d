"""Cairn's arm with far goals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cairn.core.types import Array
from cairn.envs import reachfar
from cairn.native.physics import Part, Plan
from cairn.vector.mujoco.simulated import Simulated, refuse_not_finite_actions


class FarReach(Simulated):
    """FetchReachFar with any goals and starts."""

    def __init__(self, envs: Sequence[Any]) -> None:
        super().__init__(envs, [env.arm for env in envs])
        self.arm = self.env.arm
        self.goals: Array = np.zeros((len(envs), 3), np.float32)

    def plan(self) -> Plan:
        hand, grip = self.arm.hand, self.arm.grip
        reads = {
            "qvel": Part("qvel"),
            "hand": Part("xpos", 3 * hand, 3 * hand + 3),
            "turn": Part("xquat", 4 * hand, 4 * hand + 4),
            "place": Part("site_xpos", 3 * grip, 3 * grip + 3),
        }
        return Plan(
            reachfar.SUBSTEPS,
            reads,
            writes={"mocap_pos": Part("mocap_pos"), "mocap_quat": Part("mocap_quat")},
            zeros=tuple(Part("qpos", int(at), int(at) + 1) for at in self.arm.fingers),
            after="mj_forward",
            sites=(grip,),
        )

    def act(self, action: Array) -> None:
        refuse_not_finite_actions(action)
        given = self.rows.given
        given["mocap_pos"][:], given["mocap_quat"][:] = reachfar.pulled(
            self.rows.seen["hand"], self.rows.seen["turn"], action
        )

    def begun(self, i: int) -> None:
        self.goals[i] = self.envs[i].goal

    def observe(self, out: Array) -> None:
        seen = self.rows.seen
        speeds = (self.rows.jacobians[:, 0, 0] @ seen["qvel"][:, :, None])[..., 0]
        fingers = seen["qvel"][:, self.arm.finger_speeds]
        state = reachfar.shown(seen["place"], np.zeros_like(fingers), speeds, fingers, self.arm.fetch.dt)
        state = np.clip(state, reachfar.LOWEST, reachfar.HIGHEST)
        width = state.shape[1]
        out[:, :width], out[:, width : width + 3], out[:, width + 3 :] = state, state[:, :3], self.goals

    def judge(self, action: Array, obs: Array) -> tuple[Array, Array]:
        reward, reached = self.env.judged(obs[:, -6:-3], self.goals)
        self.success = reached.astype(np.int8)
        return reward, np.zeros(len(obs), bool)
