"""Whether pictures have the range and the layout that networks read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from gymnasium import spaces

from cairn.core.types import Array
from cairn.doctor.finding import Finding
from cairn.doctor.play import draw, leaves, part_at
from cairn.doctor.task_probe import TaskProbe
from cairn.vector.spaces import IMAGE, is_image

LOOKED = 60  # observations to look at
COLOURS = (1, 3, 4)  # channels of a picture


def legible(p: TaskProbe) -> Iterator[Finding]:
    """Pictures must be bytes from 0 to 255, or floats from 0 to the bound they declare, with channels first or last."""
    space = p.first.env.observation_space
    like = [(path, leaf) for path, leaf in leaves(space) if isinstance(leaf, spaces.Box) and _like_a_picture(leaf)]
    if not like:
        return
    shown = _observations(p)
    for path, leaf in like:
        keys = "".join(f".{key}" if isinstance(key, str) else f"[{key}]" for key in path).lstrip(".")
        name = f"The picture {keys!r}" if keys and leaf is not space else "The picture"
        values = np.array([part_at(obs, path) for obs in shown])
        if not np.isfinite(values).all():
            continue  # `observations.finite` reports this
        yield from _range(name, leaf, values) if is_image(leaf) else _unread(name, leaf)
        if len(leaf.shape) == 3 and leaf.shape[1] < IMAGE <= min(leaf.shape[0], leaf.shape[2]):
            yield Finding(
                "picture-layout",
                "warning",
                f"{name} has its channels neither first nor last.",
                f"its shape is {leaf.shape}",
                "Move them with numpy.moveaxis: networks read [height, width, channels] or [channels, height, width].",
            )


def _like_a_picture(space: spaces.Box) -> bool:
    """Two axes of a picture's size, and channels beside them where there are three."""
    return is_image(space) or (len(space.shape) == 3 and sorted(space.shape)[1] >= IMAGE)


def _range(name: str, space: spaces.Box, values: Array) -> Iterator[Finding]:
    """Report values that are not where the type and the bounds say."""
    top, most = float(space.high.max()), float(values.max())
    if space.dtype == np.uint8:
        if most == 1:
            yield Finding(
                "picture-range",
                "warning",
                f"{name} is almost black: its bytes are 0 or 1, and networks divide them by 255.",
                f"the highest of {values.size:,} bytes in {len(values)} observations is 1",
                "Multiply it by 255.",
            )
        return
    if top == 1 and most > 1:
        yield Finding(
            "picture-range",
            "error",
            f"{name} has values above 1, and its space says 0 to 1: what is above 1 is cut off.",
            f"the highest of {values.size:,} values is {most:.4g}; {np.mean(values > 1):.0%} are above 1",
            "Divide it by 255, or declare Box(0, 255, shape, numpy.uint8) and return bytes.",
        )
    elif top == 255 and 0 < most <= 1:
        yield Finding(
            "picture-range",
            "error",
            f"{name} has values from 0 to 1, and its space says 0 to 255: each is rounded to 0 or 1.",
            f"the highest of {values.size:,} values in {len(values)} observations is {most:.4g}",
            "Multiply it by 255, or declare Box(0, 1, shape, numpy.float32).",
        )


def _unread(name: str, space: spaces.Box) -> Iterator[Finding]:
    """Report floats of a picture's shape whose bounds are not those of one."""
    if min(space.shape[0], space.shape[-1]) in COLOURS:
        yield Finding(
            "picture-layout",
            "hint",
            f"{name} is read as {int(np.prod(space.shape)):,} numbers, and not by a convolution.",
            f"its space is {space.dtype} of shape {space.shape} from {space.low.min():g} to {space.high.max():g}",
            "If it is a picture, declare bytes, or floats from 0 to 1 or from 0 to 255.",
        )


def _observations(p: TaskProbe) -> list[object]:
    """Observations of random play, as the task returns them."""
    copy = p.first
    shown = [copy.raw_reset(seed=0)]
    while len(shown) < LOOKED:
        obs, _, terminated, truncated, _ = copy.raw_step(copy.allowed(draw(copy.action_space, p.rng)))
        shown.append(copy.raw_reset() if terminated or truncated else obs)
    return shown
