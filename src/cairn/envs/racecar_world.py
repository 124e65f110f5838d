"""The physics of the race car: floor, walls and car in PyBullet."""

from __future__ import annotations

import math
from typing import Any

import pybullet
import pybullet_data

from cairn.core.types import Array
from cairn.envs.bullet import Client, picture
from cairn.envs.racetrack import HIGH, LANES, NEAR, START, THICK, WALLS, Point, Pose

PHYSICS_HZ = 100
SURFACE = {"lateralFriction": 1.0, "restitution": 0.7, "linearDamping": 0.5, "angularDamping": 0.5}
CHASSIS, STEERING, WHEELS = 0, (4, 6), (2, 3, 5, 7)  # links and joints of racecar.urdf
WHEEL_SPEED, WHEEL_FORCE = 50.0, 100.0  # rad/s at full throttle, N·m
ABOVE = (0.0, 0.0, 50.0)  # a place without contacts
REST = 0.001  # m, height of the car's frame with its wheels on the floor

WIDTH, HEIGHT = 480, 320  # pixels of a picture
WALL, CAR, GOAL = (0.85, 0.8, 0.75, 1), (1, 0.2, 0.15, 1), (0.95, 0.7, 0.1, 1)
ROAD, GRASS = (0.3, 0.3, 0.33, 1), (0.42, 0.55, 0.35, 1)


class World:
    """Floor, walls and car in a PyBullet client of its own, so that several worlds can exist in one process."""

    def __init__(self, wall_mass: float = 0.0, *, visible: bool = False) -> None:
        self.wall_mass, self.visible = wall_mass, visible
        self.bullet: Any = Client()
        self.build()

    def build(self) -> None:
        """Put everything in its place and the car at the start, and save the state for `restore`."""
        bullet, data = self.bullet, pybullet_data.getDataPath()
        bullet.resetSimulation()
        bullet.setGravity(0, 0, -10)
        bullet.setTimeStep(1 / PHYSICS_HZ)
        bullet.setPhysicsEngineParameter(deterministicOverlappingPairs=1)
        bullet.loadURDF(f"{data}/plane.urdf", flags=pybullet.URDF_IGNORE_VISUAL_SHAPES)
        self.walls = frozenset(self._wall(*ends) for ends in WALLS)
        look = 0 if self.visible else pybullet.URDF_IGNORE_VISUAL_SHAPES
        self.car = bullet.loadURDF(f"{data}/racecar/racecar.urdf", *_frame(START), flags=look)
        if self.visible:
            self._paint()
        self.saved = bullet.saveState()

    def restore(self, start: Pose, goal: Point) -> None:
        """Restore the world as it was built, bit by bit, with the car at rest at `start` and the disc at `goal`.

        PyBullet keeps contact points of bodies that still touch after `restoreState`, and the impulses that its solver
        starts
        from. Lifting the car drops its contacts. Movable walls touch each other, so they are built anew.
        """
        if self.wall_mass:
            self.build()
        else:
            self.bullet.resetBasePositionAndOrientation(self.car, ABOVE, (0, 0, 0, 1))
            self.bullet.performCollisionDetection()
            self.bullet.restoreState(self.saved)
        self.bullet.resetBasePositionAndOrientation(self.car, *_frame(start))
        if self.visible:
            self.bullet.resetBasePositionAndOrientation(self.disc, (*goal, 0), (0, 0, 0, 1))

    def drive(self, steer: float, throttle: float, steps: int, *, stop_at_wall: bool) -> bool:
        """Hold the controls for `steps` physics steps, or until a wall is touched; returns whether one was."""
        bullet, car = self.bullet, self.car
        bullet.setJointMotorControlArray(car, STEERING, pybullet.POSITION_CONTROL, targetPositions=[-steer] * 2)
        bullet.setJointMotorControlArray(
            car,
            WHEELS,
            pybullet.VELOCITY_CONTROL,
            targetVelocities=[WHEEL_SPEED * throttle] * 4,
            forces=[WHEEL_FORCE] * 4,
        )
        touched = False
        for _ in range(steps):
            bullet.stepSimulation()
            touched = touched or self.touching()
            if touched and stop_at_wall:
                break
        return touched

    def touching(self) -> bool:
        """Whether the car has a contact point with a wall after the last physics step."""
        return any(contact[2] in self.walls for contact in self.bullet.getContactPoints(self.car))

    def within(self, distance: float) -> bool:
        """Whether a wall is closer to the car than `distance` metres."""
        return any(self.bullet.getClosestPoints(self.car, wall, distance) for wall in self.walls)

    def state(self) -> tuple[float, ...]:
        """Return x, y, vx, vy, heading, two steering angles and two steering rates."""
        (x, y, _), turn = self.bullet.getBasePositionAndOrientation(self.car)
        (vx, vy, _), _ = self.bullet.getBaseVelocity(self.car)
        heading = pybullet.getEulerFromQuaternion(turn)[2]
        (angle, rate, *_), (angle_too, rate_too, *_) = self.bullet.getJointStates(self.car, STEERING)
        return x, y, vx, vy, heading, angle, angle_too, rate, rate_too

    def picture(self) -> Array:
        """A picture uint8 [320, 480, 3]."""
        where: Any = {"eye": (7.5, -1.0, 15.0), "at": (7.5, 3.65, 0), "up": (0, 1, 0)}
        return picture(self.bullet, WIDTH, HEIGHT, fov=40, **where, lightDirection=(-4, -6, 12), shadow=0)

    def close(self) -> None:
        """Disconnect from PyBullet."""
        if self.bullet is not None:
            self.bullet.disconnect()
            self.bullet = None

    def _wall(self, start: Point, end: Point) -> int:
        """Make a wall from `start` to `end`, along x or y."""
        (x0, y0), (x1, y1) = start, end
        half = ((x1 - x0 or THICK) / 2, (y1 - y0 or THICK) / 2, HIGH / 2)
        wall: int = self.bullet.createMultiBody(
            self.wall_mass,
            self.bullet.createCollisionShape(pybullet.GEOM_BOX, halfExtents=half),
            self._look(pybullet.GEOM_BOX, WALL, halfExtents=half),
            ((x0 + x1) / 2, (y0 + y1) / 2, HIGH / 2),
        )
        self.bullet.changeDynamics(wall, -1, **SURFACE)
        return wall

    def _paint(self) -> None:
        """Add grass, road and goal to the picture, without collisions."""
        bullet = self.bullet
        bullet.changeVisualShape(self.car, CHASSIS, rgbaColor=CAR)
        grass = self._look(pybullet.GEOM_BOX, GRASS, halfExtents=(12, 10, 0.001))
        bullet.createMultiBody(0, -1, grass, (7.5, 4, 0.001))
        for (x0, y0), (x1, y1) in LANES:
            road = self._look(pybullet.GEOM_BOX, ROAD, halfExtents=((x1 - x0) / 2, (y1 - y0) / 2, 0.004))
            bullet.createMultiBody(0, -1, road, ((x0 + x1) / 2, (y0 + y1) / 2, 0.004))
        disc = self._look(pybullet.GEOM_CYLINDER, GOAL, radius=NEAR, length=0.04)
        self.disc = bullet.createMultiBody(0, -1, disc)

    def _look(self, shape: int, colour: tuple[float, ...], **size: Any) -> int:
        """A visual shape; -1, none, in an invisible world."""
        if not self.visible:
            return -1
        made: int = self.bullet.createVisualShape(shape, rgbaColor=colour, **size)
        return made


def _frame(pose: Pose) -> tuple[tuple[float, float, float], tuple[float, ...]]:
    """Position and quaternion of the car's frame, which is on the rear axle."""
    x, y, heading = pose
    return (x, y, REST), (0.0, 0.0, math.sin(heading / 2), math.cos(heading / 2))
