"""The ant of the HIRO paper (Nachum et al. 2018, appendix B) in a maze of blocks, simulated by MuJoCo.

The robot is Gymnasium's with the paper's numbers: torques of ±30 instead of ±150, physics steps of 0.02 s instead of
0.01 s, softer contacts. The map of a maze defines its world.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
from gymnasium import spaces

from cairn.core.checks import one_of
from cairn.core.goals import Region
from cairn.core.types import Array
from cairn.envs import rendering

TORQUE = 30.0  # N·m at each of the 8 joints
TIMESTEP, FRAME_SKIP = 0.02, 5  # seconds; physics steps per action
POSE, SPEED = 15, 14  # the ant's entries of qpos and qvel: x, y, z and quaternion, then joints
START_HEIGHT = 0.75
START_NOISE = 0.1  # half-width for the pose, standard deviation for the speed
CLOCK = 0.001  # time in an observation, as in the paper: steps / 1000

SIDE, HIGH = 8.0, 4.0  # side and height of a block, in metres
MARGIN = 0.5  # distance of the ant's middle from walls, in metres
STIFF = "0.9999 0.9999 0.001"  # impedance of a limit that does not give way; MuJoCo allows no more
CONTACT = {"o_margin": "0.01", "o_solref": "0.02 1", "o_friction": "1 1 0.5 0.5 0.5"}  # the same for every contact
SOFT, HARD = "0.8 0.8 0.01 0.5 2", "0.995 0.995 0.01 0.5 2"  # impedance: without and with a block to push

PIXELS = 480  # side of a picture
LENS = 4  # field of view in degrees, so narrow that walls hide nothing
FLOOR, WALL, STONE, BLOCK = "0.6 0.66 0.6 1", "0.3 0.3 0.34 1", "0.7 0.67 0.6 1", "0.75 0.25 0.2 1"
GOAL, SUBGOAL = (0.95, 0.7, 0.1, 0.9), (0.1, 0.5, 1.0, 0.8)
SUBGOAL_SIZE, SUBGOAL_HEIGHT = 0.4, 6.0

PARTS = ("compiler", "option", "worldbody", "worldbody/geom", "worldbody/body", "worldbody/light")  # of Gymnasium's

Cell = tuple[int, int]  # row, column
Box = tuple[float, float, float, float]  # x0, y0, x1, y1
Mark = tuple[tuple[float, float, float], float, tuple[float, ...]]  # middle, radius, colour


@dataclass(frozen=True)
class Maze:
    """A map of blocks: # wall, A ant, . floor, B block to push, ~ chasm. Rows run along y, columns along x.

    The ant starts at (0, 0). `slides` are the axes along which the block can move. If there is a chasm, everything else
    stands on a platform as high as a block, and the chasm is as deep. The limits of a block that can fall give way to
    a force, about 8 cm to 1 N, because MuJoCo scales them with its mass of 1 g; not with `stiff`.
    """

    rows: tuple[str, ...]
    slides: str = ""
    stiff: bool = False

    def cells(self, kinds: str) -> frozenset[Cell]:
        """The cells of these kinds."""
        return frozenset((i, j) for i, row in enumerate(self.rows) for j, kind in enumerate(row) if kind in kinds)

    def box(self, first: Cell, last: Cell) -> Box:
        """The ground that a rectangle of cells covers, in metres."""
        ((row, column),) = self.cells("A")
        x, y = (first[1] - column - 0.5) * SIDE, (first[0] - row - 0.5) * SIDE
        return x, y, x + (last[1] - first[1] + 1) * SIDE, y + (last[0] - first[0] + 1) * SIDE

    @property
    def ground(self) -> float:
        """The height of the floor in metres."""
        return HIGH if self.cells("~") else 0.0

    @property
    def inside(self) -> Box:
        """The map without the walls along its edge, in metres."""
        return self.box((1, 1), (len(self.rows) - 2, len(self.rows[0]) - 2))

    @property
    def walkable(self) -> Region:
        """Where the middle of the ant can be: everywhere but in a wall, ignoring the block."""
        boxes = (self.box(*pair) for pair in rectangles(self.cells("A.B~")))
        return Region(
            tuple(((x0 + MARGIN, y0 + MARGIN), (x1 - MARGIN, y1 - MARGIN)) for x0, y0, x1, y1 in sorted(boxes))
        )


def rectangles(cells: Set[Cell]) -> list[tuple[Cell, Cell]]:
    """All largest rectangles (first, last) of these cells, each in no larger one."""
    full = [
        (first, last)
        for first in cells
        for last in cells
        if first[0] <= last[0] and first[1] <= last[1] and cells >= set(_within(first, last))
    ]
    return [
        (first, last)
        for first, last in full
        if not any(a != (first, last) and {first, last} <= set(_within(*a)) for a in full)
    ]


def tiles(cells: Set[Cell]) -> list[tuple[Cell, Cell]]:
    """A small set of disjoint rectangles that covers the cells."""
    left, out = set(cells), []
    while left:
        largest = max(sorted(rectangles(left)), key=lambda pair: len(list(_within(*pair))))
        left -= set(_within(*largest))
        out.append(largest)
    return out


def _within(first: Cell, last: Cell) -> Iterator[Cell]:
    return ((i, j) for i in range(first[0], last[0] + 1) for j in range(first[1], last[1] + 1))


def ant_in(maze: Maze) -> Any:
    """The model of a maze with the ant. The block's coordinates follow the ant's, in the order of `slides`."""
    root, world = _robot(HARD if maze.slides else SOFT, START_HEIGHT + maze.ground)
    if maze.ground:
        for pair in tiles(maze.cells("#A.B")):
            _solid(world, maze.box(*pair), 0.0, maze.ground, STONE)
    for pair in tiles(maze.cells("#")):
        _solid(world, maze.box(*pair), maze.ground, HIGH, WALL)
    for cell in maze.cells("B"):
        _block(world, maze, maze.box(cell, cell))
    return _compiled(root)


def ant_between(walls: tuple[Box, ...], height: float) -> Any:
    """The model of an ant on a floor with walls of `height` metres."""
    root, world = _robot(SOFT, START_HEIGHT)
    for wall in walls:
        _solid(world, wall, 0.0, height, WALL)
    return _compiled(root)


def _robot(impedance: str, height: float) -> tuple[ET.Element, ET.Element]:
    """Gymnasium's ant with the paper's numbers, and the element of its world."""
    root = ET.parse(Path(gym.__file__).parent / "envs/mujoco/assets/ant.xml").getroot()
    compiler, option, world, floor, torso, light = (_part(root, path) for path in PARTS)
    compiler.set("fusestatic", "true")  # the same robot with 4 bodies fewer to compute
    option.attrib.update(CONTACT, o_solimp=impedance, timestep=str(TIMESTEP), integrator="RK4")
    ET.SubElement(option, "flag", override="enable")  # otherwise newer MuJoCo adds up the margins of both surfaces
    torso.set("pos", f"0 0 {height}")
    for motor in root.iter("motor"):
        motor.attrib.update(gear="1", ctrlrange=f"{-TORQUE} {TORQUE}")
    del floor.attrib["material"]
    floor.set("rgba", FLOOR)
    light.set("diffuse", "0.3 0.3 0.3")
    ET.SubElement(ET.SubElement(root, "visual"), "global", fovy=str(LENS))
    return root, world


def _part(root: ET.Element, path: str) -> ET.Element:
    part = root.find(path)
    if part is None:
        raise RuntimeError(f"the ant of this Gymnasium has no {path}; install one that is known to work, as 1.4")
    return part


def _solid(parent: ET.Element, box: Box, bottom: float, height: float, colour: str, mass: str | None = None) -> None:
    """Add a box that collides with the ant; without a mass it never moves."""
    x0, y0, x1, y1 = box
    pos = f"{(x0 + x1) / 2} {(y0 + y1) / 2} {bottom + height / 2}"
    size = f"{(x1 - x0) / 2} {(y1 - y0) / 2} {height / 2}"
    geom = ET.SubElement(parent, "geom", type="box", pos=pos, size=size, rgba=colour, conaffinity="1")
    if mass is not None:
        geom.set("mass", mass)


def _block(world: ET.Element, maze: Maze, box: Box) -> None:
    """Add a light block that slides without turning. One that can fall is slightly smaller than its hole."""
    falls = "z" in maze.slides
    x0, y0, x1, y1 = box
    middle = f"{(x0 + x1) / 2} {(y0 + y1) / 2} {maze.ground + HIGH / 2}"
    body = ET.SubElement(world, "body", name="block", pos=middle)
    half = SIDE / 2 * (0.99 if falls else 1.0)
    _solid(body, (-half, -half, half, half), -HIGH / 2, HIGH, BLOCK, mass="0.001" if falls else "0.0002")
    for axis in maze.slides:
        joint = ET.SubElement(body, "joint", type="slide", margin="0.01", armature="0", damping="0")
        joint.set("axis", " ".join("1" if axis == other else "0" for other in "xyz"))
        joint.set("limited", "true" if falls else "false")
        joint.set("range", f"{-maze.ground} 0" if axis == "z" else f"{-SIDE} {SIDE}")
        if maze.stiff:
            joint.set("solimplimit", STIFF)


def _compiled(root: ET.Element) -> Any:
    return mujoco.MjModel.from_xml_string(ET.tostring(root, "unicode"))


class Ant(gym.Env[Any, Any]):
    """An ant in a world. Actions are 8 torques in [-30, 30] N·m for 0.1 s. Tasks add observations and rewards."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": round(1 / (TIMESTEP * FRAME_SKIP))}

    def __init__(self, model: Any, view: Box, render_mode: str | None) -> None:
        """`view` is the ground that a picture shows, with a margin of a metre."""
        one_of("render_mode", render_mode, (None, "rgb_array"))
        self.model, self.data = model, mujoco.MjData(model)
        self.view, self.render_mode = view, render_mode
        self.action_space = spaces.Box(-TORQUE, TORQUE, (model.nu,), np.float32)
        self.steps = 0
        self._viewer: Any = None
        self._subgoal: tuple[Mark, ...] = ()

    def mark(self, point: Array) -> None:
        """Show a subgoal, at least x and y, in the next pictures."""
        x, y = point[:2].tolist()
        self._subgoal = (((x, y, SUBGOAL_HEIGHT), SUBGOAL_SIZE, SUBGOAL),)

    def close(self) -> None:
        if self._viewer is not None:
            self._viewer.close()
            self._viewer = None

    def render(self) -> Array | None:
        """The world from above with y upwards, uint8 [480, 480, 3]; None without a render_mode."""
        if not self.render_mode:
            return None
        if self._viewer is None:
            self._viewer = _viewer(self.model, self.data, self.view)
        mujoco.mj_kinematics(self.model, self.data)  # a step updates positions but not the poses of bodies
        mujoco.mj_camlight(self.model, self.data)
        for place, radius, colour in (*self._marks(), *self._subgoal):
            ball = mujoco.mjtGeom.mjGEOM_SPHERE
            self._viewer.add_marker(type=ball, pos=np.array(place), size=np.full(3, radius), rgba=np.array(colour))
        picture: Array = self._viewer.render("rgb_array")
        return picture.copy()

    def _marks(self) -> list[Mark]:
        """Balls in the picture without collisions: centre, radius, colour."""
        return []

    def _begin(self) -> None:
        """Reset the world, with the ant's pose and speed slightly changed at random."""
        data, chance = self.data, self.np_random
        mujoco.mj_resetData(self.model, data)
        self._subgoal = ()
        data.qpos[:POSE] += chance.uniform(-START_NOISE, START_NOISE, POSE)
        data.qvel[:SPEED] += START_NOISE * chance.standard_normal(SPEED)
        mujoco.mj_normalizeQuat(self.model, data.qpos)
        self.steps = 0

    def _act(self, action: Array) -> None:
        must_be_finite(action)
        self.data.ctrl[:] = action  # MuJoCo clips it
        mujoco.mj_step(self.model, self.data, FRAME_SKIP)
        self.steps += 1

    def _sensed(self, *more: Any) -> Array:
        """The observation: qpos, qvel, the task's own parts, and the time."""
        data = self.data
        return sensed(data.qpos, data.qvel, *more, np.array(self.steps))


def must_be_finite(action: Array) -> None:
    """Raise ValueError for an action that would make all later states NaN."""
    if not np.isfinite(action).all():
        raise ValueError(f"the action {action} is not finite; look at what the policy computed")


def sensed(qpos: Array, qvel: Array, *more: Array) -> Array:
    """Observations [..., width] of ants: qpos, qvel, the task's own parts [..., k], and the steps [...] so far."""
    *parts, steps = more
    return np.concatenate(
        (qpos[..., :POSE], qvel[..., :SPEED], *parts, steps[..., None] * CLOCK), axis=-1, dtype=np.float32
    )


def _viewer(model: Any, data: Any, view: Box) -> Any:
    """A camera high above the middle of the ground."""
    rendering.choose()
    from gymnasium.envs.mujoco import mujoco_rendering  # imported late: it needs OpenGL

    offscreen: Any = mujoco_rendering.OffScreenViewer
    viewer = offscreen(model, data, PIXELS, PIXELS)
    x0, y0, x1, y1 = view
    viewer.cam.lookat[:] = (x0 + x1) / 2, (y0 + y1) / 2, 0.0
    viewer.cam.distance = (max(x1 - x0, y1 - y0) / 2 + 1) / math.tan(math.radians(LENS / 2))
    viewer.cam.azimuth, viewer.cam.elevation = 90, -90
    return viewer
