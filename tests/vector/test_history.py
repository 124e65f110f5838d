"""A history of observations and a floor under rewards: around an environment and around a vector they are the same."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import tests.envs.toys  # noqa: F401  registers the toys
from cairn.algorithms import SACConfig
from cairn.core.errors import CairnError
from cairn.envs.task import Task
from cairn.recipes.recipe import Recipe
from cairn.runs.train import train
from cairn.vector.choose import make_vector
from cairn.vector.history import HistoryVector

POLE = Task("CartPole-v1", history=3, reward_floor=1.5)


def played(envs, steps=60):
    """Every step of a vector under the same random actions."""
    rng = np.random.default_rng(0)
    obs, found = envs.reset(range(envs.num_envs)), []
    for _ in range(steps):
        step = envs.step(rng.integers(0, 2, envs.num_envs))
        found.append((obs, step))
        obs = step.obs
    envs.close()
    return found


def test_a_history_is_the_last_observations_and_begins_with_zeros():
    bare, shown = played(make_vector(POLE.plain, 4, backend="sync")), played(make_vector(POLE, 4, backend="sync"))
    last: list[list[np.ndarray]] = [[] for _ in range(4)]
    for (alone, one), (seen, step) in zip(bare, shown, strict=True):
        for i in range(4):
            last[i].append(alone[i])
            rows = [np.zeros(4, np.float32)] * 2 + last[i]
            np.testing.assert_array_equal(seen[i], np.concatenate(rows[-3:]))
            np.testing.assert_array_equal(step.next_obs[i], np.concatenate([*rows, one.next_obs[i]][-3:]))
            if one.terminated[i]:
                last[i] = []
    assert sum(len(step.episodes) for _, step in shown) > 5


def test_around_an_environment_and_around_a_vector_they_are_the_same():
    inside = make_vector(POLE, 4, backend="sync")
    outside = HistoryVector(make_vector(POLE.plain, 4, backend="sync"), history=3, floor=1.5)
    assert inside.spec == outside.spec and inside.spec.stack == 3
    for (obs, a), (other, b) in zip(played(inside), played(outside), strict=True):
        np.testing.assert_array_equal(obs, other)
        for name in ("obs", "next_obs", "reward", "terminated", "truncated", "valid"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name), name)
        assert a.episodes == b.episodes
        assert (a.reward == 1.5).all()
        assert all(episode.total == episode.length for episode in a.episodes)  # what it really paid


def test_scores_know_no_floor():
    for _, step in played(make_vector(POLE.for_scoring(), 2, backend="sync")):
        assert (step.reward == 1.0).all()


@pytest.mark.parametrize("history", [1, 3])
def test_envpool_shows_them_too(history):
    pytest.importorskip("envpool")
    task = replace(POLE, history=history)
    found = played(make_vector(task, 4, backend="envpool"))
    for (_, before), (seen, step) in itertools.pairwise(found):
        assert seen.shape == (4, 4 * history)
        fresh = before.terminated | before.truncated | ~before.valid
        np.testing.assert_array_equal(seen[fresh, :-4], 0)
        np.testing.assert_array_equal(step.next_obs[step.valid, :-4], seen[step.valid, 4:])
        assert (step.reward[step.valid] == 1.5).all()


def test_a_history_of_goals_is_refused():
    with pytest.raises(CairnError, match="history needs flat"):
        Task("goaltoy/Plane-v0", history=2)()


def test_off_policy_each_observation_of_a_history_is_stored_once(tmp_path):
    agent = SACConfig(hidden=(8,), learning_starts=50, capacity=200, batch_size=16)
    recipe = Recipe(env="Pendulum-v1", agent=agent, steps=120, envs=2, history=4, eval_every=120, eval_episodes=1)
    outcome = train(recipe, tmp_path)
    assert outcome.agent.spec.obs_shape == (12,)
