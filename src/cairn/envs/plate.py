"""A ball on a plate that tilts about two axes, simulated by PyBullet: keep the ball on the plate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pybullet
from gymnasium import spaces

from cairn.core.checks import one_of
from cairn.core.types import Array
from cairn.envs.bullet import Client, picture

PHYSICS_HZ = 100
TORQUE = 0.0003  # N·m, as the ball's weight 4.4 cm from the middle
BASE = 0.1  # m: height of the plate's foot; below it the ball has fallen
DROP = 0.2  # m: initial height, from which it falls 2 cm onto the plate
RADIUS, MASS = 0.02, 0.0007  # m and kg, of the ball
TILT, TURN = 0.0005, 0.00005  # rad and rad/s, of initial states
SCALE = 10.0  # of observations: values in metres and radians are too small
AXES = (0, 1)  # joints: pitch about x, roll about y
MOST = np.array([1, 1, 1, 4, 4, 4, 1.6, 1.6], np.float32) * SCALE  # bounds of observations; the ball falls long before
FASTEST = 4 * SCALE
WIDTH, HEIGHT = 480, 320  # pixels of a picture
PLATE, BALL = (0.35, 0.45, 0.6, 1), (0.95, 0.35, 0.2, 1)


class BalancingPlate(gym.Env[Any, Any]):
    """Full torque on both axes: actions 0 to 3 are the signs (-, -), (-, +), (+, -), (+, +).

    Observation: position and velocity of the ball, pitch and roll, all times 10.
    Reward: 1 per physics step of 10 ms. An episode ends where the ball is below 0.1 m; otherwise `is_success` is True.

    rates: also observe how fast pitch and roll changed since the last action. Ball and plate are two double integrators
    in
        a row: without the plate's rates, or a memory of its angles, no policy can stabilise them.
    frame_skip: physics steps per action. In 10 ms the weak torque changes so little that the values of the four actions
        hardly differ; over longer actions they do.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": PHYSICS_HZ}

    def __init__(self, *, rates: bool = False, frame_skip: int = 1, render_mode: str | None = None) -> None:
        one_of("render_mode", render_mode, (None, "rgb_array"))
        if frame_skip < 1:
            raise ValueError(f"frame_skip is {frame_skip}; a decision takes at least one physics step")
        self.rates, self.frame_skip, self.render_mode = rates, frame_skip, render_mode
        self.metadata = {**self.metadata, "render_fps": max(1, round(PHYSICS_HZ / frame_skip))}
        self.most = np.append(MOST, [FASTEST] * 2).astype(np.float32) if rates else MOST
        self.observation_space = spaces.Box(-self.most, self.most, dtype=np.float32)
        self.action_space = spaces.Discrete(4)
        self.bullet: Any = Client()
        self._build()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self.bullet.restoreState(self.saved)
        for axis in AXES:
            tilt, turn = self.np_random.uniform((-TILT, -TURN), (TILT, TURN))
            self.bullet.resetJointState(self.plate, axis, tilt, turn)
        self.angles = self._angles()
        return self._obs(self.angles), {}

    def step(self, action: int) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        torques = [TORQUE if int(action) & bit else -TORQUE for bit in (2, 1)]
        reward, fallen = 0.0, False
        while reward < self.frame_skip and not fallen:
            self.bullet.setJointMotorControlArray(self.plate, AXES, pybullet.TORQUE_CONTROL, forces=torques)
            self.bullet.stepSimulation()
            reward += 1.0
            fallen = self.bullet.getBasePositionAndOrientation(self.ball)[0][2] < BASE
        before, self.angles = self.angles, self._angles()
        return self._obs(before), reward, fallen, False, {"is_success": not fallen}

    def render(self) -> Array | None:
        """The plate from above one corner, uint8 [320, 480, 3]; None without a render_mode."""
        if self.render_mode is None:
            return None
        where = {"eye": (0.42, -0.42, 0.46), "at": (0.0, 0.0, 0.14)}
        return picture(self.bullet, WIDTH, HEIGHT, fov=34, **where, lightDirection=(0.3, -0.2, 1), shadow=1)

    def close(self) -> None:
        if self.bullet is not None:
            self.bullet.disconnect()
            self.bullet = None

    def _build(self) -> None:
        bullet, seen = self.bullet, self.render_mode is not None
        bullet.setGravity(0, 0, -9.81)
        bullet.setTimeStep(1 / PHYSICS_HZ)
        bullet.setPhysicsEngineParameter(deterministicOverlappingPairs=1)
        urdf = Path(__file__).with_name("balancing_plate.urdf")
        self.plate = bullet.loadURDF(str(urdf), (0, 0, BASE), useFixedBase=True)
        for axis in AXES:  # switch PyBullet's default motor off
            bullet.setJointMotorControl2(self.plate, axis, pybullet.VELOCITY_CONTROL, force=0)
        shape = bullet.createCollisionShape(pybullet.GEOM_SPHERE, radius=RADIUS)
        look = bullet.createVisualShape(pybullet.GEOM_SPHERE, radius=RADIUS, rgbaColor=BALL) if seen else -1
        self.ball = bullet.createMultiBody(MASS, shape, look, (0, 0, DROP))
        if seen:
            bullet.changeVisualShape(self.plate, 1, rgbaColor=PLATE)
        self.saved = bullet.saveState()

    def _angles(self) -> Array:
        return np.array([state[0] for state in self.bullet.getJointStates(self.plate, AXES)])

    def _obs(self, before: Array) -> Array:
        """The observation; `before` are the angles at the last action."""
        place, _ = self.bullet.getBasePositionAndOrientation(self.ball)
        velocity, _ = self.bullet.getBaseVelocity(self.ball)
        rates = (self.angles - before) * (PHYSICS_HZ / self.frame_skip) if self.rates else ()
        seen = np.array([*place, *velocity, *self.angles, *rates], np.float32) * SCALE
        return seen.clip(-self.most, self.most)
