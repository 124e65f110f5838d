"""The Fetch arm with goals anywhere in the region that it was shown to reach, mostly far ones.

Easier variants are one argument away: nearer goals, a single goal, a displacement, waypoints, starts anywhere.
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
from cairn.envs.ant import must_be_finite

Goals = Literal["far", "near", "nearby", "one", "displacement", "line", "lines"]
Starts = Literal["home", "anywhere", "waypoint"]

# Shown by `towards`: `python -m benchmarks.checks.reachable` moves to 25,571 points on a 2.5 cm grid from home, to
# 10,500 from one another and to 1,600 nearby. It misses none, and comes within 2 cm in at most 51, 44 and 7 steps.
# Farther out the arm is fully stretched; at small x it meets its own body, at small z the table.
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
HOME = np.array([1.3418, 0.7491, 0.5347])  # initial position of the gripper, in metres
CLOSE = 0.05  # metres within which a goal is reached
FAR = (0.3, 0.6)  # metres of a far goal from the start
CUBE = 0.15  # metres, half the side of FetchReach's box of goals around home
BALL = 0.2  # metres, radius of nearby goals
SHIFT = np.array([-0.0895, 0.1201, 0.1580])  # the displacement of the original experiment
LINES, WAYPOINTS = 20, 5
LONG = (0.5, 0.6)  # metres of a line: its waypoints must be more than CLOSE apart

STRIDE = 0.05  # metres that action 1 pulls the hand ahead; it moves 3.3 cm per step
UPRIGHT = np.array([1.0, 0.0, 1.0, 0.0])  # added to the hand's quaternion, as Fetch does
SUBSTEPS = 20
GAIN = 20.0  # of the scripted controller: full speed until 5 cm from the goal
ARRIVED = 0.02
POSES, ERRANDS = 256, 4  # number of starts; points visited before the arm returns home

# x, y, z of the gripper, two fingers, their velocities: metres, and metres per step
HIGHEST = np.array([2.0, 2.0, 2.0, 0.05, 0.05, 0.2, 0.2, 0.2, 0.05, 0.05], np.float32)
LOWEST = np.array([0.0, -0.5, 0.0, -0.05, -0.05, -0.2, -0.2, -0.2, -0.05, -0.05], np.float32)


def towards(place: Array, goal: Array) -> Array:
    """The action of proportional control from `place` to `goal`: the scripted controller for proofs and starts."""
    return np.append(np.clip(GAIN * (goal - place), -1, 1), 0).astype(np.float32)


def apart(a: Array, b: Array) -> float:
    """The distance between two points."""
    return float(np.linalg.norm(a - b))


def pulled(hand: Array, turn: Array, action: Array) -> tuple[Array, Array]:
    """Where an action [..., 4] pulls a hand at [..., 3] with quaternion `turn` [..., 4]: place and quaternion."""
    return hand + STRIDE * np.clip(action, -1, 1)[..., :3], turn + UPRIGHT


def shown(place: Array, fingers: Array, velocity: Array, finger_speeds: Array, dt: float) -> Array:
    """Observations [..., 10] of the gripper's place and speed and those of its fingers, in FetchReach's layout."""
    return np.concatenate((place, fingers, velocity * dt, finger_speeds * dt), axis=-1).astype(np.float32)


SPHERE, SUBGOAL = 2, (0.1, 0.5, 1.0, 0.8)  # MuJoCo's number for a ball, and its colour


class FetchReachFar(gym.Env[Any, Any]):
    """FetchReach with its arm, actions, observations and home pose, but other goals.

    observation: x, y, z of the gripper, two fingers (blocked), velocities of both; achieved_goal: x, y, z. An action
    moves
    the gripper by up to 3.3 cm along x, y and z; its fourth entry does nothing. Reward: -1 per step, and 0 within 5 cm
    of
    the goal, which does not end the episode. Goals lie in the `reachable` region, more than 5 cm from the start.

    goals: "far" draws points 0.3 to 0.6 m from the start; "near" within ±0.15 m of home, as FetchReach; "nearby" within
        0.2 m of the start; "one" is fixed, 0.22 m from home; "displacement" is that displacement from any start, but
            only
        from starts where it is reachable; "line" draws one of 5 waypoints of a line from home to a far goal; "lines"
            those
        of 20 fixed lines.
    starts: "home"; "anywhere" is one of 256 states that the scripted controller passed through in the region, at rest
    or in
        motion; "waypoint" is the waypoint before the goal, or home.
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
        must_be_finite(action)
        self.arm.move(action)
        obs = self._obs()
        reward, reached = self.judged(obs["achieved_goal"], obs["desired_goal"])
        return obs, float(reward), False, False, {"is_success": bool(reached)}

    def judged(self, achieved: Array, desired: Array) -> tuple[Array, Array]:
        """Rewards, and whether the goals [..., 3] are reached."""
        reached = self.goal_rule.reached(achieved, desired)
        return reached - 1.0, reached

    def render(self) -> Array | None:
        """FetchReach's picture, uint8 [480, 480, 3], with the goal as a red ball; None without a render_mode."""
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
        """A start and a goal, `given` or drawn, that is not reached at the start."""
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
        """A waypoint, and the start of the arm for it."""
        line = self.np_random.integers(LINES) if self.goals == "lines" else 0
        return legs()[line][self.np_random.integers(WAYPOINTS)]

    def _draw_goal(self, start: Array, waypoint: Array) -> Array:
        """A goal, which may be unreachable."""
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
        if self.goals == "nearby":  # uniform in the ball
            way = self.np_random.normal(size=3)
            return np.asarray(way * (BALL * self.np_random.random() ** (1 / 3) / np.linalg.norm(way)))
        return SHIFT


def point(draw: np.random.Generator, start: Array = HOME, band: tuple[float, float] = (0.0, 9.0)) -> Array:
    """A uniformly drawn point of the region whose distance from `start`, in metres, lies in the band."""
    room = (HIGH - LOW).prod(1)
    while True:
        box = draw.choice(len(room), p=room / room.sum())
        drawn = draw.uniform(LOW[box], HIGH[box])
        if band[0] <= apart(drawn, start) <= band[1]:
            return np.asarray(drawn)


@dataclass(frozen=True)
class Pose:
    """A state of the simulation, and the position of the gripper in it [3]."""

    state: Array
    place: Array


class Arm:
    """FetchReach's robot with saved and restored states. It moves as there, but for rounding, in 2/3 of the time."""

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
        """The current state."""
        state = np.zeros(mujoco.mj_stateSize(self.model, mujoco.mjtState.mjSTATE_INTEGRATION))
        mujoco.mj_getState(self.model, self.data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
        return Pose(state, self.place)

    def restore(self, pose: Pose, goal: Array = HOME) -> None:
        """Restore a state, with the red ball at `goal`."""
        mujoco.mj_setState(self.model, self.data, pose.state, mujoco.mjtState.mjSTATE_INTEGRATION)
        self.model.site_pos[self.ball] = goal - self.data.xpos[self.model.site_bodyid[self.ball]]
        mujoco.mj_forward(self.model, self.data)

    def move(self, action: Array) -> None:
        """One step: pull the hand to a point ahead of it, upright, with the fingers shut."""
        hand, turn = self.data.xpos[self.hand], self.data.xquat[self.hand]
        self.data.mocap_pos[0], self.data.mocap_quat[0] = pulled(hand, turn, action)
        mujoco.mj_step(self.model, self.data, nstep=SUBSTEPS)
        self.data.qpos[self.fingers] = 0
        mujoco.mj_forward(self.model, self.data)

    def seen(self) -> Array:
        """The observation [10], in FetchReach's layout."""
        mujoco.mj_jacSite(self.model, self.data, self.jacobian, None, self.grip)
        velocity, fingers = self.jacobian @ self.data.qvel, self.data.qvel[self.finger_speeds]
        return shown(self.place, self.data.qpos[self.fingers], velocity, fingers, self.fetch.dt)

    def lead(self, goal: Array, limit: int = 100) -> Iterator[None]:
        """Move step by step to within 2 cm of a point."""
        for _ in range(limit):
            self.move(towards(self.place, goal))
            yield
            if apart(self.place, goal) < ARRIVED:
                return

    def mark(self, point: Array) -> None:
        """Show a subgoal in the next picture."""
        viewer = self.fetch.mujoco_renderer._get_viewer("rgb_array")
        viewer.add_marker(type=SPHERE, pos=point.astype(float), size=np.full(3, 0.025), rgba=np.array(SUBGOAL))

    def picture(self) -> Array:
        """A picture uint8 [480, 480, 3]."""
        image: Array = self.fetch.mujoco_renderer.render("rgb_array")
        return image

    def close(self) -> None:
        """Close the simulation."""
        self.fetch.close()


@cache
def poses() -> tuple[Pose, ...]:
    """The starts of `starts="anywhere"`: two states per way, one in motion. Computed once, in a second or two."""
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
    """[line][waypoint]: each waypoint, with the arm at the one before it. The last is a far goal."""
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
