import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cairn.core.types import Rollout
from cairn.nets.heads import Categorical, Gaussian
from cairn.nets.mlp import MLP, tanh
from cairn.nets.normalizer import Normalizer, ReturnScale
from cairn.nets.optim import Flat, Optimizer, lerp_
from cairn.nets.tanh_gaussian import TanhGaussian


def test_an_ensemble_is_its_members_run_one_by_one():
    torch.manual_seed(0)
    net = MLP(5, (7, 6), 2, members=3, layer_norm=True)
    x = torch.randn(11, 5)
    for e in range(3):
        y = x
        for layer in net.layers[:-1]:
            y = y @ layer.weight[e] + layer.bias[e]
            y = torch.relu(torch.nn.functional.layer_norm(y, y.shape[-1:]))
        y = y @ net.layers[-1].weight[e] + net.layers[-1].bias[e]
        torch.testing.assert_close(net(x)[e], y)


def test_frozen_passes_gradient_to_the_input_only():
    net, x = MLP(3, (4,), 1, members=2), torch.randn(5, 3, requires_grad=True)
    net(x, frozen=True).sum().backward()
    assert x.grad is not None and all(p.grad is None for p in net.parameters())


def test_a_copy_and_a_flattened_network_share_nothing_with_the_original():
    import copy

    net, x = MLP(3, (8,), 2), torch.randn(4, 3)
    twin, before = copy.deepcopy(net), net(x).detach()
    flat = Flat(twin)
    flat.data.zero_()
    assert twin(x).abs().max() == 0 and torch.equal(net(x), before)


def test_categorical_matches_torch():
    logits, action = torch.randn(6, 4), torch.randint(4, (6,))
    ours, theirs = Categorical(logits), torch.distributions.Categorical(logits=logits)
    torch.testing.assert_close(ours.log_prob(action), theirs.log_prob(action))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())


def test_categorical_samples_follow_the_probabilities():
    logits = torch.tensor([0.1, 0.6, 0.3]).log().expand(20000, 3)
    drawn = Categorical(logits).sample(torch.Generator().manual_seed(0))
    share = torch.bincount(drawn, minlength=3) / 20000
    torch.testing.assert_close(share, torch.tensor([0.1, 0.6, 0.3]), atol=0.02, rtol=0)


def test_gaussian_matches_torch():
    mean, log_std, action = torch.randn(6, 3), torch.randn(3), torch.randn(6, 3)
    theirs = torch.distributions.Normal(mean, log_std.exp())
    ours = Gaussian(mean, log_std)
    torch.testing.assert_close(ours.log_prob(action), theirs.log_prob(action).sum(-1))
    torch.testing.assert_close(ours.entropy(), theirs.entropy().sum(-1))


def test_tanh_gaussian_matches_the_change_of_variables_and_itself():
    mean, log_std = torch.randn(64, 3).double(), (0.3 * torch.randn(64, 3)).double()
    ours = TanhGaussian(mean, log_std)
    action, log_prob = ours.sample_with_log_prob(torch.Generator().manual_seed(1))
    base = torch.distributions.Normal(mean, log_std.exp())
    theirs = torch.distributions.TransformedDistribution(base, torch.distributions.TanhTransform(cache_size=1))
    torch.testing.assert_close(log_prob, theirs.log_prob(action).sum(-1), rtol=1e-6, atol=1e-6)
    inside = action.abs().amax(-1) < 0.999
    torch.testing.assert_close(ours.log_prob(action)[inside], log_prob[inside], rtol=1e-5, atol=1e-5)


def test_tanh_gaussian_stays_finite_far_out():
    ours = TanhGaussian(torch.full((1, 1), 50.0), torch.zeros(1, 1))
    assert torch.isfinite(ours.sample_with_log_prob(torch.Generator().manual_seed(0))[1]).all()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=5), st.integers(0, 1000))
def test_normalizer_equals_numpy_whatever_the_chunks(chunks, seed):
    data = np.random.default_rng(seed).normal(3, 2, (sum(chunks), 2))
    norm, at = Normalizer((2,)), 0
    for size in chunks:
        norm.update(torch.from_numpy(data[at : at + size]))
        at += size
    np.testing.assert_allclose(norm.mean.numpy(), data.mean(0), atol=1e-9)
    np.testing.assert_allclose(norm.var.numpy(), data.var(0), atol=1e-9)


def test_normalizer_is_the_identity_before_it_saw_anything():
    x = torch.randn(3, 2)
    torch.testing.assert_close(Normalizer((2,))(x), x)


def test_flat_optimizer_moves_as_torch_does():
    torch.manual_seed(0)
    ours, theirs = MLP(3, (8, 8), 2), MLP(3, (8, 8), 2)
    theirs.load_state_dict(ours.state_dict())
    a, b = Optimizer(ours, lr=1e-2, max_norm=0.5), torch.optim.Adam(theirs.parameters(), lr=1e-2)
    for _ in range(5):
        x = torch.randn(16, 3)
        a.step(ours(x).square().mean() * 100)
        b.zero_grad()
        (theirs(x).square().mean() * 100).backward()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
        b.step()
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)


def test_lerp_moves_every_parameter_by_tau():
    source, target = MLP(2, (3,), 1), MLP(2, (3,), 1)
    before = [p.clone() for p in target.parameters()]
    lerp_(Flat(target), Flat(source), 0.25)
    for old, new, src in zip(before, target.parameters(), source.parameters(), strict=True):
        torch.testing.assert_close(new, 0.75 * old + 0.25 * src)


def test_one_member_alone_is_that_member():
    net, x = MLP(3, (8, 8), 2, members=3), torch.randn(4, 3)
    torch.testing.assert_close(net(x, member=1), net(x)[1])


def test_fast_tanh_is_tanh_and_has_its_gradient():
    x = torch.linspace(-12, 12, 2**17)
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    ours, theirs = tanh(a), torch.tanh(b)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=3e-7)
    ours.sum().backward()
    theirs.sum().backward()
    torch.testing.assert_close(a.grad, b.grad, rtol=0, atol=1e-6)


def test_returns_are_scaled_for_as_many_environments_as_come():
    scale = ReturnScale(0.99)
    for envs in (3, 5):
        z = torch.zeros(2, envs, dtype=torch.bool)
        rollout = Rollout(torch.zeros(2, envs, 1), z, torch.ones(2, envs), torch.zeros(2, envs, 1), z, z, ~z)
        assert scale(rollout).shape == (2, envs)
