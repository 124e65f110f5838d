"""Where a result comes from: which settings, which code, which machine."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from cairn.core.memory import memory
from cairn.core.schedules import Schedule
from cairn.recipes.recipe import Recipe

APART = {"name", "about", "seed", "result_episodes", "log_every"}  # no part of what a run is,
APART |= {"device", "threads", "workers", "vector", "ray_address", "env_timeout"}  # nor is where it takes place


def provenance(recipe: Recipe) -> dict[str, Any]:
    return {"config": config_hash(recipe), "commit": commit(), "hardware": hardware(recipe.device)}


def config_hash(recipe: Recipe) -> str:
    """Twelve digits that tell settings apart.

    The seed and where a run takes place are no part of them, and what is as it is by default is left out: an option
    that is added later changes no hash.
    """
    body = {name: value for name, value in _told(recipe).items() if name not in APART}
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:12]


def _told(value: Any) -> Any:
    """A dataclass as its kind and the fields that differ from their defaults."""
    if isinstance(value, Schedule):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        told = {
            f.name: getattr(value, f.name) for f in dataclasses.fields(value) if getattr(value, f.name) != _usual(f)
        }
        return {"kind": type(value).__name__, **{name: _told(one) for name, one in told.items()}}
    if isinstance(value, (tuple, list)):
        return [_told(one) for one in value]
    return value


def _usual(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


@functools.cache
def commit() -> str | None:
    """The commit of this checkout, with a + where files differ from it; None where the package was installed."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return None
    ask = ["git", "-C", str(root), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
    try:
        said = subprocess.run(ask, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return said.stdout.strip()


@functools.cache
def hardware(device: str) -> str:
    """In words: '2 cores of Intel Xeon ..., 24 GB', and the GPU where one learns."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        model = "a CPU"
    words = f"{os.cpu_count()} cores of {model}"
    if memory()[1] < sys.maxsize:
        words += f", {memory()[1] / 1e9:.0f} GB"
    if device.startswith("cuda"):
        words += f", {torch.cuda.get_device_name(device)}"
    return words
