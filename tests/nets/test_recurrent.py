"""The arithmetic of memory: states, their gradients, and how rollouts are cut into sequences."""

import numpy as np
import pytest
import torch

from cairn.core.types import Discrete, Rollout, Spec
from cairn.nets.recurrent import Recurrent, starts, windows
from cairn.nets.remembering import actor_critic

KINDS = ["gru", "lstm"]
STEPS, ROWS, WIDE, SIZE = 7, 3, 4, 5


@pytest.fixture(params=KINDS)
def core(request):
    torch.manual_seed(0)
    return Recurrent(request.param, WIDE, SIZE).double()


@pytest.fixture
def x():
    return torch.randn(STEPS, ROWS, WIDE, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def never():
    return torch.zeros(STEPS, ROWS, dtype=torch.bool)


def state_of(core, rows=ROWS):
    return torch.randn(rows, core.width, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def test_the_cells_are_those_of_torch(core, x):
    gru = core.width == SIZE
    theirs = (torch.nn.GRU if gru else torch.nn.LSTM)(WIDE, SIZE).double()

    def order(weight):  # torch has i, f, g, o
        parts = weight.chunk(3 if gru else 4, -1)
        return weight.t() if gru else torch.cat([parts[0], parts[1], parts[3], parts[2]], -1).t()

    with torch.no_grad():
        for one, layer in (("ih", core.inputs), ("hh", core.hidden)):
            layer.bias.normal_()
            getattr(theirs, f"weight_{one}_l0").copy_(order(layer.weight))
            getattr(theirs, f"bias_{one}_l0").copy_(order(layer.bias[None])[:, 0])
    first = state_of(core)
    given = first[None] if gru else (first[None, :, :SIZE].contiguous(), first[None, :, SIZE:].contiguous())
    torch.testing.assert_close(core.unroll(x, first, never())[..., :SIZE], theirs(x, given)[0])


def test_the_gradient_is_that_of_finite_differences(core, x):
    begin = never()
    begin[3, 1] = begin[0, 2] = True
    given = [one.detach().requires_grad_() for one in (x, state_of(core))]
    torch.autograd.gradcheck(lambda x, state: core.unroll(x, state, begin), given)
    names = [name for name, _ in core.named_parameters()]

    def of_weights(*weights):
        return torch.func.functional_call(core, dict(zip(names, weights, strict=True)), (x, state_of(core), begin))

    core.forward = core.unroll
    torch.autograd.gradcheck(of_weights, [w.detach().clone().requires_grad_() for w in core.parameters()])


def test_an_episode_is_the_same_wherever_it_lies_in_a_rollout(core, x):
    begin = never()
    begin[3] = True
    whole = core.unroll(x, state_of(core), begin)
    zero = torch.zeros(ROWS, core.width, dtype=torch.float64)
    torch.testing.assert_close(whole[:3], core.unroll(x[:3], state_of(core), begin[:3]), rtol=0, atol=1e-12)
    torch.testing.assert_close(whole[3:], core.unroll(x[3:], zero, never()[3:]), rtol=0, atol=1e-12)


def test_no_gradient_reaches_another_episode(core, x):
    begin, x = never(), x.requires_grad_()
    begin[3, 0] = True
    core.unroll(x, state_of(core), begin)[5].sum().backward()
    reached = x.grad.abs().sum(-1) > 0
    assert reached[:, 0].tolist() == [False] * 3 + [True] * 3 + [False]
    assert reached[:6, 1:].all() and not reached[6].any()


def test_a_cut_sequence_goes_on_from_its_state(core, x):
    whole = core.unroll(x, state_of(core), never())
    torch.testing.assert_close(core.unroll(x[4:], whole[3], never()[4:]), whole[4:], rtol=0, atol=1e-12)
    torch.testing.assert_close(core.step(x[4], whole[3]), whole[4], rtol=0, atol=1e-12)


def test_memory_forgets_the_episodes_that_begin_and_no_others(core):
    memory = core.memory(ROWS)
    assert not memory.state.any() and memory.recorded().shape == (ROWS, core.width)
    first, second = state_of(core), state_of(core) + 1
    memory.advance(first)
    memory.advance(second)
    np.testing.assert_array_equal(memory.recorded(), first)  # before the last step
    memory.forget(np.array([True, False, False]))
    assert not memory.state[0].any() and torch.equal(memory.state[1:], second[1:])
    assert torch.equal(second, state_of(core) + 1)  # what was handed out does not change


def rollout(steps=STEPS, rows=ROWS):
    draw = torch.Generator().manual_seed(3)
    obs, after = torch.randn(2, steps, rows, WIDE, generator=draw)
    terminated, truncated = (torch.rand(2, steps, rows, generator=draw) < 0.2).unbind(0)
    valid = torch.rand(steps, rows, generator=draw) > 0.1
    return Rollout(obs, obs[..., 0].long(), obs[..., 0], after, terminated, truncated, valid)


def test_a_row_begins_an_episode_after_an_end_or_a_lost_step():
    one = rollout()
    found = starts(one)
    assert not found[0].any() and found.any()
    assert torch.equal(found[1:], (one.terminated | one.truncated | ~one.valid)[:-1])


@pytest.mark.parametrize("length", [1, 3, 4, 7, 9])
def test_windows_hold_every_valid_step_and_overlap_where_they_must(length):
    valid = torch.ones(STEPS, ROWS, dtype=torch.bool)
    valid[2, 0] = False  # 6 steps of 7
    valid[1:, 2] = False  # one step, which fits only windows of one
    step, env = windows(valid, length)
    size = {1: 1, 3: 3, 4: 4, 7: 7, 9: 7}[length]
    assert step.shape == env.shape and step.shape[1] == size
    assert (env == env[:, :1]).all() and valid[step, env].all() and (step[:, 1:] > step[:, :-1]).all()
    held = {(int(t), int(n)) for t, n in zip(step.flatten(), env.flatten(), strict=True)}
    wanted = {tuple(one) for one in valid.nonzero().tolist()}
    assert held == {(t, n) for t, n in wanted if int(valid[:, n].sum()) >= size}
    assert windows(torch.ones(100, 2, dtype=torch.bool), 32)[0].shape == (8, 25)  # even: nothing overlaps


@pytest.mark.parametrize("kind", KINDS)
def test_an_actor_critic_judges_row_by_row_as_it_does_sequences(kind):
    net = actor_critic(Spec((WIDE,), "float32", Discrete(3)), (8,), kind, SIZE, activation="tanh", log_std=0.0)
    one = rollout()
    state = torch.randn(ROWS, net.core.width)
    policy, value = net.unroll(one.obs, state, starts(one))
    before = [state]
    for obs, ended in zip(one.obs, one.terminated | one.truncated | ~one.valid, strict=True):
        _, after = net.act([obs, before[-1]], False, torch.Generator())
        before.append(after * ~ended[:, None])
    known = torch.stack(before[:-1])
    again, valued = net(one.obs.flatten(0, 1), known.flatten(0, 1))
    torch.testing.assert_close(policy.logits, again.logits)
    torch.testing.assert_close(value, valued)
    told = Rollout(*(getattr(one, name) for name in one.__dataclass_fields__ if name != "state"), known)
    apart, after = net.after(told)  # the value of a true successor knows the step before it
    states = net.core.step(one.obs.flatten(0, 1), known.flatten(0, 1))
    want = net.value(one.next_obs.flatten(0, 1), states).view(STEPS, ROWS)
    torch.testing.assert_close(after[apart], want[apart])
    assert not torch.allclose(after[apart], net.value(one.next_obs[apart]))
