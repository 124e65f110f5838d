"""Goal tasks small enough to think through."""

import gymnasium as gym
import numpy as np

from cairn.core.goals import Within


class Line(gym.Env):
    """Walk on a line of 12 places, by ±1, to a place given; reaching it ends the episode."""

    goal_rule = Within(0.5, ends=True)
    action_space = gym.spaces.Discrete(2)
    observation_space = gym.spaces.Dict(
        {k: gym.spaces.Box(-20, 20, (1,), np.float32) for k in ("observation", "achieved_goal", "desired_goal")}
    )

    def obs(self):
        here = np.array([self.at], np.float32)
        return {"observation": here, "achieved_goal": here.copy(), "desired_goal": np.array([self.goal], np.float32)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0.0
        self.goal = float(self.np_random.choice([-6, -5, -4, 4, 5, 6]))
        return self.obs(), {}

    def move(self, action):
        return 1.0 if action == 1 else -1.0

    def step(self, action):
        self.at += self.move(action)
        reached = abs(self.at - self.goal) <= 0.5
        return self.obs(), float(reached) - 1, reached, False, {"is_success": reached}


class Plane(gym.Env):
    """Strides of at most 1 in the plane, to a point 4 to 6 away in any direction; reaching it ends the episode."""

    goal_rule = Within(0.7, ends=True)
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    observation_space = gym.spaces.Dict(
        {k: gym.spaces.Box(-20, 20, (2,), np.float64) for k in ("observation", "achieved_goal", "desired_goal")}
    )

    def obs(self):
        return {"observation": self.at.copy(), "achieved_goal": self.at.copy(), "desired_goal": self.goal.copy()}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        angle, far = self.np_random.uniform((0, 4), (2 * np.pi, 6))
        self.at, self.goal = np.zeros(2), far * np.array([np.cos(angle), np.sin(angle)])
        return self.obs(), {}

    def step(self, action):
        self.at = self.at + action
        reached = bool(self.goal_rule.reached(self.at, self.goal))
        return self.obs(), float(reached) - 1, reached, False, {"is_success": reached}

    def render(self):
        return np.zeros((16, 16, 3), np.uint8)

    metadata = {"render_modes": ["rgb_array"]}
    render_mode = None

    def __init__(self, render_mode=None, near=0.7):
        self.render_mode, self.goal_rule = render_mode, Within(near, ends=True)


class Robotic(Line):
    """Tells its reward the way of Gymnasium-Robotics, and rightly."""

    goal_rule = None

    def compute_reward(self, achieved, desired, info):
        return -(np.abs(achieved - desired)[..., 0] > 0.5).astype(np.float32)

    def compute_terminated(self, achieved, desired, info):
        return np.abs(achieved - desired)[..., 0] <= 0.5


class OneAtATime(Robotic):
    def compute_reward(self, achieved, desired, info):
        return 0.0 if float(np.abs(achieved - desired).sum()) <= 0.5 else -1.0


class RaisesOnMany(Robotic):
    def compute_reward(self, achieved, desired, info):
        return 0.0 if abs(float(achieved.item()) - float(desired.item())) <= 0.5 else -1.0


class PaysOtherwise(Robotic):
    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, reward * 0.5, *rest


class EndsOtherwise(Robotic):
    def compute_terminated(self, achieved, desired, info):
        return np.abs(achieved - desired)[..., 0] <= 8


class Silent(Line):
    goal_rule = None


class NeverSaysItEnds(Robotic):
    """Goals so near that random play meets them, and no word that reaching ends the episode."""

    @property
    def compute_terminated(self):
        raise AttributeError  # as where there is none

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.goal = 1.0
        return self.obs(), {}


class EndsSometimes(NeverSaysItEnds):
    """Only every second time that the goal is reached does the episode end."""

    met = 0

    def step(self, action):
        obs, reward, reached, *rest = super().step(action)
        self.met += reached
        return obs, reward, reached and self.met % 2 == 0, *rest


class Rows(Robotic):
    """Takes [pairs, goal] and nothing else."""

    def compute_reward(self, achieved, desired, info):
        return -(np.abs(achieved - desired).sum(axis=1) > 0.5).astype(np.float32)


class Crashes(Robotic):
    """A wall at -1: to run into it costs 5 and ends the episode. `compute_reward` cannot know."""

    def step(self, action):
        obs, reward, terminated, *rest = super().step(action)
        crashed = self.at <= -1
        return obs, reward - 5 * crashed, terminated or crashed, *rest


class FourKeys(Line):
    observation_space = gym.spaces.Dict({**Line.observation_space.spaces, "more": gym.spaces.Box(0, 1, (1,))})

    def obs(self):
        return {**super().obs(), "more": np.zeros(1, np.float32)}


TOYS = (Line, Plane, Robotic, Rows, FourKeys, OneAtATime, RaisesOnMany, PaysOtherwise, EndsOtherwise, Silent)
for cls in (*TOYS, NeverSaysItEnds, EndsSometimes, Crashes):
    gym.register(f"goaltoy/{cls.__name__}-v0", cls, max_episode_steps=12)
