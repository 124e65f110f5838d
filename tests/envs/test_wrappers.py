"""Wrappers that a recipe can ask for."""

import gymnasium as gym
import numpy as np
import pytest

from cairn.core.errors import CairnError
from cairn.envs.task import Task
from cairn.envs.wrappers import Resets


class Counted(gym.Env):
    observation_space, action_space = gym.spaces.Box(-1, 1, (1,)), gym.spaces.Discrete(2)

    def __init__(self):
        self.seeds = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seeds.append(seed)
        return np.zeros(1, np.float32), {}


def test_a_task_is_reset_once_to_so_many_times_and_the_seed_says_how_often():
    counts = set()
    for seed in range(30):
        times = []
        for _ in range(2):
            env = Resets(Counted(), 3)
            env.reset(seed=seed)
            assert set(env.env.seeds) == {seed}
            times.append(len(env.env.seeds))
        assert times[0] == times[1]
        counts.add(times[0])
    assert counts == {1, 2, 3}


def test_scores_are_of_the_task_as_it_is():
    task = Task("CartPole-v1", resets=4)
    assert isinstance(task(), Resets) and not isinstance(task.for_scoring()(), Resets)


@pytest.mark.parametrize("asked", [{"history": 2}, {"reward_floor": -1.0}, {"resets": 2}, {"time_feature": True}])
def test_atari_games_refuse_what_they_would_not_heed(asked):
    pytest.importorskip("ale_py")
    with pytest.raises(CairnError, match="Atari games stack frames"):
        Task("ALE/Pong-v5", **asked)()


def test_box2d_remembers_and_that_is_why():
    """One seed, the same actions, and yet another course: where this fails Box2D has forgotten, and `Resets` can go."""
    pytest.importorskip("Box2D")
    env, actions = gym.make("BipedalWalker-v3"), np.random.default_rng(0).uniform(-1, 1, (20, 4)).astype(np.float32)
    courses = []
    for _ in range(3):
        env.reset(seed=5)
        courses.append(np.stack([env.step(action)[0] for action in actions]))
    np.testing.assert_array_equal(courses[0], courses[1])
    assert not np.array_equal(courses[0], courses[2])
