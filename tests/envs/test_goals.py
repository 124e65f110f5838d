"""A task's rule is found, and refused with an example where it is wrong."""

import importlib.util
from unittest.mock import ANY

import gymnasium as gym
import numpy as np
import pytest

import tests.envs.toys  # noqa: F401  registers the toys
from cairn.core.errors import CairnError
from cairn.core.goals import Within
from cairn.envs import broken
from cairn.envs.goals import ComputeReward, goal_rule
from cairn.envs.task import Task


def test_a_declared_rule_is_taken_as_it_is():
    assert goal_rule(Task("goaltoy/Line-v0")) == Within(0.5, ends=True)


def test_compute_reward_is_a_rule_for_any_number_of_pairs():
    rule = goal_rule(Task("goaltoy/Robotic-v0"))
    assert isinstance(rule, ComputeReward)
    achieved = np.arange(6, dtype=np.float32).reshape(2, 3, 1)
    np.testing.assert_array_equal(rule.reward(achieved, np.full((3, 1), 4.0)), [[-1, -1, -1], [-1, 0, -1]])
    np.testing.assert_array_equal(rule.terminated(achieved, np.full((3, 1), 4.0)), [[0, 0, 0], [0, 1, 0]])


def test_a_reward_of_rows_alone_will_do():
    assert isinstance(goal_rule(Task("goaltoy/Rows-v0")), ComputeReward)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("OneAtATime", "not vectorised: given 120 pairs it answered with shape ()"),
        ("RaisesOnMany", "not vectorised: given 120 pairs it raised ValueError"),
        ("PaysOtherwise", "the step paid -0.5 and the rule -1"),
        ("EndsOtherwise", "the rule ends the episode and the step did not"),
        ("EndsSometimes", "ends where its goal is reached, and its rule does not say so"),
        ("FourKeys", "and nothing else"),
        ("Silent", "neither goal_rule nor compute_reward"),
    ],
)
def test_a_wrong_rule_is_refused_with_the_example_that_shows_it(name, words):
    with pytest.raises(CairnError) as error:
        goal_rule(Task(f"goaltoy/{name}-v0"))
    assert words in str(error.value) and name in str(error.value)


def test_episodes_that_end_at_goals_need_no_compute_terminated_to_say_so():
    """As in panda-gym, where the reward of a reached goal tells."""
    rule = goal_rule(Task("goaltoy/NeverSaysItEnds-v0"))
    assert rule == ComputeReward(ANY, ends=True)
    achieved = np.array([[[1.0], [4.0]], [[4.2], [7.0]]], np.float32)
    assert rule.terminated(achieved, np.full((2, 1), 4.0)).tolist() == [[False, True], [True, False]]


def test_a_failure_may_cost_more_than_compute_reward_says():
    """As in highway-env's parking, where a crash does; rewards that differ elsewhere are refused (PaysOtherwise)."""
    assert goal_rule(Task("goaltoy/Crashes-v0")) == ComputeReward(ANY, cost=True)
    assert goal_rule(Task("goaltoy/Robotic-v0")) == ComputeReward(ANY, cost=False)


def test_a_task_without_goals_is_refused():
    with pytest.raises(CairnError, match="hindsight needs a task with goals, and CartPole-v1 has none"):
        goal_rule(Task("CartPole-v1"))


def test_the_fetch_arm_declares_by_its_threshold():
    pytest.importorskip("gymnasium_robotics")
    assert goal_rule(Task("FetchReach-v4")) == Within(0.05)
    assert isinstance(goal_rule(Task("FetchReachDense-v4")), ComputeReward)


@pytest.mark.parametrize("name", ["FetchReach-v3", "FetchPush-v2"])
def test_broken_versions_of_the_arm_are_named(name):
    pytest.importorskip("gymnasium_robotics")
    with pytest.raises(CairnError, match=r"is broken: .* use Fetch\w+-v4"):
        Task(name)()


@pytest.mark.parametrize(("mujoco", "fails"), [("4.0.0", True), ("3.12.0", True), ("3.11.0", False)])
def test_a_mujoco_that_breaks_the_robots_is_named(monkeypatch, mujoco, fails):
    have = {"mujoco": mujoco, "gymnasium-robotics": "1.4.2"}
    monkeypatch.setattr(broken, "version", lambda package: have[package])
    fault = broken.known_fault("FetchReach-v4")
    assert (fault is not None) == fails
    if fails:
        assert mujoco in fault and "pip install 'mujoco<3.12'" in fault
    assert broken.known_fault("HalfCheetah-v5") is None


def test_a_task_of_ones_own_may_be_called_fetch():
    gym.register("FetchMail-v0", "gymnasium.envs.classic_control:CartPoleEnv")
    Task("FetchMail-v0")().close()


def test_pybullet_absent_gets_the_install_command(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "pybullet" else real(name, *a))
    with pytest.raises(CairnError, match=r"pip install 'cairn-rl\[bullet\]'"):
        Task("cairn/RaceCar-v0")()


def test_the_time_feature_counts_down_and_leaves_goals_alone():
    env = Task("goaltoy/Line-v0", time_feature=True)()
    obs, _ = env.reset(seed=0)
    assert obs["observation"].tolist() == [0, 1] and obs["achieved_goal"].shape == (1,)
    for k in range(1, 4):
        obs = env.step(k % 2)[0]
        assert obs["observation"][1] == pytest.approx(1 - k / 12)
    assert env.observation_space.contains(obs)
    flat = Task("CartPole-v1", time_feature=True)()
    assert flat.reset()[0].shape == (5,) == flat.observation_space.shape
    with pytest.raises(CairnError, match="time limit"):
        Task("CartPole-v1", time_limit=0, time_feature=True)()
