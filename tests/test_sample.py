"""Sampling on its own: a person's policy, any backend, no training."""

import itertools

import numpy as np
import pytest

import cairn
from cairn.core.errors import CairnError


def left_and_right(obs):
    return (obs[:, 2] > 0).astype(np.int64)


@pytest.mark.parametrize("vector", ["sync", "async", "envpool", "sb3", "auto"])
def test_a_policy_of_ones_own_through_any_backend(vector):
    pytest.importorskip({"envpool": "envpool", "sb3": "stable_baselines3"}.get(vector, "numpy"))
    seen, ended = 0, 0
    for one in cairn.sample("CartPole-v1", left_and_right, envs=3, vector=vector, steps=150):
        np.testing.assert_array_equal(one.action, left_and_right(one.obs))
        seen += int(one.step.valid.sum())
        ended += len(one.step.episodes)
    assert 150 <= seen < 153 and ended > 0


def test_actions_are_in_the_tasks_own_units_and_seeds_repeat():
    def push(obs):
        return np.full((len(obs), 1), 2.0)  # Pendulum's strongest

    first, second = (
        [one.step.next_obs for one in itertools.islice(cairn.sample("Pendulum-v1", push, envs=2, vector="sync"), 5)]
        for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)
    assert first[-1][0, 2] != first[-1][1, 2]


def test_actions_of_another_shape_are_one_sentence():
    with pytest.raises(CairnError, match=r"actions of shape \(2, 1\); this task asks for \(2,\)"):
        next(cairn.sample("CartPole-v1", lambda obs: np.zeros((2, 1)), envs=2, vector="sync"))
