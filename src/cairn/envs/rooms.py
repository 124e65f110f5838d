"""Four rooms in a row with a key, a locked door and a goal: a sparse reward that needs subgoals."""

from __future__ import annotations

from itertools import product
from typing import Any, Literal, get_args

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from cairn.core.checks import one_of
from cairn.core.goals import Region, Within
from cairn.core.types import Array

Keys = Literal["one", "anywhere"]
Cell = tuple[int, int]  # x to the right, y down

WIDTH, HEIGHT = 25, 10  # cells of the map, outer walls included
ROOM = (5, 8)
ROOMS = tuple(((x, 1), (x + ROOM[0] - 1, ROOM[1])) for x in (1, 7, 13, 19))  # first and last cell
DOORWAYS: tuple[Cell, ...] = ((6, 3), (12, 6))
DOOR: Cell = (18, 3)
KEY: Cell = (2, 6)
GOAL: Cell = (22, 6)
REACHABLE = Region((*ROOMS, *((cell, cell) for cell in (*DOORWAYS, DOOR))))
MOVES = ((1, 0), (0, 1), (-1, 0), (0, -1))  # right, down, left, up

PIXELS = 24  # side of a cell
WALL, GROUND, AGENT = (58, 58, 66), (226, 221, 210), (200, 50, 40)
SUBGOAL = (40, 120, 220)
KEY_COLOUR, DOOR_COLOUR, GOAL_COLOUR = (224, 168, 32), (122, 78, 44), (70, 150, 80)


def cells(box: tuple[tuple[float, ...], tuple[float, ...]]) -> frozenset[Cell]:
    """All cells of a box."""
    (x0, y0), (x1, y1) = box
    return frozenset(product(range(int(x0), int(x1) + 1), range(int(y0), int(y1) + 1)))


FLOOR = frozenset[Cell]().union(*map(cells, REACHABLE.boxes))


class KeyDoorRooms(gym.Env[Any, Any]):
    """Fetch the key, walk back, through the door and to the goal: 40 to 49 moves. Reward 1 at the goal, else 0.

        #########################
        #.....#sssss#.....#.....#
        #.....#sssss#.....#.....#    s  a possible start
        #......sssss#.....D.....#    K  the key, which is taken by stepping on it
        #.....#sssss#.....#.....#    D  the door, which opens for an agent with the key
        #.....#sssss#.....#.....#    G  the goal, which ends the episode
        #.K...#sssss......#...G.#
        #.....#sssss#.....#.....#
        #.....#sssss#.....#.....#
        #########################

    observation: x, y, has_key, door_open, x and y of the key, and for each action whether it would move the agent;
    achieved_goal: x, y; desired_goal: x and y of the goal; in cells from the upper left. Actions: right, down, left,
    up; a
    move into a wall does nothing. Within 400 steps, uniform actions reach the goal in 4 of 10,000 episodes, and walking
    to
    a random cell within ±5 every ten steps in 345. Nothing lies in a corner or along a wall, where a policy with a
    constant
    direction would pass.

    keys: "one" is where the map shows it; "anywhere" draws a cell of the first room.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    reachable = REACHABLE
    goal_rule = Within(0.5, ends=True, base=0.0)

    def __init__(self, *, keys: Keys = "one", render_mode: str | None = None) -> None:
        one_of("keys", keys, get_args(Keys))
        one_of("render_mode", render_mode, (None, "rgb_array"))
        self.keys, self.render_mode = keys, render_mode
        far = [WIDTH - 1, HEIGHT - 1]
        place = spaces.Box(np.zeros(2, np.float32), np.array(far, np.float32))
        state = spaces.Box(np.zeros(10, np.float32), np.array([*far, 1, 1, *far, 1, 1, 1, 1], np.float32))
        self.observation_space = spaces.Dict(observation=state, achieved_goal=place, desired_goal=place)
        self.action_space = spaces.Discrete(len(MOVES))
        self.cell, self.key = ROOMS[1][0], KEY
        self.has_key = self.door_open = False
        self.subgoal: Array | None = None

    def mark(self, point: Array) -> None:
        """Show a subgoal, at least x and y, in the next pictures."""
        self.subgoal = point[:2]

    def waypoints(self, goal: Array) -> tuple[Cell, ...]:
        """The key and the door, which the way to the goal leads through: for `cairn doctor`."""
        return self.key, DOOR

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        super().reset(seed=seed)
        self.cell = self._draw(1)
        self.key = KEY if self.keys == "one" else self._draw(0)
        self.has_key = self.door_open = False
        self.subgoal = None
        return self._obs(), {}

    def step(self, action: int) -> tuple[dict[str, Array], float, bool, bool, dict[str, Any]]:
        cell = self._beside(action)
        if self._lets_in(cell):
            self.cell = cell
            self.door_open |= cell == DOOR
        self.has_key |= self.cell == self.key
        reached = self.cell == GOAL
        return self._obs(), float(reached), reached, False, {"is_success": reached}

    def render(self) -> Array | None:
        """The map from above, uint8 [240, 600, 3]; None without a render_mode."""
        if self.render_mode is None:
            return None
        picture = np.full((HEIGHT * PIXELS, WIDTH * PIXELS, 3), WALL, np.uint8)
        for cell in FLOOR:
            _fill(picture, cell, GROUND)
        _fill(picture, GOAL, GOAL_COLOUR)
        if not self.door_open:
            _fill(picture, DOOR, DOOR_COLOUR)
        if not self.has_key:
            _fill(picture, self.key, KEY_COLOUR, margin=7)
        if self.subgoal is not None:
            x, y = self.subgoal.round().astype(int).tolist()
            _fill(picture, (x, y), SUBGOAL, margin=6)
        _fill(picture, self.cell, AGENT, margin=3)
        if self.has_key:
            _fill(picture, self.cell, KEY_COLOUR, margin=9)
        return picture

    def _obs(self) -> dict[str, Array]:
        return {
            "observation": np.array([*self.cell, self.has_key, self.door_open, *self.key, *self._free()], np.float32),
            "achieved_goal": np.array(self.cell, np.float32),
            "desired_goal": np.array(GOAL, np.float32),
        }

    def _beside(self, action: int) -> Cell:
        (x, y), (dx, dy) = self.cell, MOVES[action]
        return x + dx, y + dy

    def _lets_in(self, cell: Cell) -> bool:
        return cell in FLOOR and (cell != DOOR or self.has_key or self.door_open)

    def _free(self) -> list[bool]:
        return [self._lets_in(self._beside(action)) for action in range(len(MOVES))]

    def _draw(self, room: int) -> Cell:
        """A uniformly drawn cell of a room."""
        first, last = ROOMS[room]
        x, y = self.np_random.integers(first, last, endpoint=True).tolist()
        return x, y


def _fill(picture: Array, cell: Cell, colour: tuple[int, int, int], margin: int = 0) -> None:
    """Paint a cell, except for its margin."""
    x, y = (at * PIXELS for at in cell)
    picture[y + margin : y + PIXELS - margin, x + margin : x + PIXELS - margin] = colour
