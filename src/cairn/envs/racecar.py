"""A race car on an S-shaped track between walls, simulated by PyBullet: a task whose goals are points of the track.

The task of the original experiment, repaired. Each fault is one argument away, so that its price can be measured:
`goals="one"`, `contact="ends"`, `wall_mass=100`, `frame_skip=1`, `rebuild=True`.
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

MARK_SHARE = 0.5  # of the goals drawn along the track
MOST_JITTER = 0.15  # m and rad off the start line: more, and the car may stand in a wall
WANDER = 0.3  # a start on the track heads at most this far off the track's direction

REST_SPEED = 0.05  # m/s, below which it stands

# x, y, vx, vy, heading, two steering angles, two steering rates. The walls hold the car, its wheels turn at 2.5 m/s,
# and the steering motors close a tenth of their error in each physics step: 20 rad/s from one end to the other.
HIGHEST = np.array([16, 9, 5, 5, math.pi, 1.5, 1.5, 30, 30], np.float32)
LOWEST = np.array([-1, -1, -5, -5, -math.pi, -1.5, -1.5, -30, -30], np.float32)


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
