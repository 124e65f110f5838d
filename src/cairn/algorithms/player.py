"""An agent that plays: arrays in, arrays out, and what it remembers of the episodes in between."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from cairn.core.agent import Agent, Memory
from cairn.core.errors import CairnError
from cairn.core.types import Array, Discrete, Spec
from cairn.nets.cnn import sees_images

ROWS, IMAGES = 20, 8  # observations, images that are asked about together when an agent is scored


def _choices(spec: Spec) -> int:
    return spec.action.n if isinstance(spec.action, Discrete) else 0


def _taken(spec: Spec) -> str:
    return f"one of {_choices(spec)} actions" if _choices(spec) else f"actions of {spec.action_shape[0]} numbers"


class Player:
    """An agent as a function of arrays: observations [N, ...] to actions [N] or [N, dim], in Cairn's units.

    An agent that remembers (it has `memory`) is given one for its N environments; `forget` says whose episode ended.
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
        """CairnError where the agent sees or does other things than this task shows and takes."""
        mine = self.agent.spec
        if (mine.obs_shape, mine.action_shape) != (task.obs_shape, task.action_shape) or _choices(mine) != _choices(
            task
        ):
            raise CairnError(
                f"this policy has observations {mine.obs_shape} and {_taken(mine)}, and its task {task.obs_shape} and"
                f" {_taken(task)}: it was saved with another task or other arguments."
            )

    def alone(self, count: int) -> Solo:
        """The same agent, for scores in `count` environments."""
        return Solo(self.agent, count, explore=self.explore, device=self.device)

    def subgoal(self) -> Array | None:
        """The points [N, d] that a hierarchy makes for, since it last acted."""
        target = None if self.memory is None else self.memory.target
        return None if target is None else target.cpu().numpy().copy()

    def forget(self, ended: Array) -> None:
        """[N] bool: what these environments show next begins an episode."""
        if self.memory is not None:
            self.memory.forget(ended)


class Solo:
    """A player for scores: on a CPU a row's action depends on that row and its episode, to the last bit.

    A product of matrices is rounded differently for batches of another size. So rows are asked about in blocks of one
    size, filled up with zeros. A row's place in a block may change its result too: only places are used where it is
    the same. Where there is one alone, and where the agent draws at random, each row is asked about by itself, and
    each episode draws from its own seed.
    """

    def __init__(self, agent: Agent, count: int, *, explore: bool = False, device: str = "cpu") -> None:
        self.agent, self.explore, self.device = agent, explore, device
        self.generators = [part for part in agent.training_parts.values() if isinstance(part, Generator)]
        self.drawn: list[list[Tensor]] = [[] for _ in range(count)]  # the state of each generator in each episode
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
        """This row's next observation is the first of an episode from that seed."""
        if self.memories:
            which = np.zeros(self.block, bool)
            which[self.places[row % len(self.places)]] = True
            self.memories[row // len(self.places)].forget(which)
        if self.explore and self.block == 1:
            self.drawn[row] = [Generator().manual_seed(seed + i).get_state() for i in range(len(self.generators))]

    def __call__(self, obs: Array, asked: Array) -> Array:
        """Actions for the rows [N] bool that are `asked`; zeros for the others."""
        spec, count = self.agent.spec, len(self.places)
        out = np.zeros((len(obs), *spec.action_shape), spec.action_dtype)
        if self.memories:  # each row keeps its place
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
        """One block."""
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
        return action[torch.from_numpy(places).to(self.device)].cpu().numpy()


def _together(agent: Agent) -> tuple[int, Array]:
    """The size of a block, and the places in it where equal rows have equal results; (1, [0]) where there is one."""
    block = IMAGES if sees_images(agent.spec) else ROWS
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
    """Ask about `count` equal rows."""
    spec, draw = agent.spec, np.random.default_rng(seed)
    row = draw.integers(0, 256, spec.obs_shape) if spec.obs_dtype == "uint8" else draw.normal(size=spec.obs_shape)
    same = torch.from_numpy(np.repeat(row[None].astype(spec.obs_dtype), count, 0))
    memory = agent.memory(count)
    agent.act(same, explore=False, **({} if memory is None else {"memory": memory}))


class _Shapes(TorchDispatchMode):
    """Notes the shape of every operation's results, in their order."""

    def __init__(self) -> None:
        TorchDispatchMode.__init__(self)
        self.found: list[tuple[int, ...]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.found += [tuple(tensor.shape) for tensor in _tensors(out)]
        return out


class _Alike(TorchDispatchMode):
    """Watches every operation on equal rows: `alike` [block] tells at which places all results are those at the first.

    `others` are the shapes for a batch of another size. An axis that has another length there is one of rows.
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
        if len(other) != tensor.ndim:  # other operations than for another size
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
