"""Gymnasium's human figures, version 5."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cairn.core.types import Array
from cairn.native.physics import Part
from cairn.vector.mujoco.locomotion import EVERYTHING, AfterPhysics, Upright, within
from cairn.vector.mujoco.simulated import squared_sum

SHOWN = (  # setting, field, entries that are not observed: those of the world, and of the free joint
    ("_include_cinert_in_observation", "cinert", 10),
    ("_include_cvel_in_observation", "cvel", 6),
    ("_include_qfrc_actuator_in_observation", "qfrc_actuator", 6),
    ("_include_cfrc_ext_in_observation", "cfrc_ext", 6),
)


class Figure(AfterPhysics):
    """What is observed of a figure, and what its effort and its contacts cost."""

    def __init__(self, envs: Sequence[Any]) -> None:
        super().__init__(envs)
        self.skip = 2 * bool(self.env._exclude_current_positions_from_observation)
        self.parts = [(name, skip) for setting, name, skip in SHOWN if getattr(self.env, setting) is True]
        names = {"xipos", "ctrl", "cfrc_ext", *(name for name, _ in self.parts)}
        self.reads = {**EVERYTHING, **{name: Part(name) for name in sorted(names)}}

    def observe(self, out: Array) -> None:
        seen = self.rows.seen
        at = 0
        for name, skip in (("qpos", self.skip), ("qvel", 0), *self.parts):
            part = seen[name][:, skip:]
            out[:, at : at + part.shape[1]] = part
            at += part.shape[1]

    def effort(self) -> Array:
        """The cost of the controls [N]."""
        out: Array = self.env._ctrl_cost_weight * squared_sum(self.rows.seen["ctrl"])
        return out

    def contact(self, weight: float, limits: tuple[float, float]) -> Array:
        """The cost of forces from outside [N]."""
        return np.clip(weight * squared_sum(self.rows.seen["cfrc_ext"]), *limits)


class Humanoid(Figure, Upright):
    """Humanoid-v5."""

    def place(self) -> Array:
        masses = self.model.body_mass
        places = self.rows.seen["xipos"].reshape(len(self.envs), -1, 3)
        x: Array = (np.einsum("b,nbj->nj", masses, places) / masses.sum())[:, 0]
        return x

    def healthy(self) -> Array:
        return within(self.rows.seen["qpos"][:, 2], self.heights)

    def costs(self, action: Array) -> Array:
        return self.effort() + self.contact(self.env._contact_cost_weight, self.env._contact_cost_range)


class HumanoidStandup(Figure):
    """HumanoidStandup-v5."""

    def judge(self, action: Array, obs: Array) -> tuple[Array, Array]:
        risen = (self.rows.seen["qpos"][:, 2] - 0) / self.model.opt.timestep
        impact = self.contact(self.env._impact_cost_weight, self.env._impact_cost_range)
        return risen - self.effort() - impact + 1, np.zeros(len(obs), bool)
