"""ALE's BasicMath without waiting times: an action is one press of a button, or a whole answer."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from gymnasium import spaces

from cairn.core.checks import Count, Side, check
from cairn.core.errors import CairnError
from cairn.core.game import Game
from cairn.core.types import Array
from cairn.envs.atari import Atari, shares

By = Literal["button", "answer"]

PRESS = 2  # frames that a button is down, and then up; one that is held repeats every 16 frames
WAITS = 2  # address in the game's memory: 1 while it waits for an answer
PATIENCE = 600  # frames to wait at most; the longest wait seen is 268
HIGHEST = 18  # the largest sum
ROWS, COLUMNS = slice(52, 164), slice(28, 132)  # the part of the screen that changes
PAPER, INK = 60, 122  # the two shades of grey


class BasicMath(Atari):
    """Ten sums of two digits, with one point for each right answer.

    The observation is the part of the screen that changes, while the game waits, in `size` x `size` bytes of ink.

    by     button: FIRE, UP, RIGHT, LEFT or DOWN. UP goes from blank to 0 and then up by one, DOWN to 9 and then down,
    LEFT
                   to the tens; FIRE answers. An answer takes 2 to 9 presses at best, and only the last is rewarded
           answer: action n types the number n, from 0 to 18, and presses FIRE
    apart  each sum is an episode for the learner, so that the next sum is not a reward for having finished this one
    limit  decisions per sum, after which it is answered as it stands; with `apart`, it is truncated

    Everything between FIRE and the next sum belongs to the same step. The game's memory is read only to find out
    whether it
    waits for an answer.
    """

    def __init__(
        self,
        by: By = "button",
        apart: bool = False,
        limit: int = 30,
        size: int = 48,
        render_mode: str | None = None,
    ) -> None:
        if by not in get_args(By):
            raise CairnError(f"by is {by!r}; it must be one of {', '.join(get_args(By))}.")
        check("apart", apart, bool)
        check("limit", limit, Count)
        check("size", size, Side)
        super().__init__(Game("basic_math", skip=PRESS, size=size, stack=1, fire=False, life_loss=False), render_mode)
        self.by, self.apart, self.limit = by, apart, limit
        rows, columns = self.screens[0, ROWS, COLUMNS].shape
        self.shrink = shares(rows, size) * (255 / (INK - PAPER)), shares(columns, size).T.copy()
        self.key = {action.name: action for action in self.actions}
        self.actions = [action for action in self.actions if action != self.noop]
        self.action_space = spaces.Discrete(HIGHEST + 1 if by == "answer" else len(self.actions))
        self.metadata = {**self.metadata, "render_fps": 1 if by == "answer" else 4}  # slow enough to watch
        self.decisions = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._wait(1)
        self._see()
        self.decisions = 0
        return self.frames.copy(), {}

    def step(self, action: int) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        keys = self._typed(int(action)) if self.by == "answer" else [self.actions[action]]
        paid = score = sum(self._press(key) for key in keys)
        self._see()
        self.decisions += 1
        answered = keys[-1] == self.key["FIRE"]
        late = not answered and self.decisions >= self.limit
        if late:
            score += self._press(self.key["FIRE"])
        if late and not self.apart:
            paid = score
            self._see()
        if answered or late:
            self.decisions = 0
        over = self.ale.game_over()
        terminated = answered if self.apart else over
        self.goes_on = self.apart and (answered or late) and not over
        info = {"cairn/score": score, "cairn/goes_on": self.goes_on}
        return self.frames.copy(), paid, terminated, late and self.apart, info

    def _typed(self, number: int) -> list[Any]:
        """The buttons of an answer, ones first."""
        tens, ones = divmod(number, 10)
        names = ["UP"] * (ones + 1) + (["LEFT"] + ["UP"] * (tens + 1) if tens else []) + ["FIRE"]
        return [self.key[name] for name in names]

    def _press(self, key: Any) -> float:
        """Press and release a button and, after FIRE, wait for the next sum; returns the reward."""
        paid = self._hold(key) + self._hold(self.noop)
        return paid + self._wait(0) + self._wait(1) if key == self.key["FIRE"] else paid

    def _wait(self, flag: int) -> float:
        """Wait until the game waits for an answer (1), or no longer does (0); returns the reward."""
        paid = 0.0
        for _ in range(PATIENCE // PRESS):
            if self.ale.getRAM()[WAITS] == flag or self.ale.game_over():
                break
            paid += self._hold(self.noop)
        return paid

    def _hold(self, key: Any) -> float:
        """Hold a button for its two frames; returns the reward."""
        return float(sum(self.ale.act(key) for _ in range(PRESS)))

    def _see(self) -> None:
        """Update the observation: ink on the part that changes, resized by area."""
        self.ale.getScreenGrayscale(self.screens[1])
        rows, columns = self.shrink
        ink = self.screens[1, ROWS, COLUMNS].astype(np.float32) - PAPER
        self.frames[-1] = np.rint(rows @ ink @ columns)
