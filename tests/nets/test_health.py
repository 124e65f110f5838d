"""Dead units are counted as a loop over units counts them, in every kind of network; a critic is judged by hand."""

import pytest
import torch

from cairn.core.types import Discrete, Spec
from cairn.nets.actor_critic import ActorCritic
from cairn.nets.health import dead_units, explained_variance, hidden
from cairn.nets.mlp import MLP
from cairn.nets.values import q_net

IMAGES = Spec((4, 42, 42), "uint8", Discrete(3))
VECTORS = Spec((5,), "float32", Discrete(3))


def kill(layer, units):
    layer.weight.data[..., units] = 0.0
    layer.bias.data[..., units] = -1.0


def test_the_share_of_units_that_are_0_on_the_whole_batch():
    net, x = MLP(5, (10, 30), 2), torch.randn(256, 5)
    assert dead_units((net, x)) < 0.1
    kill(net.layers[0], slice(0, 4))
    by_hand = [all(float(row[unit]) == 0 for row in y) for y in hidden(net, x) for unit in range(y.shape[-1])]
    assert dead_units((net, x)) == pytest.approx(sum(by_hand) / 40)
    assert sum(by_hand[:10]) >= 4


def test_a_unit_that_speaks_once_lives():
    net, x = MLP(1, (1,), 1), torch.tensor([[-1.0], [-2.0], [1.0]])
    net.layers[0].weight.data[:], net.layers[0].bias.data[:] = 1.0, 0.0
    assert dead_units((net, x)) == 0.0
    assert dead_units((net, x[:2])) == 1.0


def test_members_of_an_ensemble_count_each_and_of_several_networks_the_worst():
    pair, x = MLP(5, (8,), 1, members=2), torch.randn(256, 5)
    pair.layers[0].weight.data[1], pair.layers[0].bias.data[1] = 0.0, -1.0
    share = float(dead_units((pair, x)))
    assert share == pytest.approx(0.5, abs=0.1)
    assert dead_units((MLP(5, (8,), 1), x), (pair, x)) == share


@pytest.mark.parametrize(
    "net",
    [
        q_net(IMAGES, 0, (), 3),
        q_net(IMAGES, 0, (), 3, quantiles=5, dueling=True),
        ActorCritic(IMAGES, (), activation="tanh", log_std=0.0),
    ],
)
def test_convolutions(net):
    x = torch.randint(256, (64, 4, 42, 42), dtype=torch.uint8)
    assert dead_units((net, x)) < 0.7
    for part in net.modules():
        if hasattr(part, "dense"):
            kill(part.dense, slice(None))
    assert dead_units((net, x)) == 1.0


def test_layer_norm_is_seen_as_it_is_used_and_tanh_has_none():
    x = 1e4 * torch.randn(256, 5)
    net = MLP(5, (16, 16), 1, layer_norm=True)
    net.layers[0].bias.data[:] = -1e6
    plain = MLP(5, (16, 16), 1)
    plain.load_state_dict(net.state_dict())
    assert dead_units((net, x)) < 0.3 < dead_units((plain, x))
    assert dead_units((ActorCritic(VECTORS, (8,), activation="tanh", log_std=0.0), x)) == 0.0
    assert dead_units((q_net(VECTORS, 5, (8, 8), 3, dueling=True), x)) < 0.5


def test_explained_variance_by_hand():
    returns = torch.tensor([1.0, 2.0, 3.0, 4.0])  # variance 1.25
    assert explained_variance(returns, returns) == 1.0
    assert explained_variance(returns + 7, returns) == 1.0  # an offset is no matter of variance
    assert explained_variance(torch.full((4,), 9.0), returns) == 0.0
    assert explained_variance(-returns, returns) == 1 - 4.0
    assert explained_variance(torch.tensor([1.0, 2.0, 3.0, 2.0]), returns) == pytest.approx(1 - 0.75 / 1.25)
    assert explained_variance(torch.randn(4), torch.full((4,), 50.0)) == 1.0  # nothing to explain
