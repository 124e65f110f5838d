"""The device that tensors are on, and the number of CPU threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from cairn.core.calls import option
from cairn.core.checks import fit, short
from cairn.core.errors import CairnError


def resolve_device(device: str | torch.device) -> str:
    """The name of an available device; "auto" is a GPU if there is one, else the CPU. Raises CairnError."""
    name: str = fit("device", device, str)
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name).cpu()
    except Exception:  # each type of device raises errors of its own
        raise CairnError(
            f"device {short(name)} is not available here; use {option('device', 'cpu')}, or auto."
        ) from None
    return name


def roomy(device: str, size: int) -> str:
    """`device`, or "cpu" where `size` bytes would take more than half of the GPU's free memory."""
    kind = torch.device(device)
    if kind.type == "cuda" and 2 * size > torch.cuda.mem_get_info(kind)[0]:
        return "cpu"
    return device


def copied_to(device: str, size: int) -> str:
    """Where a replay of `size` bytes has a copy: on a GPU with room for twice as much, else nowhere ("cpu")."""
    return roomy(device, size) if torch.device(device).type == "cuda" else "cpu"


@contextmanager
def one_thread(*, unless: bool = False) -> Iterator[None]:
    """Context in which torch uses one thread, except with `unless`.

    A forward pass for acting is too small to split among threads, and idle torch threads spin on cores that
    environments
    need. Image networks have enough work for all threads: pass `unless`.
    """
    before = torch.get_num_threads()
    if not unless:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
