"""Where tensors live, and how many threads work on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from cairn.core.calls import option
from cairn.core.checks import fit, short
from cairn.core.errors import CairnError


def resolve_device(device: str | torch.device) -> str:
    """The device of that name, or one sentence where it is not there; "auto" is a GPU, or else the CPU."""
    name: str = fit("device", device, str)
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=name).cpu()
    except Exception:  # each kind of device has errors of its own
        raise CairnError(
            f"device {short(name)} is not available here; use {option('device', 'cpu')}, or auto."
        ) from None
    return name


def roomy(device: str, size: int) -> str:
    """The device, or the CPU where that many bytes would take more than half of what is free there."""
    kind = torch.device(device)
    if kind.type == "cuda" and 2 * size > torch.cuda.mem_get_info(kind)[0]:
        return "cpu"
    return device


@contextmanager
def one_thread(*, unless: bool = False) -> Iterator[None]:
    """Acting is too small to share among threads, and one that waits for work spins on a core an environment wants.

    Not so `unless` there is work for all of them, as there is where images are looked at.
    """
    before = torch.get_num_threads()
    if not unless:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
