"""An Atari game as an environment, with all preprocessing in one place."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from cairn.core.errors import CairnError
from cairn.core.game import Game
from cairn.core.types import Array

RATE = 60  # frames per second


class Atari(gym.Env[Any, Any]):
    """A game with the preprocessing of `Game`.

    info["cairn/score"] is the game's own reward. info["cairn/goes_on"] is True where a life was lost but not the game:
    `reset` then continues the game.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": RATE}

    def __init__(self, game: Game, render_mode: str | None = None) -> None:
        import ale_py
        from ale_py import roms

        self.game, self.render_mode, self.zero_padded_frames = game, render_mode, game.stack
        self.metadata = {**self.metadata, "render_fps": max(RATE // game.skip, 1)}
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self.ale = ale_py.ALEInterface()
        self.ale.setFloat("repeat_action_probability", game.sticky)
        self.rom: Any = roms.get_rom_path(game.rom)
        self._load(0)
        self.actions = self.ale.getLegalActionSet() if game.full_actions else self.ale.getMinimalActionSet()
        self.noop = ale_py.Action.NOOP
        self.button = ale_py.Action.FIRE if game.fire and ale_py.Action.FIRE in self.actions else None
        height, width = self.ale.getScreenDims()
        self.shrink = shares(height, game.size), shares(width, game.size).T.copy()
        self.screens = np.zeros((2, height, width), np.uint8)  # the last two frames
        self.frames = np.zeros((game.stack, game.size, game.size), np.uint8)
        self.observation_space = spaces.Box(0, 255, self.frames.shape, np.uint8)
        self.action_space = spaces.Discrete(len(self.actions))
        self.lives = self.played = 0
        self.goes_on = False  # a life was lost: `reset` continues the game
        self.press = False  # the next action is FIRE
        self.unpaid = 0.0  # reward of a FIRE between two lives

    def _load(self, seed: int) -> None:
        """Load the game. The emulator takes a seed, a mode or a difficulty only then."""
        self.ale.setInt("random_seed", seed)
        self.ale.loadROM(self.rom)
        for word, value, known, choose in (
            ("mode", self.game.mode, self.ale.getAvailableModes(), self.ale.setMode),
            ("difficulty", self.game.difficulty, self.ale.getAvailableDifficulties(), self.ale.setDifficulty),
        ):
            if value is not None and value not in known:
                raise CairnError(f"{self.game.rom} has no {word} {value}; it has {', '.join(map(str, known))}.")
            if value is not None:
                choose(value)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None or not self.goes_on:
            self._begin(seed)
        elif self.press:
            self.unpaid += self._play(self.button)
        self.goes_on = self.press = False
        self.frames[:] = 0
        self._see()
        return self.frames.copy(), {}

    def _begin(self, seed: int | None) -> None:
        """Start a new game."""
        if seed is not None:
            self._load(seed)
        self.ale.reset_game()
        idle = int(self.np_random.integers(max(self.game.noops, 1)))
        if self.button is not None:
            self.ale.act(self.button)
            idle -= 1
        for _ in range(idle):
            self.ale.act(self.noop)
            if self.ale.game_over():
                self.ale.reset_game()
        self.screens[:] = 0
        self.ale.getScreenGrayscale(self.screens[1])
        self.lives, self.played, self.unpaid = self.ale.lives(), 0, 0.0

    def step(self, action: int) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        game, pressed = self.game, self.press
        paid = self._play(self.button if pressed else self.actions[action])
        info: dict[str, Any] = {"cairn/score": paid + self.unpaid}
        over, late = self.ale.game_over(), self.played >= game.limit
        lost = game.life_loss and 0 < self.ale.lives() < self.lives
        terminated = over or (lost and game.learning)
        self.lives, self.unpaid = self.ale.lives(), 0.0
        self.press = lost and self.button is not None
        left = game.limit - self.played - game.skip * self.press
        self.goes_on = lost and game.learning and not over and left > 0
        if pressed or (lost and not game.learning):
            self.frames[:] = 0
        self.frames[:-1] = self.frames[1:]
        self._see()
        info["cairn/goes_on"] = self.goes_on
        reward = float(np.sign(paid)) if game.clip and game.learning else paid
        return self.frames.copy(), reward, terminated, late and not terminated, info

    def _play(self, action: Any) -> float:
        """Repeat an action for `skip` frames, or until the game is over; returns the sum of rewards."""
        paid = 0.0
        for left in range(self.game.skip - 1, -1, -1):
            paid += self.ale.act(action)
            self.played += 1
            over = self.ale.game_over() or self.played >= self.game.limit
            if left < 2 or over:
                self.screens[0] = self.screens[1]
                self.ale.getScreenGrayscale(self.screens[1])
            if over:
                break
        return paid

    def _see(self) -> None:
        """Update the newest frame of the stack: the maximum of the last two frames, resized by area."""
        rows, columns = self.shrink
        self.frames[-1] = np.rint(rows @ self.screens.max(0).astype(np.float32) @ columns)

    def render(self) -> Array | None:
        return self.ale.getScreenRGB() if self.render_mode == "rgb_array" else None


def shares(long: int, short: int) -> Array:
    """[short, long]: the share of each of `long` cells in each of `short` cells over the same length."""
    edge, cell = np.linspace(0, long, short + 1), np.arange(long)
    inside: Array = np.minimum(edge[1:, None], cell + 1) - np.maximum(edge[:-1, None], cell)
    return (inside.clip(0) * short / long).astype(np.float32)
