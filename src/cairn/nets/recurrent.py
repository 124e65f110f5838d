"""Memory of earlier observations: GRU (Cho et al. 2014) and LSTM (Hochreiter & Schmidhuber 1997) cells.

The state of an episode is one row of numbers: the GRU's output [H], or the LSTM's output and cell [2H]. It is zero at
the beginning of an episode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from cairn.core.policy_module import PolicyModule
from cairn.core.types import Array, Rollout
from cairn.nets.mlp import Linear, affine, orthogonal_

MemoryKind = Literal["none", "gru", "lstm"]


def gru(x: Tensor, state: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """s' = z ⊙ s + (1-z) ⊙ n with r = σ(xᵣ + Wᵣs), z = σ(x_z + W_z s), n = tanh(xₙ + r ⊙ Wₙs).

    Args:
        x: The input's share of r, z and n, [B, 3H].
        state: s, [B, H].
        weight: W, [H, 3H].
        bias: Of Ws, [3H].

    Returns:
        s'; r, z and n [B, 3H]; Wₙs.
    """
    size = weight.shape[0]
    h = torch.addmm(bias, state, weight)
    both = (x[:, : 2 * size] + h[:, : 2 * size]).sigmoid()
    r, z = both[:, :size], both[:, size:]
    new = torch.addcmul(x[:, 2 * size :], r, h[:, 2 * size :]).tanh()
    return torch.addcmul(new, z, state - new), torch.cat([both, new], 1), h[:, 2 * size :]


def lstm(x: Tensor, state: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """c' = f ⊙ c + i ⊙ g, h' = o ⊙ tanh c' with i, f, o = σ(x + Wh), g = tanh(x + Wh), from the state [h | c].

    Returns:
        [h' | c']; i, f, o and g [B, 4H]; tanh c'. The arguments are as for `gru`.
    """
    size = weight.shape[0]
    h, c = state[:, :size], state[:, size:]
    pressed, wide = torch.addmm(bias, h, weight), 3 * size  # TorchScript fails on the sum of two whole products
    gates = torch.cat([(x[:, :wide] + pressed[:, :wide]).sigmoid(), (x[:, wide:] + pressed[:, wide:]).tanh()], 1)
    i, f, o, g = gates.chunk(4, 1)
    c = torch.addcmul(f * c, i, g)
    bent = c.tanh()
    return torch.cat([o * bent, c], 1), gates, bent


class GRU(torch.autograd.Function):
    """Unrolled steps of `gru`.

    Automatic differentiation takes some twenty operations per step to go back. Most of them are the same for all steps
    and are done here for all at once, which leaves five.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, state: Tensor, keep: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """States [T, B, H] from the input's share of the gates [T, B, 3H]; `keep` [T, B, 1] is 0 where one is reset."""
        return _unrolled(gru, ctx, x, state, keep, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        """Gradients by x, state, weight and bias."""
        before, gates, hidden, keep, weight = ctx.saved_tensors
        r, z, new = gates.chunk(3, 2)
        by_new = (1 - z) * (1 - new * new)
        by_z = (before - new) * z * (1 - z)
        by_r = by_new * hidden * r * (1 - r)
        through = torch.stack([by_r, by_z, by_new * r], 2)  # [T, B, 3, H]: of the recurrent share, by the state
        back, carry = weight.t(), torch.zeros_like(grad[0])
        of_state, of_h = torch.empty_like(grad), torch.empty_like(through)
        for t in range(len(grad) - 1, -1, -1):
            torch.add(grad[t], carry, out=of_state[t])
            torch.mul(of_state[t, :, None], through[t], out=of_h[t])
            carry = torch.addcmul(of_h[t].flatten(1) @ back, of_state[t], z[t]) * keep[t]
        of_x = of_h.clone()
        of_x[:, :, 2] = of_state * by_new
        flat = of_h.flatten(2).flatten(0, 1)
        return of_x.flatten(2), carry, None, before.flatten(0, 1).t() @ flat, flat.sum(0)


class LSTM(torch.autograd.Function):
    """Unrolled steps of `lstm`; see `GRU`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, state: Tensor, keep: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """States [T, B, 2H] from the input's share of the gates [T, B, 4H]."""
        return _unrolled(lstm, ctx, x, state, keep, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        """Gradients by x, state, weight and bias."""
        before, gates, bent, keep, weight = ctx.saved_tensors
        size = weight.shape[0]
        i, f, o, g = gates.chunk(4, 2)
        by_cell = torch.stack([g * i * (1 - i), before[..., size:] * f * (1 - f), i * (1 - g * g)], 2)  # i, f, g
        by_out, down = bent * o * (1 - o), o * (1 - bent * bent)
        back = weight.t()
        of_gates = torch.empty(*grad.shape[:2], 4, size, dtype=grad.dtype, device=grad.device)
        of_h = of_c = torch.zeros_like(grad[0, :, :size])
        for t in range(len(grad) - 1, -1, -1):
            of_h = grad[t, :, :size] + of_h
            of_c = torch.addcmul(grad[t, :, size:] + of_c, of_h, down[t])
            torch.mul(of_c[:, None], by_cell[t, :, :2], out=of_gates[t, :, :2])
            torch.mul(of_h, by_out[t], out=of_gates[t, :, 2])
            torch.mul(of_c, by_cell[t, :, 2], out=of_gates[t, :, 3])
            of_h, of_c = (of_gates[t].flatten(1) @ back) * keep[t], of_c * f[t] * keep[t]
        of_x = of_gates.flatten(2)
        flat = of_x.flatten(0, 1)
        weighed = before[..., :size].flatten(0, 1).t() @ flat
        return of_x, torch.cat([of_h, of_c], 1), None, weighed, flat.sum(0)


Step = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


def _unrolled(step: Step, ctx: Any, x: Tensor, state: Tensor, keep: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The states after each of T steps; the way back is told what it needs."""
    before, gates, more, out = [], [], [], []
    for share, kept in zip(x.unbind(0), keep.unbind(0), strict=True):
        before.append(state * kept)
        state, gate, other = step(share, before[-1], weight, bias)
        gates.append(gate)
        more.append(other)
        out.append(state)
    ctx.save_for_backward(torch.stack(before), torch.stack(gates), torch.stack(more), keep, weight)
    return torch.stack(out)


_UNROLLED: Mapping[str, Callable[..., Tensor]] = {"gru": GRU.apply, "lstm": LSTM.apply}
_STEPS: Mapping[str, tuple[Step, int, int]] = {"gru": (gru, 3, 1), "lstm": (lstm, 4, 2)}  # gates and states of H


class Recurrent(nn.Module):
    """A GRU or LSTM cell over rows of features.

    size   numbers of its output
    width  numbers of a state, the output first
    """

    def __init__(self, kind: MemoryKind, fan_in: int, size: int) -> None:
        super().__init__()
        self.one, gates, states = _STEPS[kind]
        self.many = _UNROLLED[kind]
        self.size, self.width = size, states * size
        self.inputs, self.hidden = Linear(fan_in, gates * size), Linear(size, gates * size)
        orthogonal_(self.inputs, 1.0)
        orthogonal_(self.hidden, 1.0)
        with torch.no_grad():  # at first most is kept, so that gradients reach far back (Jozefowicz et al. 2015)
            self.hidden.bias[size : 2 * size] = 1.0

    def unroll(self, x: Tensor, state: Tensor, starts: Tensor) -> Tensor:
        """States [T, B, width] after each row of x [T, B, F], from those before the first row, [B, width].

        `starts` [T, B] bool is True where a row begins an episode: the state before it is zero.
        """
        share = affine(x.flatten(0, 1), self.inputs.weight, self.inputs.bias).view(*x.shape[:2], -1)
        keep = (~starts).to(x.dtype)[..., None]
        out: Tensor = self.many(share, state, keep, self.hidden.weight, self.hidden.bias)
        return out

    def step(self, x: Tensor, state: Tensor) -> Tensor:
        """The state [B, width] after one row each, x [B, F]."""
        share = affine(x, self.inputs.weight, self.inputs.bias)
        after: Tensor = self.one(share, state, self.hidden.weight, self.hidden.bias)[0]
        return after

    def beside(self, x: Tensor, state: Tensor) -> Tensor:
        """[..., F + H]: a row of features and the output of the cell that has read it."""
        return torch.cat([x, state[..., : self.size]], -1)

    def memory(self, count: int) -> RecurrentMemory:
        """The memory of `count` episodes at their beginning."""
        return RecurrentMemory(torch.zeros(count, self.width, device=self.hidden.weight.device))


def starts(rollout: Rollout) -> Tensor:
    """[T, N] bool: where a row begins an episode that is not the one of the row before."""
    ended = rollout.terminated | rollout.truncated | ~rollout.valid
    return torch.cat([torch.zeros_like(ended[:1]), ended[:-1]])


def windows(valid: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Training sequences of at most `length` steps that hold the valid steps of a rollout: (step, env), both [B, L].

    Steps that never happened are left out. All sequences are of one length, so that none has to be filled up: where the
    steps of an environment do not divide, its last two sequences overlap. One with fewer steps than that is left out.
    """
    counts = valid.sum(0)
    most = max(int(counts.max()), 1)
    length = -(-most // -(-most // length))
    steps, envs = [], []
    for env, count in enumerate(counts.tolist()):
        rows = valid[:, env].nonzero()[:, 0]
        for first in range(0, count if count >= length else 0, length):
            first = min(first, count - length)
            steps.append(rows[first : first + length])
            envs.append(env)
    step = torch.stack(steps)
    return step, torch.tensor(envs, device=step.device)[:, None].expand_as(step)


class RecurrentMemory:
    """The states [N, width] of N open episodes, and those before the last step, `before`. Tensors are never changed."""

    target: None = None

    def __init__(self, state: Tensor) -> None:
        self.state = self.before = state

    def advance(self, state: Tensor) -> None:
        """Go on to the states after a step."""
        self.before, self.state = self.state, state.clone() if state.is_cuda else state  # a graph overwrites its own

    def through(self, acting: Callable[..., Any], obs: Tensor, *more: Any) -> Tensor:
        """The actions of `acting([obs, states], *more)`, which also returns the next states."""
        action: Tensor
        action, state = acting([obs, self.state], *more)
        self.advance(state)
        return action

    def forget(self, which: Array) -> None:
        """Reset the states of the episodes `which` [N] bool, because they begin."""
        if which.any():
            self.state = self.state.masked_fill(torch.from_numpy(which).to(self.state.device)[:, None], 0.0)

    def policy_module(self, agent: Any) -> RecurrentPolicy:
        """What is exported of an agent with such memory."""
        return RecurrentPolicy(agent)

    def recorded(self) -> Array:
        """The states before the last step [N, width]."""
        out: Array = self.before.cpu().numpy()
        return out


class RecurrentPolicy(PolicyModule):
    """An agent with a recurrent network as a module, whose state is in- and output."""

    def __init__(self, agent: Any) -> None:
        super().__init__(agent)
        self.state = {"memory": agent.memory(1).state}

    def forward(self, obs: Tensor, *more: Tensor) -> tuple[Tensor, ...]:
        """The actions [N] or [N, dim] and the next states, for obs [N, ...], any masks, and the states [N, width]."""
        *masks, state = more
        memory = RecurrentMemory(state)
        action: Tensor = self.agent.act(self.rows(obs, *masks), explore=False, memory=memory)
        return action, memory.state
