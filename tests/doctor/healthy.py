"""Healthy tasks of odd kinds: each can be learned, so none may get an error."""

import gymnasium as gym
import numpy as np

Box, Discrete = gym.spaces.Box, gym.spaces.Discrete


def flat(size, bound=100.0):
    return Box(-bound, bound, (size,), np.float64)


class Bandit(gym.Env):
    """One decision an episode. The observation is always the same; the reward tells the arms apart."""

    observation_space, action_space = flat(1), Discrete(4)
    means = (0.1, 0.5, 0.3, 0.9)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1), {}

    def step(self, action):
        return np.zeros(1), float(self.np_random.random() < self.means[action]), True, False, {}


class SteadyBandit(Bandit):
    """The same arms, without chance and without an end but the time limit."""

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return super().reset(seed=seed)

    def step(self, action):
        self.steps += 1
        return np.zeros(1), self.means[action], False, self.steps >= 20, {}


class GaussianBandit(gym.Env):
    """A continuous arm with a noisy reward; the observation is a constant."""

    observation_space, action_space = flat(2), Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.ones(2), {}

    def step(self, action):
        reward = -float(np.square(action - 0.3).sum()) + 0.1 * self.np_random.normal()
        return np.ones(2), reward, True, False, {}


class ContextualBandit(gym.Env):
    """The observation is drawn anew each step and does not depend on the action."""

    observation_space, action_space = flat(3), Discrete(3)

    def draw(self):
        self.context = self.np_random.normal(size=3)
        return self.context.copy()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.draw(), {}

    def step(self, action):
        reward = float(action == int(self.context.argmax()))
        self.steps += 1
        return self.draw(), reward, False, self.steps >= 25, {}


class TMaze(gym.Env):
    """A signal at the start says which way to turn after a corridor of 8 steps, in which actions do nothing."""

    observation_space, action_space = flat(3), Discrete(2)

    def obs(self):
        signal = self.side if self.at == 0 else 0
        return np.array([signal, float(self.at > 0), float(self.at == 8)])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.side, self.at = int(self.np_random.choice([-1, 1])), 0
        return self.obs(), {}

    def step(self, action):
        if self.at < 8:
            self.at += 1
            return self.obs(), 0.0, False, False, {}
        right = (action == 1) == (self.side == 1)
        return self.obs(), 1.0 if right else -1.0, True, False, {}


class Recall(gym.Env):
    """A memory task: tokens are shown, and the token of two steps ago is to be named. Actions change nothing seen."""

    observation_space, action_space = Box(0, 1, (4,), np.float64), Discrete(4)

    def show(self):
        self.tokens.append(int(self.np_random.integers(4)))
        return np.eye(4)[self.tokens[-1]]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.tokens = []
        return self.show(), {}

    def step(self, action):
        right = len(self.tokens) > 2 and action == self.tokens[-3]
        return self.show(), float(right), False, len(self.tokens) > 40, {}


class Chain(gym.Env):
    """Sparse: 1 after ten steps to the right in a row, 0 else. A wrong step leads back to the start."""

    observation_space, action_space = Box(0, 1, (11,), np.float64), Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = self.steps = 0
        return np.eye(11)[0], {}

    def step(self, action):
        self.at, self.steps = (self.at + 1 if action else 0), self.steps + 1
        return np.eye(11)[self.at], float(self.at == 10), self.at == 10, self.steps >= 60, {}


class OneStep(gym.Env):
    """One decision an episode, from a picture of two numbers."""

    observation_space, action_space = flat(2), Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = self.np_random.uniform(-1, 1, 2)
        return self.at.copy(), {}

    def step(self, action):
        return self.at.copy(), -abs(float(self.at.sum() / 2 - action[0])), True, False, {}


class Walk(gym.Env):
    """A point on a line is to be brought to the middle. What follows are variations of it."""

    observation_space, action_space = flat(1), Box(-1, 1, (1,), np.float32)
    limit, scale, offset = 50, 1.0, 0.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.steps = float(self.np_random.uniform(-1, 1)), 0
        return self.obs(), {}

    def obs(self):
        return np.array([self.at])

    def move(self, action):
        self.at = float(np.clip(self.at + 0.2 * float(action[0]), -3, 3))

    def over(self):
        return False

    def step(self, action):
        self.move(action)
        self.steps += 1
        reward = self.scale * (self.offset - abs(self.at))
        return self.obs(), reward, self.over(), self.steps >= self.limit, {}


class Huge(Walk):
    scale = 1e8


class Tiny(Walk):
    scale = 1e-6


class NegativeOnly(Walk):
    offset = -5.0


class Long(Walk):
    limit = 20_000


class Late(Walk):
    """Actions do not matter during the first 30 steps."""

    def move(self, action):
        if self.steps >= 30:
            super().move(action)


class Delayed(Walk):
    """An action takes effect five steps later."""

    def reset(self, *, seed=None, options=None):
        self.waiting = []
        return super().reset(seed=seed)

    def move(self, action):
        self.waiting.append(action)
        if len(self.waiting) > 5:
            super().move(self.waiting.pop(0))


class Noisy(Walk):
    """Much noise on the observation, from the seeded generator."""

    def obs(self):
        return np.array([self.at + self.np_random.normal()])


class Hidden(Walk):
    """Partly observed: only whether the point is left or right of the middle."""

    def obs(self):
        return np.array([float(np.sign(self.at))])


class Mortal(Walk):
    """Episodes end by chance, whatever is done."""

    offset = 1.0

    def over(self):
        return bool(self.np_random.random() < 0.1)


class SlowCooker(Walk):
    """Actions change what is paid and nothing that is seen, until the last step."""

    def obs(self):
        return np.array([float(self.steps)])


class Grid(gym.Env):
    """Integer observations, Discrete: 25 cells, the goal in a corner, always the same start."""

    observation_space, action_space = Discrete(25), Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.y = self.steps = 0
        return 0, {}

    def step(self, action):
        dx, dy = ((1, 0), (-1, 0), (0, 1), (0, -1))[action]
        self.x, self.y = min(max(self.x + dx, 0), 4), min(max(self.y + dy, 0), 4)
        self.steps += 1
        there = self.x == self.y == 4
        return 5 * self.x + self.y, float(there) - 0.01, there, self.steps >= 100, {}


class Integers(Walk):
    observation_space = Box(-100, 100, (2,), np.int64)

    def obs(self):
        return np.array([round(10 * self.at), self.steps], np.int64)


class MovingGoal(gym.Env):
    """A point in the plane after a goal that wanders slower than it can go."""

    action_space = Box(-1, 1, (2,), np.float32)
    observation_space = gym.spaces.Dict(
        {name: flat(2) for name in ("observation", "achieved_goal", "desired_goal")},
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.goal = self.np_random.uniform(-1, 1, (2, 2))
        self.steps = 0
        return self.obs(), {}

    def obs(self):
        at = self.at
        return {"observation": at.copy(), "achieved_goal": at.copy(), "desired_goal": self.goal.copy()}

    def compute_reward(self, achieved, desired, info):
        return -(np.linalg.norm(achieved - desired, axis=-1) > 0.2).astype(np.float64)

    def step(self, action):
        self.at = np.clip(self.at + 0.1 * np.asarray(action, float), -2, 2)
        reward = float(self.compute_reward(self.at, self.goal, {}))
        info = {"is_success": reward == 0}
        self.goal = np.clip(self.goal + 0.03 * self.np_random.normal(size=2), -1, 1)
        self.steps += 1
        return self.obs(), reward, False, self.steps >= 50, info


class Detour(MovingGoal):
    """A wall with a gap stands between start and goal: hard to explore, and every goal can be reached."""

    gap = 0.4

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.goal = self.np_random.uniform((-1, -1), (-0.5, 1)), self.np_random.uniform((0.5, -1), (1, 1))
        return self.obs(), {}

    def step(self, action):
        to = np.clip(self.at + 0.1 * np.asarray(action, float), -1, 1)
        if not (self.at[0] < 0 <= to[0] or to[0] < 0 <= self.at[0]) or to[1] > 1 - self.gap:
            self.at = to
        reward = float(self.compute_reward(self.at, self.goal, {}))
        self.steps += 1
        return self.obs(), reward, False, self.steps >= 100, {"is_success": reward == 0}


class Quiz(gym.Env):
    """A game of exactly twelve rounds that ends by termination; a clock is part of the observation."""

    observation_space, action_space = flat(2), Discrete(2)

    def obs(self):
        self.card = int(self.np_random.integers(2))
        return np.array([self.card, self.round / 12])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.round = 0
        return self.obs(), {}

    def step(self, action):
        reward = 1.0 if action == self.card else -1.0
        self.round += 1
        return self.obs(), reward, self.round >= 12, False, {}


class NumPyTypes(Walk):
    """Answers with NumPy's own numbers and booleans."""

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, np.float32(reward), np.bool_(terminated), np.bool_(truncated), info


class Lock(gym.Env):
    """A combination lock: a clock is all that is seen until five right keys were pressed in turn. Hard to find."""

    observation_space, action_space, code = flat(1), Discrete(6), (3, 1, 4, 1, 5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.keys = []
        return np.zeros(1), {}

    def step(self, action):
        self.keys.append(int(action))
        over = len(self.keys) == 5
        return np.array([len(self.keys)], float), float(tuple(self.keys) == self.code), False, over, {}


class Failing(Walk):
    """Paid worse the further away, up to 3 a step; leaving the track costs 2, once, and is told as a failure."""

    def step(self, action):
        obs, reward, _, truncated, _ = super().step(action)
        off = abs(self.at) > 1.5
        return obs, -2.0 if off else -3.0 + 0.1 * reward, off, truncated, {"is_success": False}


class Turns(Walk):
    """Begins at three places in turn."""

    turn = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.turn = (self.turn + 1) % 3
        self.at = self.turn - 1.0
        return self.obs(), {}


class Unseeded(Walk):
    """Draws from NumPy's global generator: not to be repeated, and learned all the same."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = float(np.random.uniform(-1, 1))
        return self.obs(), {}


HEALTHY = [
    kind
    for kind in list(vars().values())
    if isinstance(kind, type) and issubclass(kind, gym.Env) and kind.__module__ == __name__
]
