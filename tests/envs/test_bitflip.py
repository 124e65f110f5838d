"""Bit flipping: the rules of the game."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import cairn.envs  # noqa: F401  registers the task


def made(n):
    return gym.make("cairn/BitFlip-v0", n=n, disable_env_checker=True)


def test_is_a_clean_gymnasium_task():
    check_env(made(6).unwrapped, skip_render_check=True)


def test_flipping_what_differs_solves_it_at_the_last_flip():
    env = made(9)
    obs, _ = env.reset(seed=3)
    wrong = np.flatnonzero(obs["observation"] != obs["desired_goal"])
    for i in wrong:
        obs, reward, terminated, _, info = env.step(int(i))
        last = i == wrong[-1]
        assert (reward, terminated, info["is_success"]) == (0.0 if last else -1.0, last, last)
    np.testing.assert_array_equal(obs["achieved_goal"], obs["desired_goal"])


def test_ends_after_n_steps_and_observations_are_not_shared():
    env = made(5)
    first, _ = env.reset(seed=0)
    kept = first["observation"].copy()
    for k in range(5):
        _, _, terminated, truncated, _ = env.step(k % 2)
        assert not terminated and truncated == (k == 4)
    np.testing.assert_array_equal(first["observation"], kept)


def test_goals_differ_and_repeat_under_a_seed():
    env = made(20)
    goals = [tuple(env.reset(seed=s)[0]["desired_goal"]) for s in (1, 2, 1)]
    assert goals[0] == goals[2] != goals[1]


def test_no_bits_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        made(0)
