"""Tasks and package versions that are known not to work, each with its remedy."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version

_FETCH = re.compile(r"(Fetch(?:Reach|Push|Slide|PickAndPlace)(?:Dense)?)-v([0-3])$")
_ROBOTICS = re.compile(r"Fetch|Hand|Adroit|PointMaze|AntMaze|FrankaKitchen")


def known_fault(task: str) -> str | None:
    """Why a task cannot be used and what to do instead, in one sentence; None where no fault is known."""
    old = _FETCH.match(task)
    if old:
        return (
            f"{task} is broken: its reset does not restore the arm's first pose, so most goals are out of reach;"
            f" use {old[1]}-v4."
        )
    if _ROBOTICS.match(task):
        mujoco, robotics = _version("mujoco"), _version("gymnasium-robotics")
        if mujoco >= (3, 12) and robotics <= (1, 4, 2):
            have = ".".join(map(str, mujoco))
            return (
                f"{task} cannot be made: gymnasium-robotics 1.4.2 fails with mujoco {have} (its joint-type check);"
                " pip install 'mujoco<3.12'."
            )
    return None


def _version(package: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in re.findall(r"\d+", version(package))[:3])
    except PackageNotFoundError:
        return (0,)
