"""Tensors in the format of torch before 1.6, read as data: many published policies have a `policy.pth` of it.

Five pickles come first: a magic number, a version, facts about the machine, the named tensors, the keys of the
storages. Then follows each storage: its length as eight bytes, and its numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cairn.interop.sb3 import safe_unpickle as inert

MAGIC, VERSION = 0x1950A86A20F9469CFC6C, 1001
NUMBERS = {"Double": "<f8", "Float": "<f4", "Half": "<f2", "Long": "<i8", "Int": "<i4", "Byte": "u1", "Bool": "?"}


def old_tensors(blob: bytes, admitted: str, source: str) -> dict[str, Tensor]:
    """The named tensors in `blob`. Nothing in it is executed, and nothing larger than `blob` is allocated.

    Raises CairnError where a pickle names anything not `admitted`, and ValueError, or what else damaged data raises,
    where it does not hold tensors.
    """
    (magic, version, machine, named, keys), at = inert.load_several(blob, 5, admitted, source)
    if (magic, version) != (MAGIC, VERSION) or not machine["little_endian"] or not isinstance(named, dict):
        raise ValueError("not tensors of torch")
    kinds = {key: kind for key, kind in (_storage(value) for value in named.values())}
    storages = {}
    for key in keys:
        numbers = np.dtype(NUMBERS[kinds[key]])
        length = int.from_bytes(blob[at : at + 8], "little")
        at += 8
        storages[key] = torch.from_numpy(np.frombuffer(blob, numbers, length, at).copy())
        at += numbers.itemsize * length
    return {name: _tensor(value, storages) for name, value in named.items()}


def _rebuilt(value: Any) -> tuple[Any, ...]:
    """The arguments that a tensor is made from; those of a parameter's tensor."""
    kind = inert.name_of(value)
    if kind == "torch._utils._rebuild_parameter":
        return _rebuilt(value.args[0])
    if kind != "torch._utils._rebuild_tensor_v2":
        raise ValueError("not a tensor")
    return tuple(value.args)


def _storage(value: Any) -> tuple[str, str]:
    """The key of a tensor's storage and the kind of its numbers: ("94", "Float")."""
    word, kind, key, _, _, view = _rebuilt(value)[0]
    if word != "storage" or type(key) is not str or view is not None:
        raise ValueError("not a whole storage")
    return key, inert.name_of(kind).removeprefix("torch.").removesuffix("Storage")


def _tensor(value: Any, storages: dict[str, Tensor]) -> Tensor:
    _, offset, shape, strides, *_ = _rebuilt(value)
    found = storages[_storage(value)[0]]
    if any(n < 0 for n in (offset, *shape, *strides)) or math.prod(shape) > found.numel():
        raise ValueError("a tensor larger than its storage")
    return torch.as_strided(found, shape, strides, offset)  # raises where it leaves the storage
