"""CartPole-v1 from pictures only. They are drawn directly at the size of an observation."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

from cairn.core.checks import Count, Side, check
from cairn.core.errors import CairnError
from cairn.core.types import Array

View = Literal["both", "cart", "track", "screen"]

# sizes in CartPole's own picture, in its pixels; x to the right, y upwards
WIDTH, HEIGHT, METRE = 600.0, 400.0, 125.0
CART, CART_HEIGHT, CART_Y = 51.0, 31.0, 100.5
POLE, POLE_LENGTH, AXLE_Y = 11.0, 126.0, 108.0
BLACK, POLE_INK, AXLE_INK = 255.0, 94.0, 116.0  # how much darker than the background
FOOT, TIP = 80.0, 236.0  # y from below the cart to above the pole
RATE = 50  # physics steps per second


class PixelCartPole(gym.Env[Any, Any]):
    """The last `stack` pictures, `size` x `size` bytes of ink each; zeros before the start of an episode.

    view   screen: all of CartPole's picture; at 84 pixels the pole is 1.5 pixels wide
           track:  the band of cart and pole, as wide as the screen; the pole is as thin, and 2.6 times as long
           cart:   half as wide, following the cart; the pole is 3 pixels wide; beyond the track all is ink
           both:   the cart's window above, the whole track in the quarter below
    skip   physics steps per action; their rewards are summed, or averaged with `average`
    limit  physics steps, not actions, after which an episode is truncated

    The effect of an action on speeds shows only in the second picture after it, so no stack has the whole state.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": RATE}

    def __init__(
        self,
        view: View = "both",
        size: int = 84,
        stack: int = 4,
        skip: int = 1,
        average: bool = False,
        limit: int = 500,
        render_mode: str | None = None,
    ) -> None:
        if view not in get_args(View):
            raise CairnError(f"view is {view!r}; it must be one of {', '.join(get_args(View))}.")
        check("size", size, Side)
        for name, value in {"stack": stack, "skip": skip, "limit": limit}.items():
            check(name, value, Count)
        check("average", average, bool)
        self.metadata = {**self.metadata, "render_fps": max(RATE // skip, 1)}
        self.physics: Any = CartPoleEnv(render_mode=render_mode)
        self.render_mode = render_mode
        self.zero_padded_frames, self.skip, self.average, self.limit = stack, skip, average, limit
        strip = max(size // 4, 1)
        self.windows = {
            "both": lambda: [Window(size - strip, size, follows=True), Window(strip, size)],
            "cart": lambda: [Window(size, size, follows=True)],
            "track": lambda: [Window(size, size)],
            "screen": lambda: [Window(size, size, foot=0.0, top=HEIGHT)],
        }[view]()
        self.frames = np.zeros((stack, size, size), np.uint8)
        self.observation_space = spaces.Box(0, 255, self.frames.shape, np.uint8)
        self.action_space = self.physics.action_space
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self.physics.reset(seed=seed, options=options)
        self.steps = 0
        self.frames[:] = 0
        return self._see(), {}

    def step(self, action: int) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        reward, terminated, truncated, held = 0.0, False, False, 0
        while held < self.skip and not (terminated or truncated):
            _, paid, terminated, _, _ = self.physics.step(action)
            reward += float(paid)
            held, self.steps = held + 1, self.steps + 1
            truncated = self.steps >= self.limit
        self.frames[:-1] = self.frames[1:]
        return self._see(), reward / held if self.average else reward, terminated, truncated and not terminated, {}

    def _see(self) -> Array:
        x, _, angle, _ = self.physics.state.tolist()
        row = 0
        for window in self.windows:
            image = window.draw(x, angle)
            self.frames[-1, row : row + len(image)] = np.rint(image)
            row += len(image)
        return self.frames.copy()

    def render(self) -> Any:
        return self.physics.render()

    def close(self) -> None:
        self.physics.close()


class Window:
    """A part of CartPole's picture in rows x columns pixels; half as wide and centred on the cart if it `follows`."""

    def __init__(self, rows: int, columns: int, *, follows: bool = False, foot: float = FOOT, top: float = TIP) -> None:
        self.follows = follows
        self.wide, self.high = WIDTH / columns / (2 if follows else 1), (top - foot) / rows  # size of a pixel
        self.left = (np.arange(columns) - columns / 2) * self.wide  # edges, from the window's middle
        self.low = top - (np.arange(rows) + 1) * self.high
        self.y = self.low + self.high / 2 - AXLE_Y  # middles of rows, from the axle
        half = CART_HEIGHT / 2
        self.cart_rows = BLACK * _inside(self.low, self.high, CART_Y - half, CART_Y + half)[:, None]
        self.track_rows = _inside(self.low, self.high, CART_Y - 0.5, CART_Y + 0.5)[:, None]

    def draw(self, x: float, angle: float) -> Array:
        """The ink in each pixel, by the covered share: cart, pole, axle, track, and the area beyond its ends."""
        cart = WIDTH / 2 + x * METRE + 0.5
        left = self.left + (cart if self.follows else WIDTH / 2)
        away = left + (self.wide / 2 - cart)  # middles of columns, from the axle
        image: Array = self.cart_rows * _inside(left, self.wide, cart - CART / 2, cart + CART / 2)
        self._pole(image, away, math.sin(angle), math.cos(angle))
        self._axle(image, away)
        paper = _inside(left, self.wide, 0.0, WIDTH) if self.follows else np.ones_like(left)
        image += self.track_rows * (BLACK * paper - image)
        if self.follows:
            image += (1.0 - paper) * (BLACK - image)
        return image

    def _pole(self, image: Array, x: Array, sine: float, cosine: float) -> None:
        """Draw a rectangle turned about the axle, with edges one pixel soft."""
        reach = POLE_LENGTH * abs(sine) + POLE + self.wide
        columns = slice(*np.searchsorted(x, (-reach, reach)))
        x, y = x[columns], self.y[:, None]
        across, along = cosine * x - sine * y, sine * x + cosine * y - (POLE_LENGTH - POLE) / 2
        cover = _soft(across, POLE, abs(cosine) * self.wide + abs(sine) * self.high)
        cover *= _soft(along, POLE_LENGTH, abs(sine) * self.wide + abs(cosine) * self.high)
        image[:, columns] += cover * (POLE_INK - image[:, columns])

    def _axle(self, image: Array, x: Array) -> None:
        """Draw a disc as wide as the pole."""
        columns = slice(*np.searchsorted(x, (-POLE / 2 - self.wide, POLE / 2 + self.wide)))
        rows = slice(*np.searchsorted(-self.y, (-POLE / 2 - self.high, POLE / 2 + self.high)))
        far = np.hypot(x[columns], self.y[rows, None])
        image[rows, columns] += _soft(far, POLE, max(self.wide, self.high)) * (AXLE_INK - image[rows, columns])


def _inside(low: Array, length: float, start: float, stop: float) -> Array:
    """The share of each cell [low, low + length] between start and stop."""
    share: Array = (np.minimum(low + length, stop) - np.maximum(low, start)) / length
    return share.clip(0, 1)


def _soft(away: Array, breadth: float, pixel: float) -> Array:
    """The share of a pixel that a bar covers, given the distance `away` of their middles."""
    return ((breadth / 2 - np.abs(away)) / pixel + 0.5).clip(0, min(1.0, breadth / pixel))
