"""CUDA graphs: record a training step once, then launch it as a whole instead of kernel by kernel.

Where several runs share a process, the steps that are due in all of them are recorded as one graph. Each run is a
branch of it with kernels of its own, so it computes what it would compute alone, and the branches run at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Generator, Tensor

from cairn.core.learners import shared as learners
from cairn.core.turns import shared

Found = TypeVar("Found")
WARM_UP = 3


def graphed(learn: Callable[..., Found], generator: Generator) -> Callable[..., Found]:
    """Wrap `learn(batch, *flags)`: one CUDA graph for each set of flags and shapes; unchanged on a CPU.

    A batch is a dataclass of tensors or a list of them. The next call with the same flags and shapes overwrites the
    tensors that a call returned.

    A graph replays the kernels it recorded: `learn` may branch only on its flags, must keep its state in tensors on the
    device and draw random numbers from `generator`. The first WARM_UP calls run without a graph, as CUDA requires.
    """
    return learn if generator.device.type != "cuda" else Graphed(learn, generator)


class Graphed(Generic[Found]):
    """A function that is recorded."""

    def __init__(self, learn: Callable[..., Found], generator: Generator) -> None:
        self.learn, self.generator = learn, generator
        self.name = learn.__qualname__
        self.calls: dict[Hashable, int] = {}
        # Recordings by the functions that were recorded together, this one first, and their kind.
        self.recorded: dict[Hashable, Recording] = {}

    def __call__(self, batch: Any, *flags: Any) -> Found:
        if learners() is not None:  # it would have to record what the learners send each other
            return self.learn(batch, *flags)
        call = Call(self, batch, flags)
        turns = shared()
        found: Found = answer([call])[0] if turns is None else turns.meet(call)
        return found


class Call:
    """One call of a recorded function."""

    def __init__(self, of: Graphed[Any], batch: Any, flags: tuple[Any, ...]) -> None:
        self.of, self.batch, self.flags, self.grad = of, batch, flags, torch.is_grad_enabled()
        self.tensors: list[Tensor] = batch if isinstance(batch, list) else list(batch.__dict__.values())
        flag = tuple(id(one) if isinstance(one, Generator) else one for one in flags)
        self.key = (flag, *(tensor.shape for tensor in self.tensors))
        # Calls of equal kind are answered together. A generator is no part of it: each run has its own.
        plain = tuple(one for one in flags if not isinstance(one, Generator))
        self.kind: Hashable = (of.name, plain, *(tensor.shape for tensor in self.tensors))

    def run(self, tensors: list[Tensor]) -> Any:
        """Call the function with these tensors in place of its own."""
        batch = tensors if isinstance(self.batch, list) else type(self.batch)(*tensors)
        with torch.set_grad_enabled(self.grad):
            return self.of.learn(batch, *self.flags)

    def answer(self, requests: Sequence[Call]) -> list[Any]:
        """See `answer`."""
        return answer(requests)


@dataclass
class Recording:
    """A graph, the functions in it, the inputs of each and what each returned."""

    graph: torch.cuda.CUDAGraph
    functions: list[Graphed[Any]]  # kept, since the key of a recording has their ids
    slots: list[list[Tensor]]
    found: list[Any]

    def replay(self, calls: Sequence[Call]) -> list[Any]:
        """Run the graph with the inputs of these calls."""
        for slots, call in zip(self.slots, calls, strict=True):
            for slot, value in zip(slots, call.tensors, strict=True):
                slot.copy_(value, non_blocking=True)
        self.graph.replay()
        return self.found


def answer(calls: Sequence[Call]) -> list[Any]:
    """The results of calls of one kind, by one graph once all of them are warm."""
    recorded, key = calls[0].of.recorded, tuple((id(call.of), call.key) for call in calls)
    if key not in recorded:
        counts = [_counted(call) for call in calls]
        if min(counts) <= WARM_UP:
            return [_warm_up(call) for call in calls]
        recorded[key] = record(calls)
    return recorded[key].replay(calls)


def _counted(call: Call) -> int:
    call.of.calls[call.key] = call.of.calls.get(call.key, 0) + 1
    return call.of.calls[call.key]


def _warm_up(call: Call) -> Any:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        found = call.run(call.tensors)
    torch.cuda.current_stream().wait_stream(side)
    return found


def record(calls: Sequence[Call]) -> Recording:
    """Record calls as one graph, each but the first on a stream of its own."""
    slots = [[value.clone() for value in call.tensors] for call in calls]
    graph = torch.cuda.CUDAGraph()
    for call in calls:
        graph.register_generator_state(call.of.generator)
    sides = [torch.cuda.Stream() for _ in calls[1:]]
    with torch.cuda.graph(graph):
        main = torch.cuda.current_stream()
        for side in sides:
            side.wait_stream(main)
        found = [calls[0].run(slots[0])]
        for side, call, given in zip(sides, calls[1:], slots[1:], strict=True):
            with torch.cuda.stream(side):
                found.append(call.run(given))
        for side in sides:
            main.wait_stream(side)
    return Recording(graph, [call.of for call in calls], slots, found)
