"""Environments that return what they must not: an EnvError that says what was expected and what came."""

import signal
import subprocess
import sys
import threading
import time
import warnings
from functools import partial
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from cairn.core.errors import CairnError, EnvError
from cairn.core.types import Box
from cairn.vector.deadline import Deadline
from cairn.vector.in_process import Sync
from cairn.vector.processes import Workers
from cairn.vector.spaces import action_spec, spec_of

ROOT = Path(__file__).parent.parent.parent


class Odd(gym.Env):
    """Well behaved but for `returns`: what takes the place of an observation, a reward, ... of a step or a reset."""

    def __init__(self, space=None, action=None, **returns):
        self.observation_space = gym.spaces.Box(-1, 1, (4,)) if space is None else space
        self.action_space = gym.spaces.Discrete(2) if action is None else action
        self.returns, self.taken = returns, None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if "resets" in self.returns:
            return self.returns["resets"]
        return np.zeros(4, np.float32) if "first" not in self.returns else self.returns["first"], {}

    def step(self, action):
        self.taken = action
        if "steps" in self.returns:
            return self.returns["steps"]
        usual = {"obs": np.zeros(4, np.float32), "reward": 0.0, "terminated": False, "truncated": False, "info": {}}
        return tuple(self.returns.get(name, value) for name, value in usual.items())


class Leaves(Odd):
    def step(self, action):
        sys.exit(3)


class LeavesAtReset(Odd):
    def reset(self, *, seed=None, options=None):
        sys.exit()


class WithoutSeed(Odd):
    def reset(self):
        return np.zeros(4, np.float32), {}


OLD = "interface of old Gym.*shimmy"
CASES = {
    "one for four": (partial(Odd, obs=np.zeros(1)), r"an observation of shape \(1,\) where its space has \(4,\)$"),
    "a scalar": (partial(Odd, obs=0.5), r"an observation of shape \(\) where its space has \(4,\)"),
    "at reset": (partial(Odd, first=np.zeros((1, 4))), r"of shape \(1, 4\) where its space has \(4,\) at reset"),
    "ragged": (partial(Odd, obs=[1, [2, 3], 4, 5]), "parts have different lengths"),
    "objects": (partial(Odd, obs=np.array([None] * 4)), "an observation of object where its space has numbers"),
    "strings": (partial(Odd, obs=np.array(["1"] * 4)), "an observation of <U1 where"),
    "complex": (partial(Odd, obs=np.zeros(4, complex)), "an observation of complex128 where"),
    "no reward": (partial(Odd, reward=None), r"a reward that is not one number \(None\)"),
    "many rewards": (partial(Odd, reward=np.zeros(3)), r"a reward that is not one number \(ndarray of shape \(3,\)\)"),
    "a reward in words": (partial(Odd, reward="1.5"), "a reward that is not one number"),
    "no flag": (partial(Odd, terminated=None), r"a terminated that is neither True nor False \(None\)"),
    "a flag in words": (partial(Odd, truncated="no"), "a truncated that is neither True nor False"),
    "two flags": (partial(Odd, terminated=np.zeros(2, bool)), "a terminated that is neither"),
    "no info": (partial(Odd, info=None), "an info of type NoneType where it must be a dictionary"),
    "exit": (Leaves, r"environment 0 called sys.exit\(3\)"),
    "exit at reset": (LeavesAtReset, r"environment 0 called sys.exit\(\) at reset"),
    "four values": (partial(Odd, steps=(np.zeros(4), 0.0, False, {})), f"4 values from step, not five.*{OLD}"),
    "obs alone": (
        partial(Odd, resets=np.zeros(4, np.float32)),
        f"one ndarray from reset.*{OLD}.*GymV26CompatibilityV0\\)$",
    ),
    "no seed": (WithoutSeed, OLD),
}


def played(envs):
    try:
        envs.reset([1])
        return envs.step(np.zeros((1, *envs.spec.action_shape), envs.spec.action_dtype))
    finally:
        envs.close()


@pytest.mark.parametrize("case", CASES)
def test_it_is_named(case):
    make, words = CASES[case]
    with pytest.raises(EnvError, match=words) as caught:
        played(Sync([make]))
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("case", ["one for four", "exit at reset", "obs alone"])
def test_workers_name_it_too(case):
    make, words = CASES[case]
    envs = Workers([make, make], workers=1)
    try:
        with pytest.raises(EnvError, match=words.removesuffix("$")):
            envs.reset([1, 2])
            for _ in range(8):
                envs.step(np.zeros(2, np.int64))
    finally:
        envs.close()


def test_old_gym_behind_gymnasiums_own_wrappers():
    gym.register("old/Steps-v0", lambda: Odd(steps=(np.zeros(4), 0.0, False, {})), max_episode_steps=10)
    try:
        with pytest.raises(EnvError, match=OLD):
            played(Sync([lambda: gym.make("old/Steps-v0", disable_env_checker=True)]))
    finally:
        gym.registry.pop("old/Steps-v0")


def test_spaces_of_old_gym():
    Theirs = type("Box", (), {"__module__": "gym.spaces.box", "__repr__": lambda self: "Box(4,)"})
    with pytest.raises(CairnError, match="old Gym's"):
        spec_of(Theirs(), gym.spaces.Discrete(2))


@pytest.mark.parametrize("processes", [False, True])
def test_sb3s_vectors_do_not_broadcast(processes):
    pytest.importorskip("stable_baselines3")
    from cairn.vector.sb3 import of_task

    envs = of_task(partial(Odd, obs=np.zeros(1, np.float32)), 2, processes=processes)
    try:
        envs.reset([1, 2])
        with pytest.raises(EnvError):
            envs.step(np.zeros(2, np.int64))
    finally:
        for process in getattr(envs.env, "processes", []):
            process.kill()


def test_bytes_must_be_bytes():
    space = gym.spaces.Box(0, 255, (4,), np.uint8)
    with pytest.raises(EnvError, match="of float64 that is not made of bytes"):
        played(Sync([partial(Odd, space, first=np.zeros(4, np.uint8), obs=np.full(4, 0.5))]))
    step = played(Sync([partial(Odd, space, first=np.zeros(4, np.uint8), obs=[1, 2, 3, 255])]))
    assert step.next_obs.tolist() == [[1, 2, 3, 255]]


def test_what_is_only_untidy_is_taken():
    untidy = partial(Odd, obs=[0.0, 1.0, 2.0, 3.0], reward=np.array([2.0]), terminated=np.bool_(True), truncated=0)
    step = played(Sync([untidy]))
    assert step.next_obs.tolist() == [[0, 1, 2, 3]] and step.reward[0] == 2 and step.terminated[0]


@pytest.mark.parametrize("make", [lambda makers: Sync(makers), lambda makers: Workers(makers * 2, workers=1)])
def test_a_scalar_observation_is_a_row_of_one(make):
    space = gym.spaces.Box(-1, 1, ())
    envs = make([partial(Odd, space, first=np.float32(0.5), obs=0.25)])
    try:
        assert envs.spec.obs_shape == (1,)
        assert envs.reset([1] * envs.num_envs).tolist() == [[0.5]] * envs.num_envs
        assert envs.step(np.zeros(envs.num_envs, np.int64)).next_obs[0].tolist() == [0.25]
    finally:
        envs.close()


def test_scalar_observations_in_gymnasiums_vectors():
    from gymnasium.vector import SyncVectorEnv

    from cairn.vector.gymnasium import Gymnasium

    space = gym.spaces.Box(-1, 1, ())
    envs = Gymnasium(SyncVectorEnv([partial(Odd, space, first=np.float32(0.5), obs=np.float32(0.25))] * 2))
    assert envs.reset([1, 2]).tolist() == [[0.5], [0.5]]
    assert envs.step(np.zeros(2, np.int64)).next_obs.tolist() == [[0.25], [0.25]]


def test_integer_actions_are_integers():
    space = gym.spaces.Box(0, 4, (2,), np.int32)
    made = []

    def make():
        made.append(Odd(action=space))
        return made[-1]

    envs = Sync([make])
    envs.reset([1])
    for given, expected in (([-1.0, 1.0], [0, 4]), ([0.0, 0.4], [2, 3]), ([9.0, -9.0], [4, 0])):
        envs.step(np.array([given], np.float32))
        assert made[0].taken.dtype == np.int32 and made[0].taken.tolist() == expected
    np.testing.assert_allclose(envs.spec.action.from_env(np.array([[0, 4]])), [[-1, 1]])


def test_a_box_of_one_point_is_a_fixed_action():
    box = action_spec(gym.spaces.Box(np.array([2.0, -1.0], np.float32), np.array([2.0, 1.0], np.float32)))
    np.testing.assert_array_equal(box.to_env(np.array([[0.3, 0.5], [-1.0, -1.0]])), [[2, 0.5], [2, -1]])
    np.testing.assert_array_equal(box.from_env(np.array([[2.0, 0.5]])), [[0, 0.5]])


def test_bounds_that_are_none():
    space = gym.spaces.Box(-1, 1, (2,))
    space.low[0] = np.nan
    with pytest.raises(CairnError, match="NaN"):
        action_spec(space)
    wide = Box((1,), (-3.4e38,), (3.4e38,))  # finite, and the way between them is not
    assert not wide.bounded and np.isfinite(wide.to_env(np.array([[0.5]]))).all()


def test_a_vector_made_here_and_stepped_in_a_thread():
    envs, found = Sync([Odd], timeout=5.0), []
    thread = threading.Thread(target=lambda: found.append(played(envs)))
    thread.start()
    thread.join()
    assert found[0].valid.all()


def test_an_alarm_of_the_user_is_put_back():
    rung = []
    before = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with Deadline(5.0):
            pass
        time.sleep(0.4)
        assert rung == [1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Slow(Odd):
    """Takes longer to be made than a step may take."""

    def __init__(self):
        time.sleep(0.6)
        super().__init__()


def test_the_start_of_a_worker_does_not_count():
    envs = Workers([Slow, Slow], workers=1, timeout=0.5)
    try:
        envs.reset([1, 2])
        assert envs.step(np.zeros(2, np.int64)).valid.all() and envs.restarts == 0
    finally:
        envs.close()


ORPHANS = """
import time, numpy as np
from functools import partial
from cairn.vector.processes import Workers
from tests.vector.counting import Counting

class Slow(Counting):
    def step(self, action):
        time.sleep({pause})
        return super().step(action)

envs = Workers([partial(Slow, i, (50,)) for i in range(2)], workers=2)
envs.reset([1, 2])
print(*[process.pid for process in envs.processes], flush=True)
while True:
    envs.step(np.zeros(2, np.int64))
"""


@pytest.mark.parametrize("pause", [0.02, 30.0])
def test_workers_of_a_killed_parent_leave_quietly_and_at_once(pause):
    parent = subprocess.Popen(
        [sys.executable, "-c", ORPHANS.format(pause=pause)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    workers = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(workers) == 2
    time.sleep(0.2)
    parent.kill()
    said = parent.communicate(timeout=20)[1]  # returns once nobody holds the pipe: they are gone
    assert said == ""
    assert not any(
        Path(f"/proc/{pid}/stat").exists() and " Z " not in Path(f"/proc/{pid}/stat").read_text() for pid in workers
    )


def test_workers_do_not_warn_of_our_own_tasks():
    code = (
        "from cairn.vector.processes import Workers\nfrom cairn.envs.task import Task\n"
        "envs = Workers([Task('CartPole-v1')] * 2, workers=1)\nenvs.reset([1, 2])\nenvs.close()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""


@pytest.mark.parametrize("reward", [1e308, -1e39, np.float64(1e300)])
def test_a_reward_too_large_for_float32_is_told_without_a_warning(reward):
    class Rich(gym.Env):
        observation_space, action_space = spaces.Box(-np.inf, np.inf, (1,), np.float64), spaces.Discrete(2)
        large = 0.0

        def reset(self, *, seed=None, options=None):
            return np.zeros(1), {}

        def step(self, action):
            return np.full(1, self.large), 0.0 if self.large else reward, False, False, {}

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        envs = Sync([Rich])
        envs.reset([0])
        with pytest.raises(EnvError, match=r"returned a reward of -?1e\+\d+, which is too large for float32"):
            envs.step(np.zeros(1, np.int64))
        Rich.large = 1e308
        with pytest.raises(EnvError, match="returned an observation that is not finite, or too large for float32"):
            envs.step(np.zeros(1, np.int64))
