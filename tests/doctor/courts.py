"""A U-shaped court for hierarchies whose levels are written by hand: good ones, and ones with a fault."""

import gymnasium as gym
import numpy as np
import torch

from cairn.algorithms import HIROConfig, TD3Config, build
from cairn.core.goals import Region, Within
from cairn.doctor.levels.ways import Map
from cairn.envs.task import Task
from cairn.vector.spaces import spec_of_env

U = Region((((0.0, 0.0), (8.0, 2.0)), ((6.0, 0.0), (8.0, 8.0)), ((0.0, 6.0), (8.0, 8.0))))
SMALL = TD3Config(hidden=(8,))


class Open(gym.Env):
    """Strides of at most 1 from (1, 1) round a wall to (1, 7). A stride into the wall is not taken."""

    goal_rule = Within(0.7)
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    observation_space = gym.spaces.Dict(
        {k: gym.spaces.Box(-20, 20, (2,), np.float32) for k in ("observation", "achieved_goal", "desired_goal")}
    )
    goal = np.array([1.0, 7.0], np.float32)

    def obs(self):
        here = self.at.astype(np.float32)
        return {"observation": here, "achieved_goal": here.copy(), "desired_goal": self.goal.copy()}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = np.array([1.0, 1.0]) + self.np_random.uniform(-0.5, 0.5, 2)
        return self.obs(), {}

    def step(self, action):
        there = self.at + action
        line = self.at + np.linspace(0, 1, 8)[:, None] * (there - self.at)
        self.at = there if (np.abs(U.nearest(line) - line) < 1e-6).all() else self.at
        reached = bool(self.goal_rule.reached(self.at, self.goal))
        return self.obs(), float(reached) - 1, False, False, {"is_success": reached}


class Court(Open):
    """It tells where its walls are, and lets an ideal low level put it anywhere."""

    reachable = U

    def place(self, point):
        self.at = np.asarray(point, float)


class Slippery(Court):
    """One falls with every long stride."""

    def step(self, action):
        *rest, info = super().step(action)
        return *rest, {**info, "fallen": bool(np.abs(action).max() > 0.9)}


class Gate(Court):
    """The goal counts only for those who were in the lower right corner, which `waypoints` tells."""

    def waypoints(self, goal):
        return ((7.9, 0.1),)

    def reset(self, *, seed=None, options=None):
        self.passed = False
        return super().reset(seed=seed)

    def step(self, action):
        *rest, info = super().step(action)
        self.passed |= bool(np.abs(self.at - (7.9, 0.1)).max() < 0.6)
        return *rest, {"is_success": info["is_success"] and self.passed}


class Islands(Court):
    """A region without a way: the doctor is told nothing of the right side."""

    reachable = Region((U.boxes[0], U.boxes[2]))


for cls in (Open, Court, Slippery, Gate, Islands):
    gym.register(f"courts/{cls.__name__}-v0", cls, max_episode_steps=60)


class Level:
    """A level that is a function of its observations."""

    def __init__(self, act):
        self.act = act


def walks(view, *, explore):
    """A low level that strides towards its subgoal."""
    return (view[:, -2:] - view[:, -4:-2]).clamp(-1, 1)


def trembles(view, *, explore):
    """A low level that does not care for its subgoal."""
    return torch.sin(17 * view[:, :2]) * 0.3


def knows_the_way(obs, *, explore):
    """A high level with the map in its head; in units of the longest subgoal."""
    plan = Map(U, np.array([2.0, 2.0]), 2, 0.2)
    rows = obs.numpy().astype(float)
    ahead = np.stack([plan.waypoint(row[:2], row[-2:]) - row[:2] for row in rows])
    return torch.from_numpy(ahead / 2).float()


def looks_away(obs, *, explore):
    """A high level that always asks for the lower left corner."""
    return -torch.ones(len(obs), 2)


def wants_too_much(obs, *, explore):
    """A high level that asks straight for the goal, however far."""
    return (obs[:, -2:] - obs[:, :2]).clamp(-1, 1)


def hierarchy(name="Court", *, low=walks, high=knows_the_way, **changes):
    """The agent and its task."""
    task = Task(f"courts/{name}-v0")
    cfg = HIROConfig(high=SMALL, low=SMALL, **{"subgoal_range": (2.0, 2.0), "every": 4, "near": 0.2, **changes})
    agent = build(cfg, spec_of_env(task())[0], seed=1)
    agent.low, agent.high = Level(low), Level(high)
    return agent, task
