"""A vector of ours in SB3's hands."""

import numpy as np
import pytest

from cairn.core.errors import CairnError
from cairn.core.goals import Within
from cairn.envs.task import Task
from cairn.vector.choose import make_vector
from cairn.vector.in_process import Sync

sb3 = pytest.importorskip("stable_baselines3")
from cairn.vector.sb3 import SB3, ForSB3  # noqa: E402


def test_there_and_back_again_nothing_is_changed():
    """Ours, as theirs, as ours: the same steps to the bit."""
    task = Task("Pendulum-v1", 7)
    plain, wrapped = Sync([task] * 3), SB3(ForSB3(Sync([task] * 3)))
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(plain.reset([5, 6, 7]), wrapped.reset([5, 6, 7]))
    for _ in range(20):
        action = rng.uniform(-1, 1, (3, 1)).astype(np.float32)
        a, b = plain.step(action), wrapped.step(action)
        for name in ("obs", "next_obs", "reward", "terminated", "truncated"):
            np.testing.assert_allclose(getattr(a, name), getattr(b, name), atol=1e-5)
        assert [e.length for e in a.episodes] == [e.length for e in b.episodes]


def test_their_ppo_learns_on_our_vector():
    model = sb3.PPO("MlpPolicy", ForSB3(Sync([Task("CartPole-v1")] * 4)), n_steps=32, seed=0, device="cpu")
    model.learn(256)
    assert len(model.ep_info_buffer) > 0


def test_their_hindsight_replay_works_on_our_goal_tasks():
    task = Task("cairn/BitFlip-v0", args={"n": 4})
    envs = ForSB3(Sync([task] * 2), rule=Within(0.0))
    model = sb3.DQN(
        "MultiInputPolicy",
        envs,
        replay_buffer_class=sb3.HerReplayBuffer,
        learning_starts=20,
        train_freq=1,
        device="cpu",
    )
    model.learn(60)
    assert set(envs.observation_space.keys()) == {"observation", "achieved_goal", "desired_goal"}


def test_a_row_that_is_no_step_cannot_be_hidden_from_them():
    pytest.importorskip("envpool")
    envs = ForSB3(make_vector(Task("CartPole-v1", 1), 2, backend="envpool"))
    envs.reset()
    envs.step(np.zeros(2, np.int64))
    with pytest.raises(CairnError, match="VecEnv cannot represent"):
        envs.step(np.zeros(2, np.int64))


def test_scores_are_true_and_the_spec_is_the_tasks_own():
    task = Task("Pendulum-v1", 7, history=2, reward_floor=-0.01)
    plain, theirs = Sync([task] * 2), make_vector(task, 2, backend="sb3")
    assert plain.spec == theirs.spec and theirs.spec.stack == 2
    plain.reset([5, 6])
    theirs.reset([5, 6])
    for _ in range(7):
        a, b = plain.step(np.ones((2, 1), np.float32)), theirs.step(np.ones((2, 1), np.float32))
    assert [e.total for e in b.episodes] == pytest.approx([e.total for e in a.episodes])
    assert a.episodes[0].total < -0.07 and (b.reward >= -0.0101).all()
    theirs.close()


def test_every_reset_of_theirs_begins_other_episodes():
    envs = ForSB3(Sync([Task("Pendulum-v1")] * 2), seed=3)
    first, second = envs.reset(), envs.reset()
    assert len(np.unique(np.concatenate([first, second]), axis=0)) == 4
