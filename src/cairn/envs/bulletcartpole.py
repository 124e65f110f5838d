"""CartPole simulated by PyBullet: push a cart on a rail of 30 m so that its pole stays up."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
import pybullet
import pybullet_data
from gymnasium import spaces

from cairn.core.checks import one_of
from cairn.core.types import Array
from cairn.envs.bullet import Client, picture

RATE = 20  # physics steps, and actions, per second
FORCE = 50.0  # N
BRAKE = 20.0  # N, of PyBullet's default joint motor; without it one push tips the pole over
SLIDER, POLE = 0, 1  # joints of cartpole.urdf
FURTHEST, STEEPEST = 10.0, 0.2095  # m and rad; an episode ends beyond them
MOST = np.array([20, 40, 1.6, 40], np.float32)  # bounds of observations; episodes end long before
SPREAD = 0.05  # m and rad, of initial states
WIDTH, HEIGHT = 480, 320  # pixels of a picture
POST = (0.55, 0.55, 0.6, 1)


class BulletCartPole(gym.Env[Any, Any]):
    """Push the cart left (0) or right (1).

    Observation: position and speed of the cart, angle and rate of the pole. Reward: 1 per step. An episode ends where
    the
    cart leaves ±10 m or the pole leaves ±0.2095 rad.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": RATE}

    def __init__(self, *, render_mode: str | None = None) -> None:
        one_of("render_mode", render_mode, (None, "rgb_array"))
        self.render_mode = render_mode
        self.observation_space = spaces.Box(-MOST, MOST, dtype=np.float32)
        self.action_space = spaces.Discrete(2)
        self.bullet: Any = Client()
        self._build()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self.bullet.restoreState(self.saved)
        for joint, at in zip((SLIDER, POLE), self.np_random.uniform(-SPREAD, SPREAD, 2), strict=True):
            self.bullet.resetJointState(self.cart, joint, at, 0.0)
        return self._obs(), {}

    def step(self, action: int) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        force = FORCE if int(action) == 1 else -FORCE
        self.bullet.setJointMotorControl2(self.cart, SLIDER, pybullet.TORQUE_CONTROL, force=force)
        self.bullet.stepSimulation()
        obs = self._obs()
        over = bool(abs(obs[0]) > FURTHEST or abs(obs[2]) > STEEPEST)
        return obs, 1.0, over, False, {}

    def render(self) -> Array | None:
        """A side view that follows the cart, uint8 [320, 480, 3], a post per metre; None without a render_mode."""
        if self.render_mode is None:
            return None
        x = self.bullet.getJointState(self.cart, SLIDER)[0]
        where = {"eye": (x, -3.6, 0.9), "at": (x, 0.0, 0.35)}
        return picture(self.bullet, WIDTH, HEIGHT, fov=38, **where, lightDirection=(x - 2, -4, 6), shadow=0)

    def close(self) -> None:
        if self.bullet is not None:
            self.bullet.disconnect()
            self.bullet = None

    def _build(self) -> None:
        bullet = self.bullet
        bullet.setGravity(0, 0, -9.81)
        bullet.setTimeStep(1 / RATE)
        look = 0 if self.render_mode else pybullet.URDF_IGNORE_VISUAL_SHAPES
        self.cart = bullet.loadURDF(f"{pybullet_data.getDataPath()}/cartpole.urdf", flags=look)
        bullet.setJointMotorControl2(self.cart, SLIDER, pybullet.VELOCITY_CONTROL, targetVelocity=0, force=BRAKE)
        bullet.setJointMotorControl2(self.cart, POLE, pybullet.VELOCITY_CONTROL, force=0)
        if self.render_mode:
            post = bullet.createVisualShape(pybullet.GEOM_BOX, halfExtents=(0.02, 0.02, 0.15), rgbaColor=POST)
            for x in range(-math.ceil(FURTHEST) - 3, math.ceil(FURTHEST) + 4):
                bullet.createMultiBody(0, -1, post, (x, 0.4, -0.15))
        self.saved = bullet.saveState()

    def _obs(self) -> Array:
        (x, speed, *_), (angle, rate, *_) = self.bullet.getJointStates(self.cart, (SLIDER, POLE))
        return np.array([x, speed, angle, rate], np.float32).clip(-MOST, MOST)
