"""An expert that remembers: its subgoals are those of the episode it is in, however many it is asked about."""

import numpy as np

from cairn.algorithms import HIROConfig, TD3Config, build
from cairn.algorithms.imitation.expert import Expert
from cairn.algorithms.player import Player
from cairn.envs.task import Task
from cairn.vector.choose import make_vector
from tests.envs import toys  # noqa: F401  (registers the toys)

SMALL = TD3Config(hidden=(16,))


def test_a_hierarchy_is_asked_as_it_plays_and_anew_where_their_number_is_another():
    envs = make_vector(Task("goaltoy/Plane-v0"), 3, backend="sync")
    obs, spec = envs.reset([1, 2, 3]), envs.spec
    envs.close()
    agent = build(HIROConfig(high=SMALL, low=SMALL, subgoal_range=(2.0, 2.0), every=5), spec, seed=1)
    moved = (obs + 1).astype(obs.dtype)  # another place, another subgoal: unless one is remembered

    expert, player = Expert(agent, spec), Player(agent)
    expert.forget(np.ones(3, bool))  # of what was never asked: nothing to forget
    np.testing.assert_array_equal(expert(obs), player(obs))
    remembered = expert(moved)
    np.testing.assert_array_equal(remembered, player(moved))
    assert not np.allclose(remembered, Player(agent)(moved))

    first = np.array([True, False, False])
    expert.forget(first)
    player.forget(first)
    np.testing.assert_array_equal(expert(moved), player(moved))
    np.testing.assert_array_equal(expert(moved[:1]), Player(agent)(moved[:1]))
    np.testing.assert_allclose(expert(moved), Player(agent)(moved))
