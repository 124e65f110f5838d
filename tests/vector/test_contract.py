"""Every backend and autoreset mode delivers the same, true transitions."""

from functools import partial

import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from cairn.vector.gymnasium import Gymnasium
from cairn.vector.in_process import Sync
from cairn.vector.processes import Workers
from cairn.vector.ray_actors import Ray
from tests.vector.counting import Counting


def gymnasium_vector(cls, mode):
    return lambda makers: Gymnasium(cls(makers, autoreset_mode=mode))


def sb3_vector(name):
    def make(makers):
        vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
        from cairn.vector.sb3 import SB3

        return SB3(getattr(vec_env, name)(makers))

    return make


def ray_vector(makers):
    pytest.importorskip("ray")
    return Ray(makers, workers=2)


BACKENDS = {
    "ray": ray_vector,
    "sb3-dummy": sb3_vector("DummyVecEnv"),
    "sb3-subproc": sb3_vector("SubprocVecEnv"),
    "sync": Sync,
    "workers-1": partial(Workers, workers=1),
    "workers-2": partial(Workers, workers=2),
    **{
        f"gymnasium-{cls.__name__}-{mode.name}": gymnasium_vector(cls, mode)
        for cls in (SyncVectorEnv, AsyncVectorEnv)
        for mode in AutoresetMode
    },
}

# (lengths, how) of each environment: ends by termination, truncation, both, at step 1, and mixtures
CASES = {
    "terminates": [((3,), "t"), ((3,), "t"), ((3,), "t")],
    "truncates": [((4,), "u"), ((2,), "u"), ((3,), "u")],
    "both at once": [((2,), "b"), ((3,), "b"), ((4,), "b")],
    "at step 1": [((1,), "t"), ((1,), "u"), ((1,), "b")],
    "mixed": [((1, 3, 2), "tub"), ((4, 1), "ut"), ((2, 2, 1, 5), "btut")],
}


def what_must_happen(index, lengths, how, count):
    """One environment's first transitions: (obs, action, reward, next_obs, terminated, truncated, seen next)."""
    out, episode, t = [], 0, 0
    for k in range(count):
        action = (k + index) % 5
        t += 1
        over = t >= lengths[episode % len(lengths)]
        way = how[episode % len(how)]
        terminated, truncated = over and way in "tb", over and way in "ub"
        row = ((index, episode, t - 1), action, 100 * episode + t, (index, episode, t), terminated, truncated)
        episode, t = (episode + 1, 0) if over else (episode, t)
        out.append((*row, (index, episode, t)))
    return out


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_stored_transitions(backend, case):
    makers = [partial(Counting, i, lengths, how) for i, (lengths, how) in enumerate(CASES[case])]
    envs = BACKENDS[backend](makers)
    try:
        obs = envs.reset([1, 2, 3])
        stored = [[] for _ in makers]
        episodes = [[] for _ in makers]
        for _ in range(24):
            action = np.array([(len(stored[i]) + i) % 5 for i in range(3)])
            step = envs.step(action)
            for i in np.flatnonzero(step.valid):
                row = (tuple(obs[i]), int(action[i]), step.reward[i], tuple(step.next_obs[i]))
                stored[i].append((*row, bool(step.terminated[i]), bool(step.truncated[i])))
            for e in step.episodes:
                episodes[e.env].append(e)
            obs = step.obs
    finally:
        envs.close()
    for i, (lengths, how) in enumerate(CASES[case]):
        assert len(stored[i]) >= 12
        expected = what_must_happen(i, lengths, how, len(stored[i]))
        if backend.startswith("sb3"):  # it says "truncated" only of what did not terminate as well
            expected = [(*row[:5], row[5] and not row[4], row[6]) for row in expected]
        assert stored[i] == [row[:6] for row in expected]
        # our own statistics: true returns, lengths and successes
        for k, episode in enumerate(episodes[i]):
            n = lengths[k % len(lengths)]
            assert (episode.length, episode.total) == (n, sum(100 * k + t for t in range(1, n + 1)))
            assert episode.success is (n % 2 == 0)
        assert len(episodes[i]) == sum(row[4] or row[5] for row in expected)


@pytest.mark.parametrize("backend", ["sync", "workers-2", "gymnasium-SyncVectorEnv-SAME_STEP"])
def test_steps_that_reset_nothing_are_all_valid(backend):
    envs = BACKENDS[backend]([partial(Counting, i) for i in range(3)])
    try:
        envs.reset([1, 2, 3])
        assert all(envs.step(np.zeros(3, np.int64)).valid.all() for _ in range(10))
    finally:
        envs.close()


def test_sync_and_workers_agree_to_the_bit_on_a_real_task():
    from cairn.envs.task import Task

    task = Task("CartPole-v1")
    vectors = [Sync([task] * 5), Workers([task] * 5, workers=2)]
    try:
        rng = np.random.default_rng(0)
        firsts = [v.reset([11, 12, 13, 14, 15]) for v in vectors]
        np.testing.assert_array_equal(*firsts)
        assert len(np.unique(firsts[0], axis=0)) == 5  # every environment has a seed of its own
        for _ in range(100):
            action = rng.integers(0, 2, 5)
            a, b = (v.step(action) for v in vectors)
            for name in ("obs", "next_obs", "reward", "terminated", "truncated", "valid"):
                np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
            assert a.episodes == b.episodes
    finally:
        for v in vectors:
            v.close()


def test_a_time_limit_can_be_set_and_lifted():
    from cairn.envs.task import Task

    def length(limit):
        envs = Sync([Task("Pendulum-v1", limit)])
        envs.reset([0])
        for t in range(1, 300):
            step = envs.step(np.zeros((1, 1), np.float32))
            if step.truncated[0]:
                return t
        return None

    assert (length(None), length(50), length(0)) == (200, 50, None)


def test_actions_arrive_in_the_tasks_own_units():
    from cairn.core.types import Box

    space = Box((2,), (-2.0, 0.0), (2.0, 10.0))
    np.testing.assert_allclose(
        space.to_env(np.array([[-1.0, 1.0], [0.5, 0.0], [9.0, -9.0]])), [[-2, 10], [1, 5], [2, 0]]
    )
    np.testing.assert_allclose(space.from_env(np.array([[1.0, 5.0]])), [[0.5, 0.0]])


def test_goal_observations_are_laid_out_as_their_spec_says():
    import gymnasium as gym

    from cairn.vector.spaces import spec_of

    parts = {"observation": 3, "achieved_goal": 2, "desired_goal": 2}
    space = gym.spaces.Dict({k: gym.spaces.Box(-1, 1, (n,)) for k, n in parts.items()})
    spec, layout = spec_of(space, gym.spaces.Discrete(2))
    flat = layout({"desired_goal": [6, 7], "observation": [1, 2, 3], "achieved_goal": [4, 5]})
    assert flat[spec.goal.achieved].tolist() == [4, 5] and flat[spec.goal.desired].tolist() == [6, 7]
    assert spec.obs_shape == (7,)
