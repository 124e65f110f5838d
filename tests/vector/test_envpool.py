"""EnvPool behind the contract: what it stores is what Gymnasium's own physics make of each state and action."""

import gymnasium as gym
import numpy as np
import pytest

from cairn.core.errors import CairnError
from cairn.envs.task import Task
from cairn.vector.choose import choose, make_vector, throughput
from cairn.vector.envpool import EnvPool

pytest.importorskip("envpool")


def test_every_valid_row_is_a_true_transition_and_no_end_leaks_into_the_next_episode():
    envs = EnvPool("CartPole-v1", 6, limit=16)
    judge = gym.make("CartPole-v1").unwrapped
    judge.reset(seed=0)
    try:
        obs, rng = envs.reset(range(6)), np.random.default_rng(0)
        lengths, fillers, ends = np.zeros(6, int), 0, {"terminated": 0, "truncated": 0}
        over = np.zeros(6, bool)
        for _ in range(200):
            action = rng.integers(0, 2, 6)
            step = envs.step(action)
            np.testing.assert_array_equal(step.valid, ~over)  # the row after an end, and no other
            for i in range(6):
                if not step.valid[i]:
                    fillers += 1
                    assert not step.terminated[i] and not step.truncated[i]
                    assert np.abs(step.obs[i]).max() <= 0.05  # as an episode begins
                    continue
                judge.state, judge.steps_beyond_terminated = obs[i].astype(float), None
                expected, reward, terminated, _, _ = judge.step(int(action[i]))
                np.testing.assert_allclose(step.next_obs[i], expected, atol=1e-5)
                lengths[i] += 1
                last = lengths[i] == 16  # what ends with its time as well is told as that alone
                terminated &= not last
                assert (step.reward[i], step.terminated[i], step.truncated[i]) == (reward, terminated, last)
                ends["terminated"] += terminated
                ends["truncated"] += bool(step.truncated[i])
            for episode in step.episodes:
                assert episode.length == episode.total == lengths[episode.env]
            over = step.terminated | step.truncated
            lengths[over] = 0
            obs = step.obs
        assert fillers > 20 and min(ends.values()) > 5
    finally:
        envs.close()


def test_copies_differ_and_seeds_repeat():
    envs = EnvPool("CartPole-v1", 64)
    try:
        first = envs.reset(range(100, 164))
        assert len(np.unique(first, axis=0)) == 64
        step = envs.step(np.ones(64, np.int64))
        np.testing.assert_array_equal(envs.reset(range(100, 164)), first)
        np.testing.assert_array_equal(envs.step(np.ones(64, np.int64)).next_obs, step.next_obs)
        np.testing.assert_array_equal(envs.reset(range(101, 165))[:63], first[1:])  # each by its own seed
    finally:
        envs.close()


def test_a_time_limit_is_gymnasiums_or_the_one_asked_for():
    for limit, expected in ((None, 200), (50, 50), (0, None)):
        envs = make_vector(Task("Pendulum-v1", limit), 2, backend="envpool")
        envs.reset([0, 1])
        found = next((t for t in range(1, 300) if envs.step(np.zeros((2, 1), np.float32)).truncated[0]), None)
        envs.close()
        assert found == expected


def test_goals_and_success_come_through():
    pytest.importorskip("gymnasium_robotics")
    task = Task("FetchReach-v4")
    pool, plain = make_vector(task, 2, backend="envpool"), make_vector(task, 2, backend="sync")
    try:
        assert pool.spec == plain.spec
        pool.reset([0, 1])
        step = [pool.step(np.zeros((2, 4), np.float32)) for _ in range(50)][-1]
        assert step.truncated.all() and {e.success for e in step.episodes} <= {True, False}
    finally:
        pool.close()
        plain.close()


def test_what_it_cannot_step_is_one_sentence():
    for task, words in (
        (Task("CartPole-v7"), "no task 'CartPole-v7'. Did you mean"),
        (Task("BipedalWalker-v3", args={"hardcore": True}), "supports neither env_args"),
        (Task("cairn/BitFlip-v0"), "has no task"),
        (lambda: gym.make("CartPole-v1"), "takes a task by its id, not a function"),
    ):
        with pytest.raises(CairnError, match=words):
            make_vector(task, 2, backend="envpool")


def test_auto_takes_the_fastest_of_those_that_are_right(monkeypatch):
    from cairn.vector import choose as make

    assert make.suitable_backends(Task("CartPole-v1"), 1) == ["sync"]
    assert make.suitable_backends(Task("CartPole-v1"), 4) == ["sync", "async", "envpool"]
    assert make.suitable_backends(Task("cairn/BitFlip-v0"), 4) == ["sync", "async"]
    assert make.suitable_backends(lambda: gym.make("CartPole-v1"), 4) == ["sync", "async"]
    speed = {"sync": 10.0, "async": 30.0, "envpool": 20.0}
    monkeypatch.setattr(make, "throughput", lambda task, n, backend, workers: speed[backend])
    assert choose(Task("CartPole-v1"), 4) == "async"


def test_throughput_counts_steps_that_are_steps(monkeypatch):
    """An end in every step makes every second row of EnvPool's a restart: counted, it would be twice as fast."""
    from cairn.vector import choose as make

    rows, valid = [], []

    class Counted:
        def __init__(self, envs):
            self.envs, self.spec = envs, envs.spec
            self.reset, self.close = envs.reset, envs.close

        def step(self, action):
            step = self.envs.step(action)
            rows.append(len(step.valid))
            valid.append(int(step.valid.sum()))
            return step

    made = make.make_vector
    monkeypatch.setattr(make, "make_vector", lambda *args, **options: Counted(made(*args, **options)))
    seconds = 0.1
    found = throughput(Task("CartPole-v1", 1), 2, "envpool", seconds=seconds)
    assert sum(valid) < 0.6 * sum(rows)
    assert 0 < found <= sum(valid) / seconds  # and so less than the rows would have made


def test_worlds_that_remember_are_made_anew_and_what_is_open_is_cut(monkeypatch):
    monkeypatch.setattr("cairn.vector.envpool.RENEW_EVERY", 20)
    envs = EnvPool("BipedalWalker-v3", 3, threads=1)
    first = envs.reset([1, 2, 3])
    still, begun = np.zeros((3, 4), np.float32), [first]
    for t in range(1, 61):
        step = envs.step(still)
        assert step.truncated.all() == (t % 20 == 0) and not step.episodes
        assert np.array_equal(step.obs, step.next_obs) == (t % 20 != 0)
        if t % 20 == 0:
            begun.append(step.obs)
    assert len(np.unique(np.concatenate(begun), axis=0)) == 12
    again = EnvPool("BipedalWalker-v3", 3, threads=1)
    again.reset([1, 2, 3])
    for _ in range(20):
        step = again.step(still)
    np.testing.assert_array_equal(step.obs, begun[1])
    assert not EnvPool("CartPole-v1", 2, threads=1).renews
