import copy
import math

import pytest
import torch
from torch import nn

from cairn.core.types import Discrete, Spec
from cairn.nets.cnn import AT_ONCE, Convolution, ImpalaCNN, NatureCNN, blocks, sees_images, squares
from cairn.nets.optim import Flat


def spec(*shape):
    return Spec(shape, "uint8", Discrete(3))


def reference(net):
    """The paper's network in torch's own layers, with the same parameters."""
    layers = []
    for (width, kernel, stride), ours in zip(((32, 8, 4), (64, 4, 2), (64, 3, 1)), net.convolutions, strict=True):
        layer = nn.Conv2d(ours.weight.shape[1], width, kernel, stride)
        layer.weight.data, layer.bias.data = ours.weight.data, ours.bias.data
        layers += [layer, nn.ReLU()]
    dense = nn.Linear(*net.dense.weight.shape)
    dense.weight.data, dense.bias.data = net.dense.weight.data.T, net.dense.bias.data
    return nn.Sequential(*layers, nn.Flatten(), dense, nn.ReLU())


@pytest.mark.parametrize("shape", [(4, 84, 84), (1, 36, 50), (96, 96, 3)])
def test_it_is_the_network_of_the_paper(shape):
    torch.manual_seed(0)
    net = NatureCNN(spec(*shape))
    images = torch.randint(0, 256, (3, *shape), dtype=torch.uint8)
    first = images.permute(0, 3, 1, 2) if shape[-1] == 3 else images
    torch.testing.assert_close(net(images), reference(net)(first / 255), rtol=1e-4, atol=1e-5)
    net(images).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in net.parameters())


def test_half_precision_is_close_and_comes_out_whole():
    torch.manual_seed(0)
    whole = NatureCNN(spec(4, 84, 84), 5)
    half = NatureCNN(spec(4, 84, 84), 5, bf16=True)
    half.load_state_dict(whole.state_dict())
    images = torch.randint(0, 256, (8, 4, 84, 84), dtype=torch.uint8)
    assert half(images).dtype == torch.float32
    torch.testing.assert_close(half(images), whole(images), rtol=0.05, atol=0.02)
    half(images).sum().backward()
    assert all(p.grad.dtype == torch.float32 for p in half.parameters())


@pytest.mark.parametrize("last", [False, True])
def test_squares_as_channels_give_the_same_and_the_same_gradients(last):
    torch.manual_seed(0)
    layer = Convolution(3, 5, 8, 4)
    images = torch.randint(0, 256, (2, 40, 52, 3) if last else (2, 3, 40, 52), dtype=torch.uint8)
    images = images.permute(0, 3, 1, 2) if last else images
    plain, squared = layer(images.float(), 255.0), layer.on_blocks(blocks(images).float(), 255.0)
    torch.testing.assert_close(squared, plain)
    for ours, theirs in zip(
        torch.autograd.grad(squared.square().sum(), layer.parameters()),
        torch.autograd.grad(plain.square().sum(), layer.parameters()),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_squares_of_whole_pixels_give_the_same():
    torch.manual_seed(0)
    layer = Convolution(6, 5, 4, 2)
    x = torch.randn(3, 6, 10, 14).to(memory_format=torch.channels_last)
    torch.testing.assert_close(layer.on_blocks(squares(x, 2), whole_pixels=True), layer(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "squared"),
    [((4, 38, 50), False), ((4, 40, 52), False), ((4, 44, 52), True), ((1, 84, 84), True), ((84, 84, 1), True)],
)
def test_half_precision_reads_images_whether_or_not_squares_fit(shape, squared):
    torch.manual_seed(0)
    images = torch.randint(0, 256, (3, *shape), dtype=torch.uint8)
    half = NatureCNN(spec(*shape), bf16=True, layer_norm=True)  # scaled: an error would be as large as what comes out
    whole = NatureCNN(spec(*shape), layer_norm=True)
    whole.load_state_dict(half.state_dict())
    first = images.permute(0, 3, 1, 2) if shape[-1] == 1 else images
    assert half.in_blocks(first) == squared
    seen, wanted = half(images), whole(images)
    assert (seen - wanted).abs().max() < 0.1 < wanted.max() / 10
    for net in (half, whole):
        net(images).square().sum().backward()
    for ours, theirs in zip(half.convolutions.parameters(), whole.convolutions.parameters(), strict=True):
        assert torch.cosine_similarity(ours.grad.flatten(), theirs.grad.flatten(), dim=0) > 0.99


def test_many_images_pass_in_parts():
    torch.manual_seed(0)
    net = NatureCNN(spec(1, 36, 36), 2)
    images = torch.randint(0, 256, (AT_ONCE[0] + 3, 1, 36, 36), dtype=torch.uint8)
    with torch.no_grad():
        torch.testing.assert_close(net(images), torch.cat([net(images[:9]), net(images[9:])]))


def test_orthogonal_where_asked():
    net = NatureCNN(spec(4, 84, 84), orthogonal=True)
    for layer in net.convolutions:
        rows = layer.weight.flatten(1)
        torch.testing.assert_close(rows @ rows.T, 2 * torch.eye(len(rows)), rtol=0, atol=1e-4)
        assert layer.bias.abs().max() == 0
    columns = net.dense.weight
    torch.testing.assert_close((columns.T @ columns).diag(), torch.full((512,), math.sqrt(2) ** 2))


def test_a_copy_and_a_flattened_network_share_nothing_with_the_original():
    net = NatureCNN(spec(1, 36, 36), 2)
    images = torch.randint(0, 256, (4, 1, 36, 36), dtype=torch.uint8)
    twin, before = copy.deepcopy(net), net(images).detach()
    Flat(twin).data.zero_()
    assert twin(images).abs().max() == 0 and torch.equal(net(images), before)


def test_what_counts_as_an_image():
    assert sees_images(spec(4, 84, 84)) and sees_images(spec(96, 96, 3)) and sees_images(spec(1, 36, 36))
    assert not sees_images(spec(4, 35, 84)) and not sees_images(spec(7, 7, 3)) and not sees_images(spec(84, 84))
    assert not sees_images(Spec((4, 84, 84), "float32", Discrete(2)))


@pytest.mark.parametrize("shape", [(4, 84, 84), (1, 37, 50), (96, 96, 3)])
def test_impala_is_the_network_of_the_paper(shape):
    """In torch's own layers: convolution, pool, twice x + conv(relu(conv(relu(x)))), three times over."""
    torch.manual_seed(0)
    net = ImpalaCNN(spec(*shape), 7)
    images = torch.randint(0, 256, (3, *shape), dtype=torch.uint8)
    x = (images.permute(0, 3, 1, 2) if shape[-1] == 3 else images) / 255
    layers = iter(net.convolutions)

    def conv(x):
        ours = next(layers)
        layer = nn.Conv2d(ours.weight.shape[1], ours.weight.shape[0], 3, padding=1)
        layer.weight.data, layer.bias.data = ours.weight.data, ours.bias.data
        return layer(x)

    for width in (16, 32, 32):
        x = nn.MaxPool2d(3, 2, 1)(conv(x))
        assert x.shape[1] == width
        for _ in range(2):
            x = x + conv(conv(x.relu()).relu())
    want = net.out(net.dense(x.relu().flatten(1)).relu())
    torch.testing.assert_close(net(images), want, rtol=1e-3, atol=1e-5)
    net(images).square().sum().backward()
    assert len(net.convolutions) == 15 and net.dense.weight.shape[1] == 256
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in net.parameters())


def test_impala_in_half_precision_is_close():
    torch.manual_seed(0)
    whole, half = (ImpalaCNN(spec(4, 48, 48), 5, bf16=bf16) for bf16 in (False, True))
    half.load_state_dict(whole.state_dict())
    images = torch.randint(0, 256, (8, 4, 48, 48), dtype=torch.uint8)
    torch.testing.assert_close(half(images), whole(images), rtol=0.1, atol=0.03)
