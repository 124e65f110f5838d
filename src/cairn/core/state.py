"""The parts of an agent as named tensors, and back: the contents of a checkpoint."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Generator, Tensor, nn

from cairn.core.errors import CairnError


class Stateful(Protocol):
    """An optimiser, or anything else with a state of named tensors that can be filled in place: `state()`."""

    def state(self) -> Mapping[str, Tensor]: ...


Part = nn.Module | Stateful | Generator | Tensor
Parts = Mapping[str, Part]


def check_parts(parts: Parts, owner: str) -> None:
    """Raise CairnError for a part of a type that a checkpoint cannot hold; `owner` names the agent."""
    for name, part in parts.items():
        if not isinstance(part, (nn.Module, Generator, Tensor)) and not callable(getattr(part, "state", None)):
            raise CairnError(
                f"{owner} has the part {name!r} of type {type(part).__name__}, which no checkpoint can hold; parts are"
                " modules, tensors, generators and cairn.nets.optim.Optimizer."
            )


def pack(parts: Parts) -> dict[str, Tensor]:
    """{'critic': module, ...} -> {'critic.layers.0.weight': tensor, ...}, copied to the CPU."""
    return {
        f"{name}.{key}": value.detach().to("cpu", copy=True).contiguous()
        for name, part in parts.items()
        for key, value in _entries(part).items()
    }


def _entries(part: Part) -> Mapping[str, Tensor]:
    if isinstance(part, nn.Module):
        return part.state_dict()
    if isinstance(part, Generator):
        return {"state": part.get_state()}
    if isinstance(part, Tensor):
        return {"value": part}
    return part.state()


@torch.no_grad()
def unpack(parts: Parts, tensors: Mapping[str, Tensor]) -> None:
    """Fill the parts in place. Raises CairnError where a tensor is missing or has another shape."""
    for name, part in parts.items():
        mine = {k.removeprefix(f"{name}."): v for k, v in tensors.items() if k.startswith(f"{name}.")}
        if isinstance(part, Generator):
            state = _wanted(mine, "state", name)
            if len(state) == len(part.get_state()):
                part.set_state(state)
            else:  # saved on another type of device: seed it from the saved state, so that it is reproducible
                part.manual_seed(zlib.crc32(bytes(state.tolist())))
            continue
        for key, slot in _entries(part).items():
            value = _wanted(mine, key, name)
            if value.shape != slot.shape:
                raise CairnError(
                    f"tensor {name}.{key} has shape {tuple(value.shape)} where the agent has {tuple(slot.shape)}."
                )
            slot.copy_(value)


def _wanted(tensors: Mapping[str, Tensor], key: str, part: str) -> Tensor:
    if key not in tensors:
        raise CairnError(f"the saved policy lacks the tensor {part}.{key}.")
    return tensors[key]


def generator_state(generator: Generator) -> str:
    """The state of a generator as hexadecimal text, for JSON."""
    return bytes(generator.get_state().tolist()).hex()


def generator_from(text: str) -> Tensor:
    """The state that `generator_state` wrote, for `Generator.set_state`."""
    return torch.tensor(list(bytes.fromhex(text)), dtype=torch.uint8)
