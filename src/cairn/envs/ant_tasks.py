"""The four tasks of the HIRO paper (Nachum et al. 2018, appendix B): Ant Maze, Ant Push, Ant Fall and Ant Gather."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

import mujoco
import numpy as np
from gymnasium import spaces

from cairn.core.goals import Distance, Region
from cairn.core.types import Array
from cairn.envs.ant import GOAL, HIGH, POSE, SPEED, Ant, Maze, ant_between, ant_in

Point = tuple[float, ...]

MAZE = Maze(("#####", "#A..#", "###.#", "#...#", "#####"))  # ⊃-shaped, with y downwards
PUSH = Maze(("#####", "#.A##", "#.B.#", "##.##", "#####"), slides="xy")
FALL = Maze(("####", "#A.#", "#.B#", "#~~#", "#..#", "####"), slides="yz")
STIFF_FALL = replace(FALL, stiff=True)
WALK = Maze(("######", "#A.#.#", "#.B..#", "#....#", "######"), slides="xy")
FALLEN = 30.0  # cost of a fall on the back; staying away from a far target for ever costs less
ON_BACK = 0.5  # x² + y² of the torso's quaternion, from where on its axis points downwards
LEGS = 20  # targets between two resets of the world
BEHIND = 12.0  # metres along y: the block or the chasm lies between the start and targets beyond
NEAR = 5.0  # metres within which a target is reached

ARENA = 10.0  # metres: apples and bombs lie within ±10 m, walls begin half a metre further out
WALL, WALL_HIGH = 1.0, 1.0  # thickness and height of the walls, in metres
APPLES = BOMBS = 8
CATCH = 1.0  # metres within which an apple or a bomb is collected
BINS, SIGHT = 10, 6.0  # sectors of the full circle, and their range in metres
STANDING = (0.2, 1.0)  # height of the torso of an ant that has not fallen, in metres
GREEN, RED = (0.2, 0.75, 0.2, 1.0), (0.85, 0.2, 0.15, 1.0)


def on_back(qpos: Array) -> Array:
    """[...] bool: whether the axis of the torso points downwards, for positions [..., nq]."""
    out: Array = np.square(qpos[..., 4:6]).sum(-1) > ON_BACK
    return out


class AntNavigation(Ant):
    """Walk to a target. The reward is minus the distance to it; only the time limit ends an episode.

    observation: qpos [15] beginning with x, y, z, qvel [14], with `sees_block` the middle of the block [3], and steps /
    1000
    achieved_goal, desired_goal: x, y, and z if the target has one
    `is_success`: the target is within 5 m now; the paper evaluates this at the last step of an episode
    `fallen`: the ant lies on its back
    """

    goal_rule = Distance()

    def __init__(
        self, maze: Maze, drawn: tuple[Point, Point], goal: Point | None, sees_block: bool, render_mode: str | None
    ) -> None:
        """`goal` is the target of every episode; None draws each from the box `drawn`, walls included, as the paper."""
        super().__init__(ant_in(maze), maze.inside, render_mode)
        axes = len(drawn[0])
        if goal is not None and (np.shape(goal) != (axes,) or not np.isfinite(goal).all()):
            raise ValueError(f"goal is {goal!r}; it is {axes} coordinates, or None for the task's own")
        self.maze, self.drawn, self.given, self.sees_block = maze, drawn, goal, sees_block
        self.reachable: Region = maze.walkable
        self.goal: Array = np.zeros(axes, np.float32)
        place = spaces.Box(-np.inf, np.inf, (axes,), np.float32)
        state = spaces.Box(-np.inf, np.inf, (POSE + SPEED + 3 * sees_block + 1,), np.float32)
        self.observation_space = spaces.Dict(observation=state, achieved_goal=place, desired_goal=place)

    @property
    def block(self) -> Array:
        """The middle of the block [3]."""
        return self.block_at(self.data.qpos)

    def block_at(self, qpos: Array) -> Array:
        """The middle of the block [..., 3] for positions [..., nq]."""
        middle = np.tile(self.model.body("block").pos, (*qpos.shape[:-1], 1))
        middle[..., ["xyz".index(axis) for axis in self.maze.slides]] += qpos[..., POSE:]
        return middle

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        super().reset(seed=seed)
        self._begin()
        goal = self.np_random.uniform(*self.drawn) if self.given is None else self.given
        self.goal = np.array(goal, np.float32)
        return self._obs(), {}

    def step(self, action: Array) -> tuple[dict[str, Array], float, bool, bool, dict[str, Any]]:
        self._act(action)
        obs = self._obs()
        reward, success = self.judged(obs["achieved_goal"], obs["desired_goal"])
        fallen = bool(on_back(self.data.qpos))
        return obs, float(reward), False, False, {"is_success": bool(success), "fallen": fallen}

    def judged(self, achieved: Array, desired: Array) -> tuple[Array, Array]:
        """Rewards and successes [...] for goals [..., 2 or 3]."""
        reward = self.goal_rule.reward(achieved, desired)
        return reward, -reward < NEAR

    def compute_reward(self, achieved: Array, desired: Array, info: Any) -> Array:
        """The reward for goals [..., 2 or 3], under the name that Gymnasium-Robotics uses."""
        reward: Array = self.goal_rule.reward(achieved, desired)
        return reward

    def _obs(self) -> dict[str, Array]:
        state = self._sensed(self.block) if self.sees_block else self._sensed()
        return {
            "observation": state,
            "achieved_goal": state[: len(self.goal)].copy(),
            "desired_goal": self.goal.copy(),
        }

    def _marks(self) -> list[tuple[tuple[float, float, float], float, tuple[float, ...]]]:
        x, y = self.goal[:2].tolist()
        return [((x, y, self.maze.ground + HIGH + 1), 0.8, GOAL)]  # above the walls, because a target may be in one


class AntMaze(AntNavigation):
    """A ⊃-shaped corridor. Targets are drawn from (-4..20)²; the paper evaluates at `target`."""

    target = (0.0, 16.0)

    def __init__(self, goal: Point | None = None, render_mode: str | None = None) -> None:
        super().__init__(MAZE, ((-4, -4), (20, 20)), goal, False, render_mode)

    def place(self, point: Array) -> None:
        """Put the ant at x and y, with the pose it has: an ideal low level for `cairn doctor`."""
        self.data.qpos[:2], self.data.qvel[:2] = point[:2], 0.0


class AntPush(AntNavigation):
    """Push a block aside to the right: the way to `target` leads through where it stands.

    A block that is pushed forward blocks the way for good. In the paper the target is always the same. With
    `many_goals`
    and no `goal` it is drawn from (-16..16) × (-4..20), as in later configurations of the paper's code. The paper's ant
    does
    not observe the block; with `sees_block` it does.
    """

    target = (0.0, 19.0)

    def __init__(
        self,
        goal: Point | None = None,
        *,
        many_goals: bool = False,
        sees_block: bool = False,
        render_mode: str | None = None,
    ) -> None:
        given = self.target if goal is None and not many_goals else goal
        super().__init__(PUSH, ((-16, -4), (16, 20)), given, sees_block, render_mode)

    def waypoints(self, goal: Array) -> tuple[Point, ...]:
        """The way round the block and from its left side to the right, for a goal behind it."""
        return ((-8.0, 0.0), (-8.0, 8.0), (2.0, 8.0)) if goal[1] > BEHIND else ()


class AntFall(AntNavigation):
    """Push a block into a chasm and cross on it to `target`. Distances include the height.

    With `many_goals` and no `goal`, targets are drawn from (-4..12) × (-4..28) × (0..5). `sees_block` is as in AntPush.
    The block drops between y = 15.96 and 16.04 of its middle. An ant that pushes on presses it beyond, as in the paper.
    """

    target = (0.0, 27.0, 4.5)
    world: ClassVar[Maze] = FALL

    def __init__(
        self,
        goal: Point | None = None,
        *,
        many_goals: bool = False,
        sees_block: bool = False,
        render_mode: str | None = None,
    ) -> None:
        given = self.target if goal is None and not many_goals else goal
        super().__init__(self.world, ((-4, -4, 0), (12, 28, 5)), given, sees_block, render_mode)

    def waypoints(self, goal: Array) -> tuple[Point, ...]:
        """Straight on behind the block, for a goal beyond the chasm."""
        return ((8.0, 0.0), (8.0, 21.0)) if goal[1] > BEHIND else ()


class AntFallStiff(AntFall):
    """AntFall with a block that stops over the chasm however hard the ant pushes: its limits do not give way."""

    world: ClassVar[Maze] = STIFF_FALL


class AntWalk(Ant):
    """Walk to a near target, from anywhere in a world with walls and a block: the task of a hierarchy's low level.

    observation: the ant's own state without its place, which is the quaternion, joints [12] and qvel [14]
    achieved_goal, desired_goal: x, y. Networks see their difference only
    Targets are drawn up to `far` metres away. A share `anywhere` of them may lie in or behind a wall, as those of a
    high level that is still learning do. A reset without a seed goes on where the ant is, as it moves, with another
    target; every `LEGS` targets, and after a fall, the world is reset. The reward is minus a tenth of the distance. An
    ant that falls on its back cannot get up: the episode ends, and costs `FALLEN`. `is_success`: the target is within a
    metre.
    """

    goal_rule = Distance(0.1, cost=True)
    position_seen = False

    def __init__(self, far: float = 5.0, anywhere: float = 0.5, render_mode: str | None = None) -> None:
        super().__init__(ant_in(WALK), WALK.inside, render_mode)
        if not (math.isfinite(far) and far > 0):
            raise ValueError(f"far is {far!r}; it is a distance in metres, greater than 0")
        if not 0 <= anywhere <= 1:
            raise ValueError(f"anywhere is {anywhere!r}; it is a share between 0 and 1")
        self.far, self.anywhere, self.region = far, anywhere, WALK.walkable
        self.goal: Array = np.zeros(2, np.float32)
        self.legs = 0  # targets since the world was reset
        place = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        state = spaces.Box(-np.inf, np.inf, (POSE - 3 + SPEED,), np.float32)
        self.observation_space = spaces.Dict(observation=state, achieved_goal=place, desired_goal=place)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        super().reset(seed=seed)
        self.legs += 1
        if seed is not None or self.legs >= LEGS or on_back(self.data.qpos):
            self._start()
        distance, turn, free = self.np_random.uniform((0, -math.pi, 0), (self.far, math.pi, 1))
        there = self.data.qpos[:2] + distance * np.array((math.cos(turn), math.sin(turn)))
        self.goal = np.array(self.region.nearest(there) if free >= self.anywhere else there, np.float32)
        return self._obs(), {}

    def _start(self) -> None:
        """Reset the world, with the ant anywhere, turned anywhere."""
        self._begin()
        self.legs = 0
        cells = sorted(WALK.cells("A."))
        cell = cells[self.np_random.integers(len(cells))]
        x0, y0, x1, y1 = WALK.box(cell, cell)
        self.data.qpos[:2] = self.np_random.uniform((x0 + 1, y0 + 1), (x1 - 1, y1 - 1))  # no leg begins in a wall
        turn = self.np_random.uniform(-math.pi, math.pi) / 2
        self.data.qpos[3], self.data.qpos[6] = math.cos(turn), math.sin(turn)
        mujoco.mj_normalizeQuat(self.model, self.data.qpos)

    def step(self, action: Array) -> tuple[dict[str, Array], float, bool, bool, dict[str, Any]]:
        self._act(action)
        (reward,), (success,), (fallen,) = self.judged(self.data.qpos[None], self.goal[None])
        return self._obs(), float(reward), bool(fallen), False, {"is_success": bool(success), "fallen": bool(fallen)}

    def judged(self, qpos: Array, goal: Array) -> tuple[Array, Array, Array]:
        """Rewards, successes and falls of N ants."""
        reward = self.goal_rule.reward(qpos[:, :2].astype(np.float32), goal)
        fallen = on_back(qpos)
        return reward - FALLEN * fallen, reward > -self.goal_rule.scale, fallen

    def _obs(self) -> dict[str, Array]:
        qpos, qvel = self.data.qpos, self.data.qvel
        return {
            "observation": np.concatenate((qpos[3:POSE], qvel[:SPEED]), dtype=np.float32),
            "achieved_goal": qpos[:2].astype(np.float32),
            "desired_goal": self.goal.copy(),
        }

    def _marks(self) -> list[tuple[tuple[float, float, float], float, tuple[float, ...]]]:
        x, y = self.goal.tolist()
        return [((x, y, HIGH + 1), 0.4, GOAL)]


class AntGather(Ant):
    """Collect apples (+1), not bombs (-1): 8 of each, at even coordinates of a walled square (Duan et al. 2016).

    Observation: qpos [15], qvel [14], apples [10], bombs [10], steps / 1000. Apples and bombs are readings in ten
    sectors of
    the full circle that begins behind the ant: 1 at the ant, 0 from 6 m on, the nearest one's if there are several. An
    episode ends when nothing is left and, as in the paper, when the ant falls, unless `falling_ends` is False.
    """

    reachable = Region((((-ARENA, -ARENA), (ARENA, ARENA)),))

    def __init__(self, falling_ends: bool = True, render_mode: str | None = None) -> None:
        near, far = ARENA + 0.5, ARENA + 0.5 + WALL
        walls = (
            (-far, -far, far, -near),
            (-far, near, far, far),
            (-far, -near, -near, near),
            (near, -near, far, near),
        )
        super().__init__(ant_between(walls, WALL_HIGH), (-near, -near, near, near), render_mode)
        self.falling_ends = falling_ends
        self.observation_space = spaces.Box(-np.inf, np.inf, (POSE + SPEED + 2 * BINS + 1,), np.float32)
        self.places = np.array([(x, y) for x in range(-10, 10, 2) for y in range(-10, 10, 2) if (x, y) != (0, 0)])
        self.things: Array = self.places[: APPLES + BOMBS]  # [apples and bombs, 2], apples first
        self.left: Array = np.ones(APPLES + BOMBS, bool)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self._begin()
        self.things = self.np_random.choice(self.places, APPLES + BOMBS, replace=False).astype(float)
        self.left = np.ones(APPLES + BOMBS, bool)
        return self._sensed(*self._readings()), {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self._act(action)
        (reward,), (fallen,), (ended,) = self.judged(self.data.qpos[None], self.things[None], self.left[None])
        return self._sensed(*self._readings()), float(reward), bool(ended), False, {"fallen": bool(fallen)}

    def judged(self, qpos: Array, things: Array, left: Array) -> tuple[Array, Array, Array]:
        """Collect what N ants reach: rewards, who has fallen, and whose episode ends [N]; changes `left` [N, 16]."""
        away = things - qpos[:, None, :2]
        caught = left & (np.einsum("nij,nij->ni", away, away) < CATCH**2)
        left &= ~caught
        reward = caught[:, :APPLES].sum(1) - caught[:, APPLES:].sum(1).astype(float)
        fallen = ~((STANDING[0] <= qpos[:, 2]) & (qpos[:, 2] <= STANDING[1]))
        return reward, fallen, (fallen & self.falling_ends) | ~left.any(1)

    def _readings(self) -> Array:
        """Readings of apples and bombs [2, 10]."""
        return readings(self.data.qpos[None], self.things[None], self.left[None]).reshape(2, BINS)

    def _marks(self) -> list[tuple[tuple[float, float, float], float, tuple[float, ...]]]:
        colours = [GREEN] * APPLES + [RED] * BOMBS
        return [
            ((float(x), float(y), 0.4), 0.4, colour)
            for (x, y), colour, left in zip(self.things, colours, self.left, strict=True)
            if left
        ]


def readings(qpos: Array, things: Array, left: Array) -> Array:
    """What N ants see of things [N, 16, 2], of which `left` [N, 16] are there: apples and bombs [N, 20]."""
    turned = [math.atan2(2 * (w * k + i * j), 1 - 2 * (j * j + k * k)) for w, i, j, k in qpos[:, 3:7].tolist()]
    away = things - qpos[:, None, :2]
    near = 1 - np.hypot(away[..., 0], away[..., 1]) / SIGHT
    turn = (np.arctan2(away[..., 1], away[..., 0]) - np.array(turned)[:, None] + math.pi) % (2 * math.pi)
    bins = np.minimum(turn * (BINS / (2 * math.pi)), BINS - 1).astype(int)
    bins[:, APPLES:] += BINS
    out = np.zeros((len(qpos), 2 * BINS))
    seen = left & (near > 0)
    np.maximum.at(out, (seen.nonzero()[0], bins[seen]), near[seen])
    return out
