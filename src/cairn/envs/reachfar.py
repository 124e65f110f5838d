"""The Fetch arm with goals anywhere in the space it was proven to reach, far ones first of all.

The steps that lead there are one argument away: nearer goals, one goal, a displacement, waypoints, starts anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

import gymnasium as gym
import mujoco
import numpy as np
from gymnasium import spaces
from gymnasium_robotics.envs.fetch.reach import MujocoFetchReachEnv

from cairn.core.checks import one_of
from cairn.core.goals import Region, Within
from cairn.core.types import Array

Goals = Literal["far", "near", "nearby", "one", "displacement", "line", "lines"]
Starts = Literal["home", "anywhere", "waypoint"]

# Proven by `towards`: `python -m benchmarks.checks.reachable` leads to 25,571 points, 2.5 cm apart, from home, to
# 10,500 from one another and to 1,600 nearby; 0 are missed, each is met within 2 cm in at most 51, 44 and 7 steps.
# Farther out the arm is stretched; it meets its own body where x is small and the table where z is.
REACHABLE = Region(
    (
        ((1.05, 0.10, 0.43), (1.40, 1.40, 0.85)),  # beside and above the table
        ((0.92, 0.20, 0.43), (1.05, 1.30, 0.65)),  # close to the body
        ((1.40, 0.20, 0.43), (1.50, 1.30, 0.80)),  # outstretched
        ((1.50, 0.40, 0.43), (1.60, 1.10, 0.80)),
        ((1.15, 0.15, 0.85), (1.35, 1.35, 0.95)),  # high
        ((1.15, 0.25, 0.95), (1.35, 1.25, 1.05)),
    )
)
LOW, HIGH = np.moveaxis(np.array(REACHABLE.boxes), 1, 0)  # [boxes, 3] each
HOME = np.array([1.3418, 0.7491, 0.5347])  # where the gripper waits, in metres
CLOSE = 0.05  # a goal is reached within it
FAR = (0.3, 0.6)  # of a far goal, from the start
CUBE = 0.15  # half the side of FetchReach's, around home
BALL = 0.2  # radius of what is nearby
SHIFT = np.array([-0.0895, 0.1201, 0.1580])  # the displacement of the notes
LINES, WAYPOINTS = 20, 5
LONG = (0.5, 0.6)  # of a line: its waypoints must not lie within reach of each other

STRIDE = 0.05  # the hand is drawn this far ahead at action 1, and moves 3.3 cm in a step
UPRIGHT = np.array([1.0, 0.0, 1.0, 0.0])  # added to the hand's quaternion, as Fetch does
SUBSTEPS = 20
GAIN = 20.0  # of the scripted controller: full speed until 5 cm before the goal
ARRIVED = 0.02
POSES, ERRANDS = 256, 4  # starts kept, and points visited before the arm is sent home again

# x, y, z of the gripper, two fingers, its velocity and theirs: metres, and metres a step.
HIGHEST = np.array([2.0, 2.0, 2.0, 0.05, 0.05, 0.2, 0.2, 0.2, 0.05, 0.05], np.float32)
LOWEST = np.array([0.0, -0.5, 0.0, -0.05, -0.05, -0.2, -0.2, -0.2, -0.05, -0.05], np.float32)


def towards(place: Array, goal: Array) -> Array:
    """The action of proportional control: the scripted controller behind every proof and every start."""
    return np.append(np.clip(GAIN * (goal - place), -1, 1), 0).astype(np.float32)


def apart(a: Array, b: Array) -> float:
    """The distance between two points."""
    return float(np.linalg.norm(a - b))


SPHERE, SUBGOAL = 2, (0.1, 0.5, 1.0, 0.8)  # MuJoCo's number for a ball, and the colour of this one


class FetchReachFar(gym.Env[Any, Any]):
    """The arm, the actions and the observations of FetchReach; a home pose that is FetchReach's; other goals.

    observation: x, y, z of the gripper, two fingers (blocked), velocities of both; achieved_goal: x, y, z. An action
    moves the gripper by up to 3.3 cm along x, y and z; its fourth entry moves nothing. Reward: -1 a step and 0 within
    5 cm of the goal, which ends nothing. Goals are drawn where `reachable` holds and never within 5 cm of the start.

    goals: "far" draws points 0.3 to 0.6 m from the start; "near" as FetchReach, within ±0.15 m of home; "nearby" within
        0.2 m of the start; "one" is always the same, 0.22 m from home; "displacement" lies that far and that way from
        any start, and starts from where it could not be reached are not drawn; "line" draws one of the 5 waypoints
        of a line from home to a far goal; "lines" those of 20 lines, the same for ever.
    starts: "home"; "anywhere" is one of 256 states that the scripted controller went through on errands in
        the region, at rest or in passing; "waypoint" is the waypoint before the goal, or home.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 25}
    goal_rule = Within(CLOSE)
    reachable = REACHABLE

    def __init__(self, *, goals: Goals = "far", starts: Starts = "home", render_mode: str | None = None) -> None:
        one_of("goals", goals, get_args(Goals))
        one_of("starts", starts, get_args(Starts))
        one_of("render_mode", render_mode, (None, "rgb_array"))
        if starts == "waypoint" and goals not in ("line", "lines"):
            raise ValueError(f"starts is 'waypoint' and goals {goals!r}; only 'line' and 'lines' have waypoints")
        self.goals, self.starts, self.render_mode = goals, starts, render_mode
        place = spaces.Box(LOWEST[:3], HIGHEST[:3], dtype=np.float32)
        state = spaces.Box(LOWEST, HIGHEST, dtype=np.float32)
        self.observation_space = spaces.Dict(observation=state, achieved_goal=place, desired_goal=place)
        self.action_space = spaces.Box(-1.0, 1.0, (4,), np.float32)
        self.arm = Arm(render_mode)
        self.goal = HOME.astype(np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        """options={"goal": (x, y, z)} sets the goal."""
        super().reset(seed=seed)
        start, goal = self._draw(self._given_goal(options or {}))
        self.arm.restore(start, goal)
        self.goal = goal.astype(np.float32)
        return self._obs(), {}

    def step(self, action: Array) -> tuple[dict[str, Array], float, bool, bool, dict[str, Any]]:
        if not np.isfinite(action).all():  # it would spoil the simulation for every episode to come
            raise ValueError(f"the action {action} is not finite; look at what the policy computed")
        self.arm.move(np.clip(action, -1, 1))
        obs = self._obs()
        reached = bool(self.goal_rule.reached(obs["achieved_goal"], obs["desired_goal"]))
        return obs, float(reached) - 1.0, False, False, {"is_success": reached}

    def render(self) -> Array | None:
        """FetchReach's picture, [480, 480, 3] of uint8, with the goal as a red ball; None without a render_mode."""
        return self.arm.picture() if self.render_mode else None

    def mark(self, point: Array) -> None:
        """Show a subgoal in the next picture."""
        self.arm.mark(point)

    def close(self) -> None:
        self.arm.close()

    def _obs(self) -> dict[str, Array]:
        state = np.clip(self.arm.seen(), LOWEST, HIGHEST)
        return {"observation": state, "achieved_goal": state[:3].copy(), "desired_goal": self.goal.copy()}

    def _given_goal(self, options: dict[str, Any]) -> Array | None:
        if "goal" not in options:
            return None
        goal = np.asarray(options["goal"], float)
        if goal.shape != (3,) or not REACHABLE.holds(goal):
            raise ValueError(f"the goal {options['goal']} is no point (x, y, z) of the reachable region")
        if self.starts == "home" and apart(HOME, goal) <= CLOSE:
            raise ValueError(f"the goal {options['goal']} is reached at home; choose one more than {CLOSE:g} m off")
        return goal

    def _draw(self, given: Array | None) -> tuple[Pose, Array]:
        """A start and a goal, `given` or drawn, out of reach of each other: solved before it begins is no task."""
        while True:
            start, waypoint = self._draw_leg() if self.goals in ("line", "lines") else (self.arm.home, HOME)
            if self.starts == "home":
                start = self.arm.home
            elif self.starts == "anywhere":
                start = poses()[self.np_random.integers(POSES)]
            goal = self._draw_goal(start.place, waypoint) if given is None else given
            if apart(start.place, goal) > CLOSE and REACHABLE.holds(goal):
                return start, goal

    def _draw_leg(self) -> tuple[Pose, Array]:
        """A waypoint and where the arm comes from."""
        line = self.np_random.integers(LINES) if self.goals == "lines" else 0
        return legs()[line][self.np_random.integers(WAYPOINTS)]

    def _draw_goal(self, start: Array, waypoint: Array) -> Array:
        """A goal, not always a reachable one."""
        if self.goals in ("line", "lines"):
            return waypoint
        if self.goals == "far":
            return point(self.np_random, start, FAR)
        goal: Array = self._draw_way() + (start if self.goals in ("nearby", "displacement") else HOME)
        return goal

    def _draw_way(self) -> Array:
        """The displacement of a goal that is not far."""
        if self.goals == "near":
            return self.np_random.uniform(-CUBE, CUBE, 3)
        if self.goals == "nearby":  # within the ball, each point equally likely
            way = self.np_random.normal(size=3)
            return np.asarray(way * (BALL * self.np_random.random() ** (1 / 3) / np.linalg.norm(way)))
        return SHIFT


def point(draw: np.random.Generator, start: Array = HOME, band: tuple[float, float] = (0.0, 9.0)) -> Array:
    """A point of the region whose distance from `start` lies in the band, each equally likely."""
    room = (HIGH - LOW).prod(1)
    while True:
        box = draw.choice(len(room), p=room / room.sum())
        drawn = draw.uniform(LOW[box], HIGH[box])
        if band[0] <= apart(drawn, start) <= band[1]:
            return np.asarray(drawn)


@dataclass(frozen=True)
class Pose:
    """A state of the simulation, and where the gripper then is, [3]."""

    state: Array
    place: Array


class Arm:
    """FetchReach's robot: moved as there, but for rounding, in two thirds of the time; saved and restored."""

    def __init__(self, render_mode: str | None = None) -> None:
        self.fetch = MujocoFetchReachEnv(render_mode=render_mode)
        self.fetch.reset(seed=0)
        self.model, self.data = self.fetch.model, self.fetch.data
        self.grip, self.ball = self.model.site("robot0:grip").id, self.model.site("target0").id
        self.hand = self.model.body("robot0:gripper_link").id
        fingers = [self.model.joint(f"robot0:{side}_gripper_finger_joint") for side in "rl"]
        self.fingers = [finger.qposadr[0] for finger in fingers]
        self.finger_speeds = [finger.dofadr[0] for finger in fingers]
        self.jacobian = np.zeros((3, self.model.nv))
        self.home = self.save()

    @property
    def place(self) -> Array:
        """Of the gripper, [3]."""
        at: Array = self.data.site_xpos[self.grip].copy()
        return at

    def save(self) -> Pose:
        state = np.zeros(mujoco.mj_stateSize(self.model, mujoco.mjtState.mjSTATE_INTEGRATION))
        mujoco.mj_getState(self.model, self.data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
        return Pose(state, self.place)

    def restore(self, pose: Pose, goal: Array = HOME) -> None:
        """As it was saved, but the red ball at `goal`."""
        mujoco.mj_setState(self.model, self.data, pose.state, mujoco.mjtState.mjSTATE_INTEGRATION)
        self.model.site_pos[self.ball] = goal - self.data.xpos[self.model.site_bodyid[self.ball]]
        mujoco.mj_forward(self.model, self.data)

    def move(self, action: Array) -> None:
        """One step: the hand is drawn to a point ahead of it, kept upright, and the fingers are kept shut."""
        self.data.mocap_pos[0] = self.data.xpos[self.hand] + STRIDE * action[:3]
        self.data.mocap_quat[0] = self.data.xquat[self.hand] + UPRIGHT
        mujoco.mj_step(self.model, self.data, nstep=SUBSTEPS)
        self.data.qpos[self.fingers] = 0
        mujoco.mj_forward(self.model, self.data)

    def seen(self) -> Array:
        """[10], as FetchReach lays it out."""
        mujoco.mj_jacSite(self.model, self.data, self.jacobian, None, self.grip)
        velocity, fingers = self.jacobian @ self.data.qvel, self.data.qvel[self.finger_speeds]
        now = (self.place, self.data.qpos[self.fingers], velocity * self.fetch.dt, fingers * self.fetch.dt)
        return np.concatenate(now).astype(np.float32)

    def lead(self, goal: Array, limit: int = 100) -> Iterator[None]:
        """Step by step to within 2 cm of a point."""
        for _ in range(limit):
            self.move(towards(self.place, goal))
            yield
            if apart(self.place, goal) < ARRIVED:
                return

    def mark(self, point: Array) -> None:
        viewer = self.fetch.mujoco_renderer._get_viewer("rgb_array")
        viewer.add_marker(type=SPHERE, pos=point.astype(float), size=np.full(3, 0.025), rgba=np.array(SUBGOAL))

    def picture(self) -> Array:
        image: Array = self.fetch.mujoco_renderer.render("rgb_array")
        return image

    def close(self) -> None:
        self.fetch.close()


@cache
def poses() -> tuple[Pose, ...]:
    """Where an episode may begin: two states of each errand, one of them in passing. Made once, in a second or two."""
    arm, draw = Arm(), np.random.default_rng(0)
    kept: list[Pose] = []
    while len(kept) < POSES:
        arm.restore(arm.home)
        for _ in range(ERRANDS):
            way = [arm.save() for _ in arm.lead(point(draw))]
            kept += [pose for pose in (way[len(way) // 2], way[-1]) if REACHABLE.holds(pose.place)]
    return tuple(kept[:POSES])


@cache
def legs() -> tuple[tuple[tuple[Pose, Array], ...], ...]:
    """[line][waypoint]: each waypoint with the arm at the one before it, the last being a far goal."""
    arm, draw = Arm(), np.random.default_rng(0)
    made: list[tuple[tuple[Pose, Array], ...]] = []
    while len(made) < LINES:
        ways = np.linspace(HOME, point(draw, HOME, LONG), WAYPOINTS + 1)[1:]
        if REACHABLE.holds(ways).all():
            made.append(tuple(_walk(arm, ways)))
    return tuple(made)


def _walk(arm: Arm, ways: Array) -> Iterator[tuple[Pose, Array]]:
    arm.restore(arm.home)
    for way in ways:
        yield arm.save(), way
        for _ in arm.lead(way):
            pass
