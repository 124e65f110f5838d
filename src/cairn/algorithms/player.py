"""An agent that plays without learning: arrays in, arrays out, with its memory of open episodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from cairn.core.agent import Agent, Memory
from cairn.core.errors import CairnError
from cairn.core.layout import examples
from cairn.core.types import Array, Spec
from cairn.nets.cnn import has_images

ROWS, IMAGES = 20, 8  # rows per block, of vectors and of images


class Player:
    """An agent as a function of arrays: observations [N, ...] to actions [N] or [N, dim], in Cairn's units.

    Keeps the memory of N open episodes if the agent has one; `forget` says which of them ended.
    """

    def __init__(self, agent: Agent, *, explore: bool = False, device: str = "cpu") -> None:
        self.agent, self.explore, self.device = agent, explore, device
        self.memory: Memory | None = None

    def __call__(self, obs: Array) -> Array:
        rows = torch.from_numpy(obs).to(self.device)
        if self.memory is None:
            self.memory = self.agent.memory(len(obs))
        memory = {} if self.memory is None else {"memory": self.memory}
        return self.agent.act(rows, explore=self.explore, **memory).cpu().numpy()

    def must_suit(self, task: Spec) -> None:
        """Raise CairnError where the task has other observations or actions than the agent."""
        mine = self.agent.spec
        same = (mine.obs_shape, mine.masked) == (task.obs_shape, task.masked)
        if not same or (mine.action_shape, mine.action.choices) != (task.action_shape, task.action.choices):
            raise CairnError(
                f"this policy has {mine.brief}, and its task {task.brief}: it was saved with another task or other"
                " arguments."
            )

    def alone(self, count: int) -> Solo:
        """The same agent for scoring in `count` environments; see `Solo`."""
        return Solo(self.agent, count, explore=self.explore, device=self.device)

    def subgoal(self) -> Array | None:
        """The current subgoals [N, d] of a hierarchy; None for other agents."""
        target = None if self.memory is None else self.memory.target
        return None if target is None else target.cpu().numpy().copy()

    def forget(self, ended: Array) -> None:
        """Reset the memory of the environments `ended` [N] bool, whose next observation begins an episode."""
        if self.memory is not None:
            self.memory.forget(ended)


class Solo:
    """A player for scoring. On a CPU a row's action depends only on that row and its episode, to the last bit.

    Matrix products are rounded differently for batches of other sizes, so rows are evaluated in blocks of one size,
    filled
    up with zeros. The result may also depend on a row's place in a block: only places with equal results are used. If
    there is only one such place, or the agent samples its actions, each row is evaluated alone, and each episode draws
    from
    its own seed.
    """

    def __init__(self, agent: Agent, count: int, *, explore: bool = False, device: str = "cpu") -> None:
        self.agent, self.explore, self.device = agent, explore, device
        self.generators = [part for part in agent.training_parts.values() if isinstance(part, Generator)]
        self.drawn: list[list[Tensor]] = [[] for _ in range(count)]  # states of the generators, per episode
        self.block: int = 1
        self.places: Array = np.zeros(1, np.int64)
        if device != "cpu":
            self.block, self.places = count, np.arange(count)
        elif not explore:
            self.block, self.places = _together(agent)
        blocks = -(-count // len(self.places))
        memories = [agent.memory(self.block) for _ in range(blocks)]
        self.memories = [] if None in memories else memories

    def begin(self, row: int, seed: int) -> None:
        """Start an episode in this row: reset its memory, and seed its random actions."""
        if self.memories:
            which = np.zeros(self.block, bool)
            which[self.places[row % len(self.places)]] = True
            self.memories[row // len(self.places)].forget(which)
        if self.explore and self.block == 1:
            self.drawn[row] = [Generator().manual_seed(seed + i).get_state() for i in range(len(self.generators))]

    def __call__(self, obs: Array, asked: Array) -> Array:
        """Actions for the rows `asked` [N] bool of obs [N, ...]; zeros for the others."""
        spec, count = self.agent.spec, len(self.places)
        out = np.zeros((len(obs), *spec.action_shape), spec.action_dtype)
        if self.memories:  # a row's memory stays in its place
            for start in range(0, len(obs), count):
                rows = np.arange(start, min(start + count, len(obs)))
                if asked[rows].any():
                    out[rows] = self._acted(obs[rows], rows)
        else:
            wanted = np.flatnonzero(asked)
            for start in range(0, len(wanted), count):
                rows = wanted[start : start + count]
                out[rows] = self._acted(obs[rows], rows)
        return out

    def _acted(self, obs: Array, rows: Array) -> Array:
        """Actions for one block."""
        full = np.zeros((self.block, *obs.shape[1:]), obs.dtype)
        places = self.places[: len(obs)]
        full[places] = obs
        memory = {"memory": self.memories[rows[0] // len(self.places)]} if self.memories else {}
        states = self.drawn[rows[0]] if self.explore and self.block == 1 else []
        before = [generator.get_state() for generator in self.generators] if states else []
        for generator, state in zip(self.generators, states, strict=False):
            generator.set_state(state)
        action = self.agent.act(torch.from_numpy(full).to(self.device), explore=self.explore, **memory)
        if states:
            self.drawn[rows[0]] = [generator.get_state() for generator in self.generators]
            for generator, state in zip(self.generators, before, strict=True):
                generator.set_state(state)
        found: Array = action.cpu().numpy()[places]
        return found


def _together(agent: Agent) -> tuple[int, Array]:
    """The size of a block and its places with equal results; (1, [0]) if there is only one."""
    block = IMAGES if has_images(agent.spec) else ROWS
    shapes = _Shapes()
    with shapes:
        _act_alike(agent, block + 1, seed=0)
    alike = torch.ones(block, dtype=torch.bool)
    for seed in range(2):
        with _Alike(block, shapes.found) as watch:
            _act_alike(agent, block, seed)
        alike &= watch.alike
    places = np.flatnonzero(alike.numpy())
    return (block, places) if len(places) > 1 else (1, np.zeros(1, np.int64))


def _act_alike(agent: Agent, count: int, seed: int) -> None:
    """Let the agent act on `count` equal rows."""
    spec, draw = agent.spec, np.random.default_rng(seed)
    same = torch.from_numpy(np.repeat(examples(spec, 1, draw), count, 0))
    memory = agent.memory(count)
    if memory is None:
        agent.act(same, explore=False)
    else:
        for _ in range(2):  # at first all that is remembered may be zeros, of which every sum is the same
            agent.act(same, explore=False, memory=memory)


class _Shapes(TorchDispatchMode):
    """Records the shapes of the results of all operations, in order."""

    def __init__(self) -> None:
        TorchDispatchMode.__init__(self)
        self.found: list[tuple[int, ...]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.found += [tuple(tensor.shape) for tensor in _tensors(out)]
        return out


class _Alike(TorchDispatchMode):
    """Watches all operations on equal rows: `alike` [block] marks the places with the same results as the first.

    `others` are the shapes of results for a batch of another size: axes of another length are axes of rows.
    """

    def __init__(self, block: int, others: list[tuple[int, ...]]) -> None:
        TorchDispatchMode.__init__(self)
        self.block, self.others = block, iter(others)
        self.alike = torch.ones(block, dtype=torch.bool)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in _tensors(out):
            self.alike &= self._compared(tensor, next(self.others, ()))
        return out

    def _compared(self, tensor: Tensor, other: tuple[int, ...]) -> Tensor:
        alike = torch.ones(self.block, dtype=torch.bool)
        if len(other) != tensor.ndim:  # other operations ran for the other size
            return ~alike
        for axis, length in enumerate(tensor.shape):
            if length == other[axis]:
                continue
            if length % self.block:
                return ~alike
            rows = tensor.movedim(axis, 0).reshape(self.block, -1)
            alike &= (rows == rows[:1]).all(1)
        return alike


def _tensors(out: Any) -> list[Tensor]:
    return [one for one in (out if isinstance(out, (tuple, list)) else (out,)) if isinstance(one, Tensor)]
