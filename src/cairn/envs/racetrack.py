"""The track of the race car: walls, lanes, start and marks, and positions along it."""

from __future__ import annotations

import math

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
LANES = (  # rectangles between the walls, (x0, y0) to (x1, y1), in driving order; they overlap in turns
    ((0, 0), (2, 4)),
    ((0, 2), (10, 4)),
    ((8, 2), (10, 8)),
    ((8, 6), (15, 8)),
)
HEADINGS = (math.pi / 2, 0.0, math.pi / 2, 0.0)  # direction of each lane
START: Pose = (0.5, 0.5, math.pi / 2)
FINISH: Point = (14.5, 7.5)
MARKS: tuple[Point, ...] = ((3.0, 3.0), (9.0, 5.0), (11.0, 7.0), FINISH)
ONE: Point = (9.0, 5.0)  # halfway; the original experiment's fixed seed drew (3, 3), which is nearer

THICK, HIGH = 0.3, 0.5  # metres, of a wall
NEAR = 1.0  # metres within which a goal is reached
MARGIN = 0.5  # metres between walls and drawn points


def on_track(x: float, y: float, margin: float = 0.0) -> bool:
    """Whether a point lies between the walls, at least `margin` metres away from them."""
    off = THICK / 2 + margin
    return any(x0 + off <= x <= x1 - off and y0 + off <= y <= y1 - off for (x0, y0), (x1, y1) in LANES)


def heading_at(x: float, y: float) -> float:
    """The direction of the track at a point, in radians; the mean of both lanes where they overlap."""
    here = [
        heading
        for ((x0, y0), (x1, y1)), heading in zip(LANES, HEADINGS, strict=True)
        if x0 <= x <= x1 and y0 <= y <= y1
    ]
    return sum(here) / len(here)


def progress(x: float, y: float) -> float:
    """Approximate metres along the middle of the track from its closed end to a point."""
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
