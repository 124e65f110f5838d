"""CUDA graphs: record a training step once, then launch it as a whole instead of kernel by kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Generator, Tensor

Found = TypeVar("Found")
WARM_UP = 3


def graphed(learn: Callable[..., Found], generator: Generator) -> Callable[..., Found]:
    """Wrap `learn(batch, *flags)`: one CUDA graph for each set of flags and shapes; unchanged on a CPU.

    A batch is a dataclass of tensors or a list of them. The next call with the same flags and shapes overwrites the
    tensors that a call returned.

    A graph replays the kernels it recorded: `learn` may branch only on its flags, must keep its state in tensors on the
    device and draw random numbers from `generator`. The first WARM_UP calls run without a graph, as CUDA requires.
    """
    if generator.device.type != "cuda":
        return learn
    recorded: dict[tuple[Any, ...], tuple[torch.cuda.CUDAGraph, list[Tensor], Found]] = {}
    calls: dict[tuple[Any, ...], int] = {}

    def replay(batch: Any, *flags: Any) -> Found:
        tensors = batch if isinstance(batch, list) else list(batch.__dict__.values())
        kind = (*flags, *(tensor.shape for tensor in tensors))
        if kind in recorded:
            graph, slots, found = recorded[kind]
            for slot, value in zip(slots, tensors, strict=True):
                slot.copy_(value, non_blocking=True)
            graph.replay()
            return found
        calls[kind] = calls.get(kind, 0) + 1
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        if calls[kind] <= WARM_UP:
            with torch.cuda.stream(side):
                found = learn(batch, *flags)
            torch.cuda.current_stream().wait_stream(side)
            return found
        slots = [value.clone() for value in tensors]
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(generator)
        with torch.cuda.graph(graph):
            found = learn(slots if isinstance(batch, list) else type(batch)(*slots), *flags)
        recorded[kind] = graph, slots, found
        graph.replay()
        return found

    return replay
