"""The Fetch arm of Gymnasium-Robotics, pulled by a mocap body that is welded to its hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
from gymnasium_robotics.utils import rotations

from cairn.core.types import Array
from cairn.native.physics import Part, Plan
from cairn.vector.mujoco.simulated import Simulated

STRIDE, UPRIGHT = 0.05, np.array([1.0, 0.0, 1.0, 0.0])  # written in Fetch's `_set_action`
FINGERS = ("robot0:l_gripper_finger_joint", "robot0:r_gripper_finger_joint")  # set to 0 where the gripper is blocked


class Fetch(Simulated):
    """FetchReach, FetchPush, FetchSlide and FetchPickAndPlace, version 4, with sparse and dense rewards."""

    def __init__(self, envs: Sequence[Any]) -> None:
        super().__init__(envs)
        env, model = self.env, self.model
        self.dt = env.n_substeps * model.opt.timestep
        self.grip = model.site("robot0:grip").id
        self.sites: tuple[int, ...] = (self.grip, model.site("object0").id) if env.has_object else (self.grip,)
        joints = [model.joint(name) for name in env._model_names.joint_names if name.startswith("robot")][-2:]
        self.fingers = [int(joint.qposadr[0]) for joint in joints]
        self.finger_speeds = [int(joint.dofadr[0]) for joint in joints]
        self.relative = model.actuator_biastype != 0  # actuators that hold a position: an action moves it
        self.held = model.jnt_qposadr[model.actuator_trnid[:, 0]]
        self.goals: Array = np.zeros((len(envs), 3))
        self.reward: Array = np.zeros(len(envs))

    def plan(self) -> Plan:
        hand, model = welded_to_mocap(self.model), self.model
        reads = {
            "qpos": Part("qpos"),
            "qvel": Part("qvel"),
            "hand": Part("xpos", 3 * hand, 3 * hand + 3),
            "turn": Part("xquat", 4 * hand, 4 * hand + 4),
            **{f"site{k}": Part("site_xpos", 3 * site, 3 * site + 3) for k, site in enumerate(self.sites)},
            **{f"axes{k}": Part("site_xmat", 9 * site, 9 * site + 9) for k, site in enumerate(self.sites)},
        }
        blocked = [int(model.joint(name).qposadr[0]) for name in FINGERS] if self.env.block_gripper else []
        return Plan(
            self.env.n_substeps,
            reads,
            writes={name: Part(name) for name in ("ctrl", "mocap_pos", "mocap_quat")},
            zeros=tuple(Part("qpos", at, at + 1) for at in blocked),
            after="mj_forward" if blocked else "",
            sites=self.sites,
        )

    def act(self, action: Array) -> None:
        action = np.clip(action, self.env.action_space.low, self.env.action_space.high)
        seen, given = self.rows.seen, self.rows.given
        given["mocap_pos"][:] = seen["hand"] + action[:, :3] * np.float32(STRIDE)
        given["mocap_quat"][:] = seen["turn"] + UPRIGHT
        grip = np.zeros_like(action[:, 3:]) if self.env.block_gripper else action[:, 3:]
        given["ctrl"][:] = np.where(self.relative, seen["qpos"][:, self.held] + grip, grip)

    def begun(self, i: int) -> None:
        self.goals[i] = self.envs[i].goal

    def observe(self, out: Array) -> None:
        seen = self.rows.seen
        speeds = (self.rows.jacobians @ seen["qvel"][:, None, None, :, None])[..., 0] * self.dt  # [N, sites, 2, 3]
        place, speed = seen["site0"], speeds[:, 0, 0]
        fingers, finger_speeds = seen["qpos"][:, self.fingers], seen["qvel"][:, self.finger_speeds] * self.dt
        parts = [place, fingers, speed, finger_speeds]
        achieved = place
        if self.env.has_object:
            achieved = seen["site1"]
            turn = rotations.mat2euler(seen["axes1"].reshape(-1, 3, 3))
            moved, turned = speeds[:, 1, 0] - speed, speeds[:, 1, 1]
            parts = [place, achieved, achieved - place, fingers, turn, moved, turned, speed, finger_speeds]
        at = 0
        for part in (*parts, achieved, self.goals):
            out[:, at : at + part.shape[1]] = part
            at += part.shape[1]
        self.success = self.env._is_success(achieved, self.goals).astype(np.int8)
        self.reward = self.env.compute_reward(achieved, self.goals, {})

    def judge(self, action: Array, obs: Array) -> tuple[Array, Array]:
        return self.reward, np.zeros(len(obs), bool)


def welded_to_mocap(model: Any) -> int:
    """The body that the (last) weld ties to a mocap body."""
    welds = np.flatnonzero(model.eq_type == mujoco.mjtEq.mjEQ_WELD)
    first, second = int(model.eq_obj1id[welds[-1]]), int(model.eq_obj2id[welds[-1]])
    return second if model.body_mocapid[first] != -1 else first
