"""Targets that keep to what a return can be; quantiles, streams and weights."""

import pytest
import torch

from cairn.algorithms.dqn import DQN, DQNConfig
from cairn.core.errors import CairnError
from cairn.core.losses import huber_td, quantile_huber
from cairn.core.schedules import constant
from cairn.core.types import Discrete, Spec, Transition, WeightedTransition

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
    with pytest.raises(CairnError, match=r"agent\.q_range is .*two numbers, the smaller first"):
        DQN(DQNConfig(q_range=q_range), SPEC)


def test_the_target_of_quantiles_is_made_of_each_and_the_best_action_by_their_mean():
    batch = transitions([1.0, -1.0, 0.5])
    agent = DQN(DQNConfig(hidden=(16,), quantiles=5, double=False), SPEC, seed=3)
    with torch.no_grad():
        z = agent.target.quantiles(batch.next_obs)
        best = z.mean(-1).argmax(-1)
        want = torch.stack([batch.reward[b] + 0.9 * z[b, best[b]] for b in range(3)])
        now = torch.stack([agent.q.quantiles(batch.obs)[b, batch.action[b]] for b in range(3)])
    torch.testing.assert_close(agent.td_target(batch, batch.next_obs), want)
    assert torch.isclose(agent.update(batch)["train/loss"], quantile_huber(now, want))
    clipped = DQN(DQNConfig(hidden=(16,), quantiles=5, q_range=(-0.2, 0.2)), SPEC, seed=3)
    assert clipped.td_target(batch, batch.next_obs).abs().max() == pytest.approx(0.2)


def test_quantiles_keep_to_what_is_allowed():
    batch = transitions([0.0] * 6)
    agent = DQN(DQNConfig(hidden=(16,), quantiles=5, dueling=True, epsilon=constant(0.5)), SPEC, seed=3)
    agent.allowed = lambda obs: torch.tensor([[False, True]]).expand(len(obs), 2)
    assert (agent.act(batch.obs, explore=True) == 1).all() and (agent.act(batch.obs, explore=False) == 1).all()
    want = 0.9 * agent.target.quantiles(batch.next_obs)[:, 1].detach()
    torch.testing.assert_close(agent.td_target(batch, batch.next_obs), want)


@pytest.mark.parametrize("quantiles", [0, 5])
def test_weights_count_and_errors_are_told(quantiles):
    even = transitions([1.0, -2.0, 0.5, 3.0])
    batch = WeightedTransition(**even.__dict__, weight=torch.tensor([1.0, 4.0, 2.0, 1.0]))
    agent = DQN(DQNConfig(hidden=(16,), quantiles=quantiles, priority_beta=constant(0.5)), SPEC, seed=3)
    with torch.no_grad():
        q = agent.q(even.obs).gather(1, even.action[:, None])[:, 0]
        target = agent.td_target(even, even.next_obs).view(4, -1).mean(-1)
        each = [agent.td_target(even, even.next_obs), agent._judge(agent.q, even.obs)[torch.arange(4), even.action]]
        weight = torch.tensor([0.5, 1.0, 0.5**0.5, 0.5])
        want = (quantile_huber if quantiles else huber_td)(each[1], each[0], weight)
    told = agent.update(batch)
    assert torch.isclose(told["train/loss"], want)
    torch.testing.assert_close(told["train/td_error"], (target - q).abs())


def test_each_environment_has_an_epsilon_of_its_own():
    """ε^(1 + αi / (N - 1)): the first explores most."""
    cfg = DQNConfig(hidden=(4,), epsilon=constant(0.5), epsilon_spread=3.0)
    agent = DQN(cfg, SPEC, seed=0)
    obs = torch.zeros(5, *SPEC.obs_shape)
    best = agent.act(obs, explore=False)
    other = sum((agent.act(obs, explore=True) != best).float() for _ in range(4000)) / 4000
    share = 1 - 1 / SPEC.action.n
    expected = share * 0.5 ** (1 + 3 * torch.linspace(0, 1, 5))
    torch.testing.assert_close(other, expected, atol=0.03, rtol=0)
    one = sum(int(agent.act(obs[:1], explore=True) != best[:1]) for _ in range(4000)) / 4000
    assert abs(one - share * 0.5) < 0.03
