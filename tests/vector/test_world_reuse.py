"""Environments whose reset is not a function of the seed are found out, and made anew before a seed is played."""

import gc
from functools import partial

import gymnasium as gym
import numpy as np
import pytest

from cairn.core.errors import CairnError, EnvError
from cairn.envs.task import Task
from cairn.vector import world_reuse as module
from cairn.vector.gymnasium import Gymnasium, _warn_not_renewed
from cairn.vector.in_process import Sync
from cairn.vector.processes import Workers
from cairn.vector.world_reuse import must_renew

made = []


class Worn(gym.Env):
    """Its third observation from a reset on tells how often it was reset before: a world that remembers."""

    observation_space = gym.spaces.Box(-1e3, 1e3, (2,))
    action_space = gym.spaces.Box(-1, 1, (1,))

    def __init__(self, wears=True):
        self.wears, self.age, self.t, self.closed = wears, 0, 0, False
        made.append(self)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.age, self.t = self.age + 1, 0
        return self._obs(), {}

    def step(self, action):
        self.t += 1
        return self._obs(), 0.0, False, self.t >= 20, {}

    def _obs(self):
        return np.array([self.t, self.age if self.wears and self.t > 2 else 0], np.float32)

    def close(self):
        self.closed = True


def asked(make):
    env = make()
    try:
        return must_renew(make, env)
    finally:
        env.close()


def test_a_trial_tells_them_apart():
    assert asked(Worn) and not asked(partial(Worn, wears=False))


class Sticky(Worn):
    """Remembers only the action before a reset, and only where an episode was shorter than five steps."""

    def reset(self, *, seed=None, options=None):
        self.left = self.last if 0 < self.t < 5 else 0.0
        return super().reset(seed=seed)

    def step(self, action):
        self.last = float(action[0])
        return super().step(action)

    def _obs(self):
        return np.array([self.t, self.left], np.float32)


def test_short_episodes_find_out_what_long_ones_hide():
    assert asked(Sticky)


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "cairn/BitFlip-v0", "cairn/KeyDoorRooms-v0"])
def test_pure_tasks_are_left_alone(name):
    assert not asked(Task(name))


@pytest.mark.parametrize("name", ["BipedalWalker-v3", "LunarLander-v3"])
def test_box2d_is_known(name):
    pytest.importorskip("Box2D")
    assert asked(Task(name))


def test_the_trial_alone_finds_bipedal_walker_out(monkeypatch):
    pytest.importorskip("Box2D")
    monkeypatch.setattr(module, "SECONDS", 20.0)  # however busy the machine is
    assert module._differs_on_replay(Task("BipedalWalker-v3")())


def test_what_is_too_slow_or_fails_counts_as_one_that_remembers(monkeypatch):
    class Fails(Worn):
        def step(self, action):
            raise ValueError

    assert asked(Fails)
    monkeypatch.setattr(module, "SECONDS", 0.0)
    assert asked(partial(Worn, wears=False))


def test_a_busy_machine_finds_what_an_idle_one_does(monkeypatch):
    class Slow(Worn):
        steps = 0

        def step(self, action):
            clock[0] += 0.012  # s; 50 steps in 0.6 s
            Slow.steps += 1
            return super().step(action)

    clock = [0.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: clock[0])
    assert not asked(partial(Slow, wears=False))
    assert Slow.steps == 2 * (module.STEPS + module.EPISODES * module.SHORT)


def test_the_answer_is_kept_for_a_task(monkeypatch):
    calls = []
    monkeypatch.setattr(module, "_known", {})
    monkeypatch.setattr(module, "_differs_on_replay", lambda make: calls.append(make) or False)
    assert not asked(Task("CartPole-v1")) and not asked(Task("CartPole-v1")) and len(calls) == 1
    asked(Task("CartPole-v1", 50))
    assert len(calls) == 2


class Port(Worn):
    """Only one can be open at a time."""

    opened = 0

    def __init__(self, wears=True):
        if Port.opened:
            raise OSError("the address is in use")
        super().__init__(wears)
        Port.opened += 1

    def close(self):
        Port.opened -= 1


def test_one_that_cannot_be_made_twice_is_left_as_it_is():
    envs = Sync([Port])
    for _ in range(3):
        rows(envs, [1])
    envs.close()
    assert Port.opened == 0


def test_the_old_one_is_closed_before_a_new_one_is_made():
    envs = Sync([Port])
    envs.batch.renews = True
    np.testing.assert_array_equal(rows(envs, [1]), rows(envs, [1]))
    assert Port.opened == 1
    envs.close()


def test_a_function_that_hands_out_one_environment_is_neither_played_nor_closed():
    env = Worn()
    envs = Sync([lambda: env])
    for _ in range(2):
        rows(envs, [1])
    assert env.age == 2 and not env.closed


class Once(Worn):
    """Made in the right way twice: the one that is used, and the one that is tried."""

    count, error = 0, ValueError("no seat left")

    def __init__(self):
        Once.count += 1
        if Once.count > 2:
            raise Once.error
        super().__init__()

    def close(self):
        if self.closed:
            raise RuntimeError("closed twice")
        super().close()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("no seat left"), "environment 0 raised ValueError while it was made: no seat left"),
        (CairnError("Once-v0 needs an extra."), "environment 0 could not be made again: Once-v0 needs an extra."),
        (SystemExit(3), r"environment 0 called sys.exit\(3\) while it was made"),
    ],
)
def test_what_fails_when_it_is_made_anew_is_named(error, words, monkeypatch):
    monkeypatch.setattr(Once, "count", 0)
    monkeypatch.setattr(Once, "error", error)
    envs = Sync([Once])
    rows(envs, [1])
    with pytest.raises(EnvError, match=words):
        envs.reset([1])
    envs.close()


def test_what_fails_when_it_is_closed_is_named():
    class Stuck(Worn):
        def close(self):
            raise OSError("device busy")

    envs = Sync([Stuck])
    rows(envs, [1])
    with pytest.raises(EnvError, match="environment 0 raised OSError while it was closed: device busy"):
        envs.reset([1])


def third_fails():
    if len(made) > 1:
        raise CairnError("no seat left")
    return Worn()


def test_a_worker_tells_why_it_could_not_make_one_anew():
    made.clear()
    envs = Workers([third_fails], workers=1)
    try:
        rows(envs, [1])
        with pytest.raises(EnvError, match="environment 0 could not be made again: no seat left"):
            envs._call(0, "renew")
        assert envs.processes[0].is_alive()
    finally:
        envs.close()


def rows(envs, seeds, count=6):
    out = [envs.reset(seeds)]
    action = np.zeros((envs.num_envs, *envs.spec.action_shape), envs.spec.action_dtype)
    return np.stack(out + [envs.step(action).next_obs for _ in range(count)])


def gymnasium_vector(cls, makers):
    return Gymnasium(cls(makers, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP))


def sb3_vector(makers):
    pytest.importorskip("stable_baselines3")
    from cairn.vector.sb3 import of_task

    return of_task(makers[0], len(makers), processes=False)


BACKENDS = {
    "sync": Sync,
    "workers": partial(Workers, workers=1),
    "sb3": sb3_vector,
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_second_reset_plays_as_the_first(backend):
    envs = BACKENDS[backend]([Worn, Worn])
    try:
        np.testing.assert_array_equal(rows(envs, [1, 2]), rows(envs, [1, 2]))
    finally:
        envs.close()


@pytest.mark.parametrize("cls", [gym.vector.SyncVectorEnv, partial(gym.vector.AsyncVectorEnv, context="fork")])
def test_vectors_of_the_callers_are_left_as_they_are_which_is_said_once(cls, capsys):
    _warn_not_renewed.cache_clear()
    envs = gymnasium_vector(cls, [Worn, Worn])
    given = envs.env
    made.clear()
    try:
        for _ in range(3):
            rows(envs, [1, 2])
    finally:
        envs.close()
    assert envs.env is given and not made
    assert capsys.readouterr().err.count("not recreated at a reset") == 1


def test_pure_ones_are_not_made_anew_and_worn_ones_are_closed():
    made.clear()
    envs = Sync([partial(Worn, wears=False)] * 2)
    for _ in range(3):
        rows(envs, [1, 2])
    assert len(made) == 3 and made[2].closed  # two, and the one that was tried
    made.clear()
    envs = Sync([Worn] * 2)
    for _ in range(3):
        rows(envs, [1, 2])
    assert len(made) == 7 and sum(env.closed for env in made) == 5
    envs.close()
    assert all(env.closed for env in made)


def test_box2d_worlds_are_not_leaked():
    box2d = pytest.importorskip("Box2D")
    envs = Sync([Task("BipedalWalker-v3")] * 2)
    for _ in range(4):
        rows(envs, [1, 2])
    envs.close()
    del envs
    gc.collect()
    assert sum(type(thing) is box2d.b2World for thing in gc.get_objects()) <= 2


@pytest.mark.parametrize("backend", ["sync", "workers"])
def test_one_alone_is_begun_and_others_rest(backend):
    envs = BACKENDS[backend]([Worn] * 3)
    try:
        first = rows(envs, [1, 2, 3])
        envs.rest(np.array([False, True, True]))
        still = envs.step(np.zeros((3, 1), np.float32))
        assert still.valid.tolist() == [True, False, False]
        np.testing.assert_array_equal(still.next_obs[1:], first[-1, 1:])
        np.testing.assert_array_equal(envs.begin(2, 9), first[0, 2])
        for t in range(1, 5):
            step = envs.step(np.zeros((3, 1), np.float32))
            assert step.valid.tolist() == [True, False, True]
            np.testing.assert_array_equal(step.next_obs[2], first[t, 2])
        assert rows(envs, [1, 2, 3]).tolist() == first.tolist()  # a reset wakes all
    finally:
        envs.close()
