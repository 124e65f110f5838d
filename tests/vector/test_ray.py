"""Ray's actors as workers: the same steps to the bit, replaced when they die, and kind words for what cannot be."""

import os
import signal
import time

import numpy as np
import pytest

from cairn.core.errors import CairnError, EnvError
from cairn.envs.task import Task
from cairn.vector.choose import make_vector
from cairn.vector.in_process import Sync
from cairn.vector.ray_actors import Ray, connect

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    yield
    ray.shutdown()


def test_the_same_steps_as_in_one_process_to_the_bit():
    task = Task("Pendulum-v1", 7)
    vectors = [Sync([task] * 4), make_vector(task, 4, backend="ray", workers=2)]
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(*(v.reset([5, 6, 7, 8]) for v in vectors))
    for _ in range(20):
        action = rng.uniform(-1, 1, (4, 1)).astype(np.float32)
        a, b = (v.step(action) for v in vectors)
        for name in ("obs", "next_obs", "reward", "terminated", "truncated", "valid"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
        assert a.episodes == b.episodes
    vectors[1].close()


def test_an_actor_that_is_killed_is_replaced_and_its_step_counted_as_lost():
    envs = Ray([Task("CartPole-v1")] * 4, workers=2)
    envs.reset(range(4))
    pid = ray.get(envs.actors[1].__ray_call__.remote(lambda self: os.getpid()))
    os.kill(pid, signal.SIGKILL)
    time.sleep(0.2)
    step = envs.step(np.zeros(4, np.int64))
    assert step.valid.tolist() == [True, True, False, False] and envs.restarts == 1
    assert envs.step(np.zeros(4, np.int64)).valid.all()
    envs.close()


def test_what_an_actor_raises_is_one_sentence():
    envs = Ray([Task("CartPole-v1")] * 2, workers=2)
    envs.reset(range(2))
    with pytest.raises(EnvError, match=r"^environment 1 failed in its actor \(KeyError: 'nonsense'\)") as told:
        envs._call(1, "nonsense")
    assert "\n" not in str(told.value)
    envs.close()


def test_more_workers_than_the_cluster_holds_are_one_sentence():
    connect(1)
    with pytest.raises(CairnError, match="1000 workers need a core each, and the cluster has"):
        connect(1000)


def test_an_address_where_nothing_answers_is_told_within_seconds():
    ray.shutdown()
    begun = time.monotonic()
    with pytest.raises(CairnError, match=r"no Ray cluster answers at '127\.0\.0\.1:9'"):
        connect(1, "127.0.0.1:9")
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize(("writable", "given"), [(False, True), (True, False)])
def test_ray_gets_a_token_where_the_home_is_read_only(writable, given, tmp_path, monkeypatch):
    from cairn.vector import ray_actors as module

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "")
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    monkeypatch.setattr(module.os, "access", lambda path, mode: writable)
    module._token_without_home()
    assert ("RAY_AUTH_TOKEN" in os.environ) == given
