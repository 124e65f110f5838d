"""Q as streams and as quantiles."""

import pytest
import torch

from cairn.core.types import Discrete, Spec
from cairn.nets.cnn import ImpalaCNN, NatureCNN
from cairn.nets.health import dead_units
from cairn.nets.mlp import MLP
from cairn.nets.values import ReturnHead, q_net

VECTOR, IMAGE = Spec((5,), "float32", Discrete(3)), Spec((2, 36, 36), "uint8", Discrete(3))


def test_nothing_asked_for_is_the_plain_network():
    assert isinstance(q_net(VECTOR, 5, (8,), 3), MLP)
    assert isinstance(q_net(IMAGE, 5, (8,), 3), NatureCNN) and isinstance(
        q_net(IMAGE, 5, (), 3, cnn="impala"), ImpalaCNN
    )


@pytest.mark.parametrize("spec", [VECTOR, IMAGE])
@pytest.mark.parametrize("quantiles", [0, 7])
@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("cnn", ["nature", "impala"])
def test_q_is_the_mean_of_the_quantiles(spec, quantiles, dueling, cnn):
    net = q_net(spec, 5, (16, 8), 3, quantiles=quantiles, dueling=dueling, cnn=cnn)
    obs = torch.rand(4, 5) if spec is VECTOR else torch.randint(0, 256, (4, 2, 36, 36), dtype=torch.uint8)
    assert net(obs).shape == (4, 3)
    if isinstance(net, ReturnHead):
        assert net.quantiles(obs).shape == (4, 3, quantiles or 1)
        torch.testing.assert_close(net(obs), net.quantiles(obs).mean(-1))


def test_streams_are_apart_and_advantages_count_from_their_mean():
    torch.manual_seed(0)
    net = q_net(VECTOR, 5, (16, 8), 3, dueling=True)
    assert net.body.stack[-1][0].shape == (16, 16)  # two streams of 8 units
    obs = torch.rand(4, 5)
    features = net.body(obs)
    value = net.value(features[:, :8])
    torch.testing.assert_close(net(obs).mean(1, keepdim=True), value)  # what is left of A has no mean
    advantage = net.advantage(features[:, 8:])
    torch.testing.assert_close(net(obs), value + advantage - advantage.mean(1, keepdim=True))


@pytest.mark.parametrize("quantiles", [0, 7])
@pytest.mark.parametrize("spec", [VECTOR, IMAGE])
def test_layer_norm_keeps_units_alive_that_a_step_too_far_would_silence(spec, quantiles):
    torch.manual_seed(0)
    net = q_net(spec, 5, (64,), 3, quantiles=quantiles, layer_norm=True)
    obs = torch.rand(64, 5) if spec is VECTOR else torch.randint(0, 256, (64, 2, 36, 36), dtype=torch.uint8)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if "bias" in name:
                parameter.fill_(-1e3)
    assert dead_units((net, obs)) < 0.6
    plain = q_net(spec, 5, (64,), 3, quantiles=quantiles)
    plain.load_state_dict(net.state_dict())
    assert dead_units((plain, obs)) == 1
