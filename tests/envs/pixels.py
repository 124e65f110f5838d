"""A pixel toy for the tests: what must be named was shown a frame ago."""

import gymnasium as gym
import numpy as np


class Lamps(gym.Env):
    """One of three lamps is lit in each frame. Reward 1 for naming the one of the frame before; ten rounds.

    The two frames of an observation are 36 x 36; the first observation has only one, and any answer to it is wrong.
    """

    zero_padded_frames = 2
    observation_space = gym.spaces.Box(0, 255, (2, 36, 36), np.uint8)
    action_space = gym.spaces.Discrete(3)

    def look(self):
        self.before, self.lit = self.lit, int(self.np_random.integers(3))
        self.frames = np.stack([self.frames[1], np.zeros((36, 36), np.uint8)])
        self.frames[1, 8:28, 12 * self.lit : 12 * self.lit + 12] = 200
        return self.frames.copy()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.lit = 0, None
        self.frames = np.zeros((2, 36, 36), np.uint8)
        return self.look(), {}

    def step(self, action):
        reward = float(action == self.before)
        self.t += 1
        return self.look(), reward, self.t == 10, False, {}


gym.register("toy/Lamps-v0", Lamps)
