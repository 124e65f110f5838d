"""What the PyBullet tasks share: a separate simulation each, and pictures of it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pybullet

from cairn.core.types import Array

Vector = tuple[float, float, float]


class Client:
    """PyBullet's functions, bound to a client of its own, so that several worlds can exist in one process."""

    def __init__(self) -> None:
        self.id = pybullet.connect(pybullet.DIRECT)

    def __getattr__(self, name: str) -> Any:
        bound = partial(getattr(pybullet, name), physicsClientId=self.id)
        setattr(self, name, bound)  # cache it as an attribute
        return bound


def picture(
    bullet: Any, width: int, height: int, *, eye: Vector, at: Vector, up: Vector = (0, 0, 1), fov: float, **more: Any
) -> Array:
    """A picture uint8 [height, width, 3] from PyBullet's own renderer, which needs neither a display nor a GPU."""
    view = bullet.computeViewMatrix(eye, at, up)
    far = 4 * float(np.linalg.norm(np.subtract(eye, at)))
    lens = bullet.computeProjectionMatrixFOV(fov, width / height, 0.01 * far, far)
    image = bullet.getCameraImage(width, height, view, lens, renderer=pybullet.ER_TINY_RENDERER, **more)[2]
    return np.asarray(image, np.uint8).reshape(height, width, 4)[..., :3].copy()
