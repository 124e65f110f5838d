"""Where tensors live."""

from __future__ import annotations

import torch

from cairn.core.errors import CairnError


def usable(device: str) -> str:
    """The device of that name, or one sentence where it is not there; "auto" is a GPU, or else the CPU."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError):
        raise CairnError(f"device {device!r} is not available here; use --device cpu, or auto.") from None
    return device
