"""An update recorded as a CUDA graph: one launch in place of some two hundred. On a CPU nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor

Metrics = dict[str, Tensor]
Learn = Callable[..., Metrics]
WARM_UP = 3


def graphed(learn: Learn, generator: Generator) -> Learn:
    """`learn(batch, *flags)` with one graph for each set of flags. A batch is a dataclass of tensors or a list of them,
    always of the same shapes.

    What is recorded is replayed as it was: `learn` must branch on its flags alone, keep its state in tensors on the
    device and draw from `generator`. The first calls run plainly, as recording asks.
    """
    if generator.device.type != "cuda":
        return learn
    recorded: dict[tuple[Any, ...], tuple[torch.cuda.CUDAGraph, list[Tensor], Metrics]] = {}
    calls: dict[tuple[Any, ...], int] = {}

    def replay(batch: Any, *flags: Any) -> Metrics:
        tensors = batch if isinstance(batch, list) else list(batch.__dict__.values())
        if flags in recorded:
            graph, slots, metrics = recorded[flags]
            for slot, value in zip(slots, tensors, strict=True):
                slot.copy_(value, non_blocking=True)
            graph.replay()
            return metrics
        calls[flags] = calls.get(flags, 0) + 1
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        if calls[flags] <= WARM_UP:
            with torch.cuda.stream(side):
                metrics = learn(batch, *flags)
            torch.cuda.current_stream().wait_stream(side)
            return metrics
        slots = [value.clone() for value in tensors]
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(generator)
        with torch.cuda.graph(graph):
            metrics = learn(slots if isinstance(batch, list) else type(batch)(*slots), *flags)
        recorded[flags] = graph, slots, metrics
        graph.replay()
        return metrics

    return replay
