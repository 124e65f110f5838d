"""Healthy tasks with spaces of all kinds: a point on a line, or in the plane, that is to be brought to its middle."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

Box, Discrete, Dict, Tuple = spaces.Box, spaces.Discrete, spaces.Dict, spaces.Tuple
MultiBinary, MultiDiscrete = spaces.MultiBinary, spaces.MultiDiscrete


class Plane(gym.Env):
    """A cell of 7 x 7 to begin with; -distance from the middle is paid for 20 steps. `moved` reads the action."""

    observation_space, action_space = Box(-3, 3, (2,), np.float32), Discrete(5)
    moves = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.steps = self.np_random.integers(-3, 4, 2).astype(float), 0
        return self.shown(), self.info()

    def step(self, action):
        assert self.action_space.contains(action), action
        self.at = np.clip(self.at + self.moved(action), -3, 3)
        self.steps += 1
        return self.shown(), -float(np.abs(self.at).sum()), False, self.steps >= 20, self.info()

    def info(self):
        return {}

    def shown(self):
        return self.at.astype(np.float32)

    def moved(self, action):
        return np.array(self.moves[action], float)


class Started(Plane):
    """Actions from -2 to 2."""

    action_space = Discrete(5, start=-2)

    def moved(self, action):
        return super().moved(action + 2)


class Dials(Plane):
    """Each choice, from 4 and from 7 on, moves one way; observations are two numbers of choices."""

    action_space = MultiDiscrete([3, 3], start=[4, 7])
    observation_space = MultiDiscrete([7, 7])

    def shown(self):
        return self.at.astype(np.int64) + 3

    def moved(self, action):
        return np.asarray(action) - np.array([5, 8])


class Switches(Plane):
    """Four switches, one for each way."""

    action_space, observation_space = MultiBinary((2, 2)), MultiBinary(14)

    def shown(self):
        return np.eye(7, dtype=np.int8)[(self.at + 3).astype(int)].ravel()

    def moved(self, action):
        return np.asarray(action, float)[:, 0] - action[:, 1]


class Nested(Plane):
    """Actions of a Dict with a Tuple, observations of a Tuple with a Dict."""

    action_space = Dict({"legs": Tuple((Discrete(3, start=1), Box(-1, 1, (1,), np.float32)))})
    observation_space = Tuple((Dict({"x": Box(-3, 3, (1,), np.float32), "left": Discrete(21)}), Box(-3, 3, (1,))))

    def shown(self):
        x, y = self.at.astype(np.float32)
        return {"x": np.array([x]), "left": 20 - self.steps}, np.array([y])

    def moved(self, action):
        option, way = action["legs"]
        return np.array([option - 2, float(way[0])])


class OneSided(Plane):
    """A real number from 0 up, and one without any bounds: more than 2 is as good as 2."""

    action_space = Box(np.array([0, -np.inf], np.float32), np.array([np.inf, np.inf], np.float32))

    def moved(self, action):
        return np.clip(action, -2, 2) - np.array([1, 0])


class Fixed(Plane):
    """Three numbers, one of which can only be 0.5."""

    action_space = Box(np.array([-1, 0.5, -1], np.float32), np.array([1, 0.5, 1], np.float32))

    def moved(self, action):
        return np.asarray(action, float)[[0, 2]]


class Whole(Plane):
    """Real numbers of an integer type."""

    action_space = Box(0, 2, (2,), np.int64)

    def moved(self, action):
        return np.asarray(action, float) - 1


class Place(Plane):
    """The cell as one of 5,000 numbers, which networks embed, beside the time."""

    observation_space = Dict({"cell": Discrete(5_000), "time": Box(0, 1, (), np.float32)})

    def shown(self):
        x, y = (self.at + 3).astype(int)
        return {"cell": int(700 * x + 100 * y), "time": np.float32(self.steps / 20)}


class Camera(Plane):
    """A small picture of the plane, channels first, beside the x of the point: y is in the picture alone."""

    observation_space = Dict({"camera": Box(0, 255, (3, 36, 36), np.uint8), "x": Box(-3, 3, (1,), np.float32)})

    def shown(self):
        picture = np.zeros((3, 36, 36), np.uint8)
        x, y = (self.at + 3).astype(int)
        picture[1, 5 * x : 5 * x + 5, 5 * y : 5 * y + 5] = 200
        return {"camera": picture, "x": np.array([self.at[0]], np.float32)}


class Bright(Plane):
    """A picture of floats, channels last, and nothing else."""

    observation_space = Box(0, 1, (40, 40, 1), np.float32)

    def shown(self):
        picture = np.zeros((40, 40, 1), np.float32)
        x, y = (self.at + 3).astype(int)
        picture[5 * x : 5 * x + 5, 5 * y : 5 * y + 5] = 0.8
        return picture


class Walls(Plane):
    """What would leave the plane is forbidden, and raises."""

    def action_masks(self):
        return np.array([np.abs(self.at + move).max() <= 3 for move in self.moves])

    def moved(self, action):
        if not self.action_masks()[action]:
            raise ValueError("there is a wall")
        return super().moved(action)


class Rooms(Plane):
    """What would leave the plane is forbidden in `info`, and changes nothing."""

    def info(self):
        return {"action_mask": np.array([np.abs(self.at + move).max() <= 3 for move in self.moves], np.int8)}


class Hands(Plane):
    """Two choices, some of them forbidden in the observation; a forbidden one costs 5 and ends the episode."""

    action_space = MultiDiscrete([3, 3])
    observation_space = Dict({"at": Box(-3, 3, (2,), np.float32), "action_mask": MultiBinary(6)})

    def mask(self):
        return np.array([[at > -3, True, at < 3] for at in self.at], np.int8).ravel()

    def shown(self):
        return {"at": self.at.astype(np.float32), "action_mask": self.mask()}

    def moved(self, action):
        return np.asarray(action, float) - 1

    def step(self, action):
        wrong = not self.mask().reshape(2, 3)[[0, 1], action].all()
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward - 5 * wrong, terminated or wrong, truncated, info


class GoalInView(Plane):
    """A goal task whose observation is a picture."""

    observation_space = Dict(
        {
            "observation": Box(0, 255, (36, 36, 1), np.uint8),
            "achieved_goal": Box(-3, 3, (2,), np.float32),
            "desired_goal": Box(-3, 3, (2,), np.float32),
        }
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.goal = self.np_random.integers(-3, 4, 2).astype(np.float32)
        return self.shown(), {}

    def shown(self):
        picture = np.zeros((36, 36, 1), np.uint8)
        x, y = (self.at + 3).astype(int)
        picture[5 * x : 5 * x + 5, 5 * y : 5 * y + 5] = 200
        at = self.at.astype(np.float32)
        return {"observation": picture, "achieved_goal": at, "desired_goal": getattr(self, "goal", at).copy()}

    def compute_reward(self, achieved, desired, info):
        return -(np.linalg.norm(achieved - desired, axis=-1) > 0.5).astype(np.float32)

    def step(self, action):
        obs, _, terminated, truncated, info = super().step(action)
        reward = float(self.compute_reward(obs["achieved_goal"], obs["desired_goal"], info))
        return obs, reward, terminated, truncated, {"is_success": reward == 0}


ODD = [
    kind
    for kind in list(vars().values())
    if isinstance(kind, type) and issubclass(kind, gym.Env) and kind.__module__ == __name__
]
