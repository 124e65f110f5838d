import torch

from cairn.core.losses import clipped_surrogate, clipped_value, huber_td, temperature, twin_huber, twin_q


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
