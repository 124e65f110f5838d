"""A race car on an S-shaped track between walls, simulated by PyBullet. Goals are points of the track.

This is the task of the original experiment without its faults. Each fault can be switched on by one argument, to
measure its effect: `goals="one"`, `contact="ends"`, `wall_mass=100`, `frame_skip=1`, `rebuild=True`.
"""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from cairn.core.checks import one_of
from cairn.core.goals import Within
from cairn.core.types import Array
from cairn.envs.racecar_world import PHYSICS_HZ, World
from cairn.envs.racetrack import (
    FINISH,
    LANES,
    MARGIN,
    MARKS,
    NEAR,
    ONE,
    START,
    Point,
    Pose,
    apart,
    heading_at,
    on_track,
    progress,
)

Goals = Literal["track", "marks", "finish", "one"]
Starts = Literal["line", "track", "both"]
Contact = Literal["cost", "ends", "free"]

MARK_SHARE = 0.5  # share of the marks among goals on the track
MOST_JITTER = 0.15  # m and rad off the start line; with more the car could be inside a wall
WANDER = 0.3  # rad that a start on the track differs from the track's direction at most

REST_SPEED = 0.05  # m/s below which the car is at rest

# x, y, vx, vy, heading, two steering angles, two steering rates. The walls hold the car, its wheels turn at 2.5 m/s,
# and the steering motors close a tenth of their error in each physics step: 20 rad/s from one end to the other.
HIGHEST = np.array([16, 9, 5, 5, math.pi, 1.5, 1.5, 30, 30], np.float32)
LOWEST = np.array([-1, -1, -5, -5, -math.pi, -1.5, -1.5, -30, -30], np.float32)


class RaceCar(gym.Env[Any, Any]):
    """Steer in [-1, 1] (positive turns right) and throttle in [0, 1]; one action per `frame_skip` steps at 100 Hz.

    observation: x, y, vx, vy, heading, two steering angles, two steering rates; achieved_goal and desired_goal: x, y.
    Reward: -1 per action, and 0 within 1 m of the goal, which ends the episode; minus `wall_cost` for an action during
    which
    a wall was touched. A touch is a contact point of PyBullet, which begins 2 cm before the surfaces meet.
    `is_success`: the
    goal is reached and no wall was touched in this episode.

    goals: "track" draws points of the track and, half of the time, one of the marks; "marks" draws one of the four;
    "finish"
        and "one" are fixed. Goals are more than 1 m from the start.
    starts: "line" is the start of the race; "track" any point of the track, at rest, roughly in its direction; "both"
    is
        either with equal probability. Drawn goals are ahead of the start.
    jitter: largest offset of a start on the line, in metres and radians; 0 makes all such starts equal.
    margin: distance to a wall, in metres, within which `wall_cost` is charged; 0 means a touch. The fastest line is as
    close
        to walls as it may be, so small errors of a policy touch them. A margin leaves room for such errors.
    contact: "cost" charges `wall_cost`; "ends" ends the episode; "free" does neither. There is no reverse gear: a car
    that
        stands with its front against a wall stays there.
    patience: number of actions at rest against a wall after which the episode is truncated; 0: never. A truncation is
        bootstrapped, so it is no better than staying.
    wall_mass: 0 makes walls immovable; walls with a mass can be pushed.
    rebuild: make the world anew at each reset instead of restoring it; slower, with the same result bit by bit.
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
        self.stood = 0  # actions in a row at rest against a wall

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
        if not math.isfinite(steer + throttle):  # it would make all later states NaN
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
        """The whole track from above, uint8 [320, 480, 3]; None without a render_mode."""
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
        """A start and a goal, `given` or drawn, that is not reached at the start."""
        while True:
            start, goal = self._draw_start(), given or self._draw_goal()
            behind = given is None and progress(*goal) < progress(*start[:2])
            if apart(start, goal) > NEAR and not behind:  # the track is too narrow to turn round
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
        """A uniformly drawn point of the track, `MARGIN` away from the walls."""
        while True:
            x, y = self.np_random.uniform((0, 0), LANES[-1][1]).tolist()
            if on_track(x, y, MARGIN):
                return x, y
