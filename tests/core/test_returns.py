"""Returns by hand: termination ends the sum, truncation bootstraps."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cairn.core.returns import discounted, gae, n_step


def column(*values, kind=torch.float32):
    return torch.tensor(values, dtype=kind)[:, None]


def test_discounted_stops_at_termination_and_bootstraps_at_truncation():
    reward = column(1.0, 2.0, 3.0, 4.0)
    terminated = column(0, 1, 0, 0, kind=torch.bool)
    truncated = column(0, 0, 1, 0, kind=torch.bool)
    last_value = column(100.0, 100.0, 10.0, 20.0)
    out = discounted(reward, terminated, truncated, last_value, gamma=0.5)
    assert out[:, 0].tolist() == [1 + 0.5 * 2, 2.0, 3 + 0.5 * 10, 4 + 0.5 * 20]


def test_gae_by_hand():
    reward, value = column(1.0, 1.0, 1.0), column(0.5, 0.6, 0.7)
    next_value = column(0.6, 9.0, 0.8)
    terminated = column(0, 0, 0, kind=torch.bool)
    truncated = column(0, 1, 0, kind=torch.bool)
    out = gae(reward, value, next_value, terminated, truncated, gamma=0.9, lam=0.8)
    d0, d1, d2 = 1 + 0.9 * 0.6 - 0.5, 1 + 0.9 * 9.0 - 0.6, 1 + 0.9 * 0.8 - 0.7
    torch.testing.assert_close(out[:, 0], torch.tensor([d0 + 0.9 * 0.8 * d1, d1, d2]))


def test_gae_drops_the_successor_of_a_terminated_step():
    one = column(1.0)
    yes, no = column(True, kind=torch.bool), column(False, kind=torch.bool)
    assert gae(one, 0 * one, 50 * one, yes, no, gamma=0.9, lam=0.9).item() == 1.0
    assert gae(one, 0 * one, 50 * one, no, yes, gamma=0.9, lam=0.9).item() == 46.0


def test_gae_with_lambda_one_is_the_discounted_return_minus_the_value():
    torch.manual_seed(0)
    shape = (30, 4)
    reward, value, next_value = torch.randn(shape), torch.randn(shape), torch.randn(shape)
    terminated, truncated = torch.rand(shape) < 0.1, torch.rand(shape) < 0.1
    same = torch.cat([value[1:], next_value[-1:]])  # within an episode V(s') is the next V(s)
    next_value = torch.where(terminated | truncated, next_value, same)
    a = gae(reward, value, next_value, terminated, truncated, gamma=0.97, lam=1.0)
    g = discounted(reward, terminated, truncated, next_value, gamma=0.97)
    torch.testing.assert_close(a + value, g, rtol=1e-4, atol=1e-4)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.floats(-5, 5), st.booleans(), st.booleans()), min_size=1, max_size=6), st.floats(0, 1))
def test_n_step_against_a_plain_walk(steps, gamma):
    rewards = [r for r, _, _ in steps]
    terminated = [t for _, t, _ in steps]
    ended = [t or u for _, t, u in steps]
    total, discount, last = 0.0, 1.0, 0
    for i, r in enumerate(rewards):
        total += gamma**i * r
        last, discount = i, 0.0 if terminated[i] else gamma ** (i + 1)
        if ended[i]:
            break
    r, d, k = n_step(
        torch.tensor(rewards)[:, None], torch.tensor(ended)[:, None], torch.tensor(terminated)[:, None], gamma=gamma
    )
    assert int(k) == last
    torch.testing.assert_close(r.item(), total, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(d.item(), discount, rtol=1e-4, atol=1e-4)
