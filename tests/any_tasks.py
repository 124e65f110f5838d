"""Toy tasks that cannot be solved without one part of their spaces. One step an episode unless said, reward 0 or 1."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class OneStep(gym.Env[Any, Any]):
    """Draws a target, shows it somehow, pays 1 for the action that fits it."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.draw()
        return self.shown(), self.info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = self.paid(action)
        self.draw()
        return self.shown(), float(reward), True, False, self.info()

    def info(self) -> dict[str, Any]:
        return {}

    def draw(self) -> None: ...
    def shown(self) -> Any: ...
    def paid(self, action: Any) -> float: ...


class Combination(OneStep):
    """MultiDiscrete or MultiBinary actions: each choice must repeat its own entry of the observation."""

    def __init__(self, kind: str = "multidiscrete") -> None:
        self.nvec = np.array([3, 2, 4]) if kind == "multidiscrete" else np.array([2, 2, 2])
        start = np.array([1, 0, 5])
        self.start = start if kind == "multidiscrete" else np.zeros(3, int)
        self.action_space = (
            spaces.MultiDiscrete(self.nvec, start=start) if kind == "multidiscrete" else spaces.MultiBinary(3)
        )
        self.observation_space = spaces.MultiDiscrete(self.nvec)

    def draw(self) -> None:
        self.target = self.np_random.integers(self.nvec)

    def shown(self) -> Any:
        return self.target.copy()

    def paid(self, action: Any) -> float:
        assert self.action_space.contains(action), action
        return float((action - self.start == self.target).mean())


class Parts(OneStep):
    """A Dict action of options and real numbers in a Tuple: both must fit what is shown."""

    def __init__(self) -> None:
        arm = spaces.Tuple((spaces.Discrete(3, start=2), spaces.Box(-2, 2, (2,), np.float32)))
        self.action_space = spaces.Dict({"arm": arm, "switch": spaces.MultiBinary(1)})
        self.observation_space = spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (1,), np.float32)))

    def draw(self) -> None:
        self.which, self.where = int(self.np_random.integers(3)), self.np_random.uniform(-1, 1, 1).astype(np.float32)

    def shown(self) -> Any:
        return self.which, self.where

    def paid(self, action: Any) -> float:
        assert self.action_space.contains(action), action
        option, way = action["arm"]
        near = 1 - min(abs(float(way[0]) - float(self.where[0])), 1)
        return 0.5 * (option - 2 == self.which) + 0.25 * near + 0.25 * (int(action["switch"][0]) == (self.which == 1))


class Camera(OneStep):
    """A picture and a number, both of which matter: which half is lit, and the number shown.

    The right option is their sum modulo 2; the right real number is -1, 0 or 1 by their sum. `blind` hides the
    picture. `last` puts channels last, else first.
    """

    def __init__(self, kind: str = "discrete", *, blind: bool = False, last: bool = True, floats: bool = False) -> None:
        self.kind, self.blind, self.last, self.floats = kind, blind, last, floats
        shape = (36, 36, 3) if last else (3, 36, 36)
        picture = spaces.Box(0, 1, shape, np.float32) if floats else spaces.Box(0, 255, shape, np.uint8)
        self.observation_space = spaces.Dict(
            {"camera": picture, "number": spaces.Box(-1, 1, (1,), np.float32), "mode": spaces.Discrete(2)}
        )
        discrete = kind == "discrete"
        self.action_space = spaces.Discrete(2) if discrete else spaces.Box(-1, 1, (1,), np.float32)

    def draw(self) -> None:
        self.lit, self.number = (int(x) for x in self.np_random.integers(2, size=2))

    def shown(self) -> Any:
        image = np.zeros((36, 36, 3), np.float32)
        if not self.blind:
            image[:, 18 * self.lit : 18 * self.lit + 18] = 1
        image = image if self.last else image.transpose(2, 0, 1)
        picture = image if self.floats else (255 * image).astype(np.uint8)
        return {"camera": picture, "number": np.array([2 * self.number - 1], np.float32), "mode": 1}

    def paid(self, action: Any) -> float:
        if self.kind == "discrete":
            return float(int(action) == self.lit ^ self.number)
        return 1 - abs(float(action[0]) - (self.lit + self.number - 1))


class Masked(OneStep):
    """The mask alone tells which action pays: of 6 options the observation shows nothing.

    `by` says how it is told: by action_masks(), in `info`, or under "action_mask" in the observation.
    """

    def __init__(self, by: str = "method", *, multi: bool = False) -> None:
        self.by, self.multi = by, multi
        self.action_space = spaces.MultiDiscrete([3, 2]) if multi else spaces.Discrete(6)
        nothing = spaces.Box(0, 1, (1,), np.float32)
        self.observation_space = nothing
        if by == "obs":
            length = 5 if multi else 6
            self.observation_space = spaces.Dict({"observation": nothing, "action_mask": spaces.MultiBinary(length)})
        if by == "method":
            self.action_masks = self._mask

    def draw(self) -> None:
        self.target = int(self.np_random.integers(6))

    def _mask(self) -> Any:
        if self.multi:
            one, two = np.zeros(3, np.int8), np.zeros(2, np.int8)
            one[self.target // 2] = two[self.target % 2] = 1
            return np.concatenate([one, two])
        mask = np.zeros(6, np.int8)
        mask[self.target] = 1
        return mask

    def shown(self) -> Any:
        nothing = np.zeros(1, np.float32)
        return {"observation": nothing, "action_mask": self._mask()} if self.by == "obs" else nothing

    def info(self) -> dict[str, Any]:
        return {"action_mask": self._mask()} if self.by == "info" else {}

    def paid(self, action: Any) -> float:
        chosen = 2 * int(action[0]) + int(action[1]) if self.multi else int(action)
        return float(chosen == self.target)


class Corridor(OneStep):
    """A T-maze: the cue is shown at the first of `length` steps, and the last action must fit it."""

    def __init__(self, length: int = 6, *, kind: str = "numbers") -> None:
        self.length, self.kind = length, kind
        self.observation_space, self.action_space = spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(2)
        if kind == "picture":
            picture = spaces.Box(0, 255, (36, 36, 1), np.uint8)
            self.observation_space = spaces.Dict({"camera": picture, "end": spaces.Box(-1, 1, (1,), np.float32)})
        if kind == "masked":  # a third option, which is never allowed
            self.action_space, self.action_masks = spaces.Discrete(3), lambda: np.array([1, 1, 0])

    def draw(self) -> None:
        self.cue, self.at = int(self.np_random.integers(2)), 0

    def shown(self) -> Any:
        cue, end = (2 * self.cue - 1) * (self.at == 0), float(self.at == self.length - 1)
        if self.kind == "picture":
            image = np.full((36, 36, 1), 127 + 127 * cue, np.uint8)
            return {"camera": image, "end": np.array([end], np.float32)}
        return np.array([cue, end], np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.at += 1
        if self.at < self.length:
            return self.shown(), 0.0, False, False, {}
        reward = float(int(action) == self.cue)
        self.draw()
        return self.shown(), reward, True, False, {}


TOYS = {"Combination": Combination, "Parts": Parts, "Camera": Camera, "Masked": Masked, "Corridor": Corridor}
for name, entry in TOYS.items():
    gym.register(f"toys/{name}-v0", entry_point=entry)  # type: ignore[arg-type]
