"""A race car on an S-shaped track between walls, simulated by PyBullet: a task whose goals are points of the track.

The task of the notes, mended. Each of its faults is one argument away, so that its price can be measured:
`goals="one"`, `contact="ends"`, `wall_mass=100`, `frame_skip=1`, `rebuild=True`.
"""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import gymnasium as gym
import numpy as np
import pybullet
import pybullet_data
from gymnasium import spaces

from cairn.core.checks import one_of
from cairn.core.goals import Within
from cairn.core.types import Array
from cairn.envs.bullet import Client, picture

Goals = Literal["track", "marks", "finish", "one"]
Starts = Literal["line", "track", "both"]
Contact = Literal["cost", "ends", "free"]
Point = tuple[float, float]
Pose = tuple[float, float, float]  # x, y, heading

WALLS = (  # (x0, y0) to (x1, y1): the middle of each wall, in metres
    ((0, 0), (2, 0)),
    ((0, 0), (0, 4)),
    ((2, 0), (2, 2)),
    ((0, 4), (8, 4)),
    ((2, 2), (10, 2)),
    ((10, 2), (10, 6)),
    ((10, 6), (15, 6)),
    ((8, 4), (8, 8)),
    ((8, 8), (15, 8)),
    ((15, 6), (15, 8)),
)
LANES = (  # the rectangles between them, (x0, y0) to (x1, y1), in driving order: they overlap where the road turns
    ((0, 0), (2, 4)),
    ((0, 2), (10, 4)),
    ((8, 2), (10, 8)),
    ((8, 6), (15, 8)),
)
HEADINGS = (math.pi / 2, 0.0, math.pi / 2, 0.0)  # of each lane
START: Pose = (0.5, 0.5, math.pi / 2)
FINISH: Point = (14.5, 7.5)
MARKS: tuple[Point, ...] = ((3.0, 3.0), (9.0, 5.0), (11.0, 7.0), FINISH)
ONE: Point = (9.0, 5.0)  # the one goal for ever, halfway; the notes' fixed seed drew theirs at (3, 3), nearer still

THICK, HIGH = 0.3, 0.5  # of a wall
SURFACE = {"lateralFriction": 1.0, "restitution": 0.7, "linearDamping": 0.5, "angularDamping": 0.5}
NEAR = 1.0  # a goal is reached within it
MARGIN = 0.5  # between a wall's face and the points drawn
MARK_SHARE = 0.5  # of the goals drawn along the track
MOST_JITTER = 0.15  # m and rad off the start line: more, and the car may stand in a wall
WANDER = 0.3  # a start on the track heads at most this far off the track's direction

PHYSICS_HZ = 100
CHASSIS, STEERING, WHEELS = 0, (4, 6), (2, 3, 5, 7)  # links and joints of racecar.urdf
WHEEL_SPEED, WHEEL_FORCE = 50.0, 100.0  # rad/s at full throttle, N·m
REST_SPEED = 0.05  # m/s, below which it stands
REST = 0.001  # height of the car's frame when its wheels stand on the floor

# x, y, vx, vy, heading, two steering angles, two steering rates. The walls hold the car, its wheels turn at 2.5 m/s,
# and the steering motors close a tenth of their error in each physics step: 20 rad/s from one end to the other.
HIGHEST = np.array([16, 9, 5, 5, math.pi, 1.5, 1.5, 30, 30], np.float32)
LOWEST = np.array([-1, -1, -5, -5, -math.pi, -1.5, -1.5, -30, -30], np.float32)

WIDTH, HEIGHT = 480, 320  # of a picture
WALL, CAR, GOAL = (0.85, 0.8, 0.75, 1), (1, 0.2, 0.15, 1), (0.95, 0.7, 0.1, 1)
ROAD, GRASS = (0.3, 0.3, 0.33, 1), (0.42, 0.55, 0.35, 1)


def on_track(x: float, y: float, margin: float = 0.0) -> bool:
    """Whether a point lies between the walls, at least `margin` off their faces."""
    off = THICK / 2 + margin
    return any(x0 + off <= x <= x1 - off and y0 + off <= y <= y1 - off for (x0, y0), (x1, y1) in LANES)


def heading_at(x: float, y: float) -> float:
    """The direction of the track at one of its points; halfway between both lanes' where the road turns."""
    here = [
        heading
        for ((x0, y0), (x1, y1)), heading in zip(LANES, HEADINGS, strict=True)
        if x0 <= x <= x1 and y0 <= y <= y1
    ]
    return sum(here) / len(here)


def progress(x: float, y: float) -> float:
    """Metres along the track's middle from its closed end to this point, as far as the lane it lies in tells."""
    if x <= 2 and y <= 3:
        return y
    if x <= 9 and y <= 4:
        return 3 + max(x - 1, 0.0)
    if x <= 10 and y <= 7:
        return 11 + max(y - 3, 0.0)
    return 15 + max(x - 9, 0.0)


def apart(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    """The distance between two points or poses."""
    return math.hypot(a[0] - b[0], a[1] - b[1])


class RaceCar(gym.Env[Any, Any]):
    """Steer [-1, 1] (positive turns right) and throttle [0, 1]; a decision each `frame_skip` physics steps at 100 Hz.

    observation: x, y, vx, vy, heading, two steering angles, two steering rates; achieved_goal and desired_goal: x, y.
    Reward: -1 a decision and 0 within 1 m of the goal, which ends the episode, less `wall_cost` in a decision during
    which a wall was touched. To touch is to have a contact point of PyBullet's, which begins 2 cm before the surfaces
    meet. `is_success` asks for both: the goal is reached, and no wall was touched in this episode.

    goals: "track" draws points of the track and, every other time, one of the marks; "marks" one of the four;
        "finish" and "one" are always the same. A goal is never drawn within 1 m of the start.
    starts: "line" is the start of the race; "track" any point of the track, at rest, facing along it; "both" tosses a
        coin. Drawn goals lie ahead.
    jitter: how far, in metres and radians, a start on the line may lie off it; 0 makes every such start the same.
    margin: how near to a wall, in metres, the car may come before `wall_cost` is taken; 0 is a touch. A fastest line
        grazes what it may not touch, and a policy that is a little off then touches; with a margin it grazes air.
    contact: "cost" takes `wall_cost`; "ends" ends the episode there and then; "free" does neither. There is no
        reverse gear: a car that stands with its nose to a wall stays there.
    patience: after so many decisions at rest against a wall the episode is truncated, not terminated: there is nothing
        more to see, and since a truncation is bootstrapped, ending there pays no better than staying. 0 goes on.
    wall_mass: 0 stands still; any other can be pushed.
    rebuild: make the world anew at each reset instead of restoring it; the same to the bit, and slower.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(
        self,
        *,
        goals: Goals = "track",
        starts: Starts = "line",
        contact: Contact = "cost",
        wall_cost: float = 1.0,
        margin: float = 0.0,
        wall_mass: float = 0.0,
        frame_skip: int = 10,
        patience: int = 10,
        jitter: float = 0.0,
        rebuild: bool = False,
        render_mode: str | None = None,
    ) -> None:
        one_of("goals", goals, get_args(Goals))
        one_of("starts", starts, get_args(Starts))
        one_of("contact", contact, get_args(Contact))
        one_of("render_mode", render_mode, (None, "rgb_array"))
        if not (wall_cost >= 0 and wall_mass >= 0):
            raise ValueError(f"wall_cost is {wall_cost} and wall_mass {wall_mass}; neither can be below 0")
        if not 0 <= margin <= MARGIN:
            raise ValueError(f"margin is {margin}; the road leaves room for 0 to {MARGIN}")
        if not 0 <= jitter <= MOST_JITTER:
            raise ValueError(f"jitter is {jitter}; the start line leaves room for 0 to {MOST_JITTER}")
        if patience < 0:
            raise ValueError(f"patience is {patience}; it is a number of decisions, 0 for no end of it")
        if frame_skip < 1:
            raise ValueError(f"frame_skip is {frame_skip}; a decision takes at least one physics step")
        self.goals, self.starts, self.contact = goals, starts, contact
        self.wall_cost, self.margin, self.frame_skip, self.rebuild = wall_cost, margin, frame_skip, rebuild
        self.patience, self.jitter = patience, jitter
        self.goal_rule = Within(NEAR, ends=True, cost=contact != "free")
        self.render_mode = render_mode
        self.metadata = {**self.metadata, "render_fps": max(1, round(PHYSICS_HZ / frame_skip))}
        place = spaces.Box(LOWEST[:2], HIGHEST[:2], dtype=np.float32)
        state = spaces.Box(LOWEST, HIGHEST, dtype=np.float32)
        self.observation_space = spaces.Dict(observation=state, achieved_goal=place, desired_goal=place)
        self.action_space = spaces.Box(np.array([-1, 0], np.float32), np.array([1, 1], np.float32))
        self.world = World(wall_mass, visible=render_mode is not None)
        self.goal: Point = FINISH
        self.touched = False
        self.stood = 0  # decisions in a row at a wall and at rest

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        """options={"goal": (x, y)} sets the goal."""
        super().reset(seed=seed)
        start, self.goal = self._draw(self._given_goal(options or {}))
        if self.rebuild:
            self.world.build()
        self.world.restore(start, self.goal)
        self.touched, self.stood = False, 0
        return self._obs(), {}

    def step(self, action: Array) -> tuple[dict[str, Array], float, bool, bool, dict[str, Any]]:
        steer, throttle = np.clip(action, (-1, 0), (1, 1)).tolist()
        if not math.isfinite(steer + throttle):  # it would spoil the world for every episode to come
            raise ValueError(f"the action {action} is not finite; look at what the policy computed")
        touching = self.world.drive(steer, throttle, self.frame_skip, stop_at_wall=self.contact == "ends")
        self.touched |= touching
        obs = self._obs()
        reached = bool(self.goal_rule.reached(obs["achieved_goal"], obs["desired_goal"]))
        reward, terminated = float(reached) - 1.0, reached
        if self.contact == "cost" and (touching or (self.margin and self.world.within(self.margin))):
            reward -= self.wall_cost
        elif touching and self.contact == "ends":
            terminated = True
        resting = touching and math.hypot(*obs["observation"][2:4]) < REST_SPEED
        self.stood = self.stood + 1 if resting else 0
        truncated = 0 < self.patience <= self.stood and not terminated
        info = {"is_success": reached and not self.touched, "reached": reached, "touched": self.touched}
        return obs, reward, terminated, truncated, info

    def render(self) -> Array | None:
        """The whole track from above, [320, 480, 3] of uint8; None without a render_mode."""
        return self.world.picture() if self.render_mode else None

    def close(self) -> None:
        self.world.close()

    def _obs(self) -> dict[str, Array]:
        state = np.clip(np.array(self.world.state(), np.float32), LOWEST, HIGHEST)
        return {
            "observation": state,
            "achieved_goal": state[:2].copy(),
            "desired_goal": np.array(self.goal, np.float32),
        }

    def _given_goal(self, options: dict[str, Any]) -> Point | None:
        if "goal" not in options:
            return None
        goal = np.asarray(options["goal"], float)
        if goal.shape != (2,) or not on_track(*goal):
            raise ValueError(f"the goal {options['goal']} is no point (x, y) of the track; the finish is {FINISH}")
        x, y = goal.tolist()
        if self.starts != "track" and apart(START, (x, y)) <= NEAR:
            raise ValueError(f"the goal {(x, y)} is reached at the start; choose one more than {NEAR:g} m off")
        return x, y

    def _draw(self, given: Point | None) -> tuple[Pose, Point]:
        """A start and a goal, `given` or drawn, out of reach of each other: solved before it begins is no task."""
        while True:
            start, goal = self._draw_start(), given or self._draw_goal()
            behind = given is None and progress(*goal) < progress(*start[:2])
            if apart(start, goal) > NEAR and not behind:  # the car cannot turn round between the walls
                return start, goal

    def _draw_goal(self) -> Point:
        if self.goals == "one":
            return ONE
        if self.goals == "finish":
            return FINISH
        if self.goals == "marks" or self.np_random.random() < MARK_SHARE:
            return MARKS[self.np_random.integers(len(MARKS))]
        return self._draw_point()

    def _draw_start(self) -> Pose:
        if self.starts == "line" or (self.starts == "both" and self.np_random.random() < 0.5):
            x, y, heading = np.add(START, self.np_random.uniform(-self.jitter, self.jitter, 3)).tolist()
            return x, y, heading
        x, y = self._draw_point()
        return x, y, heading_at(x, y) + self.np_random.uniform(-WANDER, WANDER)

    def _draw_point(self) -> Point:
        """A point of the track, each equally likely, `MARGIN` off the walls."""
        while True:
            x, y = self.np_random.uniform((0, 0), LANES[-1][1]).tolist()
            if on_track(x, y, MARGIN):
                return x, y


class World:
    """Floor, walls and car in a PyBullet client of their own: several worlds in one process do not meet."""

    def __init__(self, wall_mass: float = 0.0, *, visible: bool = False) -> None:
        self.wall_mass, self.visible = wall_mass, visible
        self.bullet: Any = Client()
        self.build()

    def build(self) -> None:
        """Everything at its place and the car at the start, kept in memory for `restore`."""
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
        """The world as it was built, to the bit, but the car at rest at `start` and the disc at `goal`."""
        self.bullet.restoreState(self.saved)
        self.bullet.resetBasePositionAndOrientation(self.car, *_frame(start))
        if self.visible:
            self.bullet.resetBasePositionAndOrientation(self.disc, (*goal, 0), (0, 0, 0, 1))

    def drive(self, steer: float, throttle: float, steps: int, *, stop_at_wall: bool) -> bool:
        """Hold the controls for `steps` physics steps, or until a wall is touched; whether one was."""
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
        """Whether the last physics step left a contact point between the car and a wall."""
        return any(contact[2] in self.walls for contact in self.bullet.getContactPoints(self.car))

    def within(self, distance: float) -> bool:
        """Whether a wall is nearer to the car than this."""
        return any(self.bullet.getClosestPoints(self.car, wall, distance) for wall in self.walls)

    def state(self) -> tuple[float, ...]:
        """x, y, vx, vy, heading, two steering angles, two steering rates"""
        (x, y, _), turn = self.bullet.getBasePositionAndOrientation(self.car)
        (vx, vy, _), _ = self.bullet.getBaseVelocity(self.car)
        heading = pybullet.getEulerFromQuaternion(turn)[2]
        (angle, rate, *_), (angle_too, rate_too, *_) = self.bullet.getJointStates(self.car, STEERING)
        return x, y, vx, vy, heading, angle, angle_too, rate, rate_too

    def picture(self) -> Array:
        """[320, 480, 3] of uint8."""
        where: Any = {"eye": (7.5, -1.0, 15.0), "at": (7.5, 3.65, 0), "up": (0, 1, 0)}
        return picture(self.bullet, WIDTH, HEIGHT, fov=40, **where, lightDirection=(-4, -6, 12), shadow=0)

    def close(self) -> None:
        if self.bullet is not None:
            self.bullet.disconnect()
            self.bullet = None

    def _wall(self, start: Point, end: Point) -> int:
        """A wall from `start` to `end`, along x or y."""
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
        """Grass, road and goal: to be seen, not felt."""
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
        """A visual shape, or none (-1) in a world that nobody looks at."""
        if not self.visible:
            return -1
        made: int = self.bullet.createVisualShape(shape, rgbaColor=colour, **size)
        return made


def _frame(pose: Pose) -> tuple[tuple[float, float, float], tuple[float, ...]]:
    """Position and quaternion of the car's frame, which lies on the rear axle."""
    x, y, heading = pose
    return (x, y, REST), (0.0, 0.0, math.sin(heading / 2), math.cos(heading / 2))
