import torch

from cairn.core.losses import (
    clipped_surrogate,
    clipped_value,
    huber_td,
    importance,
    quantile_huber,
    temperature,
    twin_huber,
    twin_q,
)


def test_clipped_surrogate_takes_the_pessimistic_side():
    ratio, advantage = torch.tensor([1.5, 1.5, 0.5, 0.5]), torch.tensor([1.0, -1.0, 1.0, -1.0])
    want = -(1.2 - 1.5 + 0.5 - 0.8) / 4
    torch.testing.assert_close(clipped_surrogate(ratio, advantage, 0.2).item(), want)


def test_value_is_clipped_around_the_old_value_not_the_return():
    value, old, target = torch.tensor([3.0]), torch.tensor([1.0]), torch.tensor([5.0])
    # unclipped error (3-5)² = 4; clipped to 1.5: (1.5-5)² = 12.25; the larger counts
    torch.testing.assert_close(clipped_value(value, old, target, 0.5).item(), 12.25)


def test_twin_q_sums_over_critics_and_averages_over_the_batch():
    q, y = torch.tensor([[1.0, 3.0], [2.0, 2.0]]), torch.tensor([1.0, 1.0])
    assert twin_q(q, y).item() == 0.5 * (4 / 2) + 0.5 * (2 / 2)


def test_huber_is_linear_far_out():
    assert huber_td(torch.tensor([10.0]), torch.tensor([0.0])).item() == 9.5


def test_temperature_falls_while_the_policy_is_too_random():
    log_alpha = torch.zeros((), requires_grad=True)
    temperature(log_alpha, torch.tensor(2.0), -1.0).backward()
    assert log_alpha.grad > 0  # a descent step lowers it


def test_twin_huber_is_linear_beyond_one():
    q, target = torch.tensor([[0.5, 3.0], [0.0, -1.0]]), torch.tensor([0.0, 0.0])
    assert torch.isclose(twin_huber(q, target), torch.tensor((0.125 + 2.5) / 2 + (0.0 + 0.5) / 2))


def test_quantiles_are_pulled_up_and_down_by_their_share():
    """By hand: K = 2, τ = 1/4 and 3/4, targets 0 and 3 for z = (1, 2)."""
    z, y = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 3.0]])
    first = (0.75 * 0.5 + 0.25 * 1.5) / 2  # y = 0 lies below z₁: |¼ - 1| Huber(1); y = 3 above: ¼ Huber(2)
    second = (0.25 * 1.5 + 0.75 * 0.5) / 2
    assert torch.isclose(quantile_huber(z, y), torch.tensor(first + second))
    assert torch.isclose(quantile_huber(z, y, torch.tensor([2.0])), torch.tensor(2 * (first + second)))


def test_quantile_regression_finds_quantiles():
    drawn = torch.rand(20_000, generator=torch.Generator().manual_seed(0)) * 40  # wide: the Huber bend hardly matters
    z = torch.zeros(1, 4, requires_grad=True)
    for step in range(400):
        quantile_huber(z.expand(50, 4), drawn[50 * step :][:50, None]).backward()
        with torch.no_grad():
            z -= 5.0 * z.grad
            z.grad.zero_()
    torch.testing.assert_close(z[0].detach(), torch.tensor([5.0, 15.0, 25.0, 35.0]), rtol=0, atol=2.5)


def test_weights_count_and_the_mean_error_of_one_quantile_is_half_a_huber():
    q, y, w = torch.tensor([1.0, -3.0]), torch.tensor([0.0, 0.0]), torch.tensor([1.0, 0.5])
    assert torch.isclose(huber_td(q, y, w), torch.tensor((0.5 + 0.5 * 2.5) / 2))
    assert torch.isclose(quantile_huber(q[:, None], y[:, None]), 0.5 * huber_td(q, y))


def test_importance_is_one_for_the_rarest_and_nothing_without_beta():
    weight = torch.tensor([0.5, 2.0, 1.0])
    torch.testing.assert_close(importance(weight, 1.0), torch.tensor([0.25, 1.0, 0.5]))
    torch.testing.assert_close(importance(weight, 0.5), torch.tensor([0.5, 1.0, 0.5**0.5]))
    assert importance(weight, 0.0).tolist() == [1.0, 1.0, 1.0]
