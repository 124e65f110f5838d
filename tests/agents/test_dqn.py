"""Targets that keep to what a return can be."""

import pytest
import torch

from cairn.agents.dqn import DQN, DQNConfig
from cairn.core.errors import CairnError
from cairn.core.losses import huber_td
from cairn.core.schedules import constant
from cairn.core.types import Discrete, Spec, Transition

SPEC = Spec((3,), "float32", Discrete(2))


def transitions(reward, discount=0.9):
    obs, next_obs = torch.randn(2, len(reward), 3, generator=torch.Generator().manual_seed(0))
    action = torch.arange(len(reward)) % 2
    return Transition(obs, action, torch.tensor(reward), next_obs, torch.full((len(reward),), discount))


@pytest.mark.parametrize("double", [True, False])
def test_targets_are_clipped_to_the_range_and_nothing_else_is(double):
    batch = transitions([-50.0, -0.5, 0.25, 50.0])
    agent = DQN(DQNConfig(hidden=(16,), q_range=(-1.0, 0.5), double=double), SPEC, seed=3)
    with torch.no_grad():
        q = agent.q(batch.obs).gather(1, batch.action[:, None])[:, 0]
        plain = batch.reward + batch.discount * agent.target(batch.next_obs).amax(-1)  # at first the target is Q itself
    assert plain[0] < -1 and plain[-1] > 0.5 and (plain[1:3].abs() < 0.5).any()  # below, above and between
    assert torch.isclose(agent.update(batch)["train/loss"], huber_td(q, plain.clamp(-1.0, 0.5)))
    free = DQN(DQNConfig(hidden=(16,), double=double), SPEC, seed=3)
    assert torch.isclose(free.update(batch)["train/loss"], huber_td(q, plain))


@pytest.mark.parametrize(("q_range", "least", "most"), [((0.0, 2.0), 1.8, 2.2), (None, 5.0, 1e9)])
def test_a_value_that_would_grow_for_ever_stays_in_range(q_range, least, most):
    batch = transitions([1.0] * 8, discount=1.0)
    agent = DQN(DQNConfig(hidden=(16,), lr=constant(1e-2), q_range=q_range, target_every=5), SPEC)
    for _ in range(500):
        agent.update(batch)
    learned = agent.q(batch.obs).gather(1, batch.action[:, None])
    assert least < learned.min() and learned.max() < most


@pytest.mark.parametrize("q_range", [(1.0,), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0, 2.0)])
def test_a_range_that_is_none_is_refused(q_range):
    with pytest.raises(CairnError, match=r"agent\.q_range is .*two numbers, the least first"):
        DQN(DQNConfig(q_range=q_range), SPEC)
