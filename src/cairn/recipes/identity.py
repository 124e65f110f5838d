"""Which settings define a recipe: its hash, what may change at a resume, and the provenance of results."""

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
from cairn.core.places import checkout
from cairn.core.schedules import Schedule
from cairn.core.unstored import Unstored
from cairn.recipes.recipe import Recipe

# What each field of a recipe determines. The hash, resuming and the groups of a report derive from it.
DECIDES = {
    "learning": "env agent metric hindsight hindsight_k envs time_limit time_feature history reward_floor resets"
    " action_masks env_args make wrappers eval_args eval_episodes checkpoint_every expert demos start levels",
    "ending": "steps target hold eval_every eval_early_stop",  # when a run is evaluated and stops
    "logging": "log log_every result_episodes",
    "machine": "device threads env_timeout ray_address",
    "stepping": "vector workers",  # how environments are stepped; `runs.resume` says which backends are equal
    "sharing": "learners",  # the same batches, drawn by more than one process
    "rounding": "native",  # the same arithmetic, which rounds differently
    "seed": "seed",
    "label": "name about",
}


def fields_that_decide(*what: str) -> frozenset[str]:
    """The fields in these rows of DECIDES."""
    return frozenset(name for one in what for name in DECIDES[one].split())


NOT_HASHED = fields_that_decide("logging", "machine", "stepping", "sharing", "rounding", "seed", "label")
RESUMABLE = fields_that_decide("ending", "logging", "machine", "label")  # these may change when a run is resumed


def provenance(recipe: Recipe) -> dict[str, Any]:
    """Hash of the settings, commit and hardware, to be saved with policies and results."""
    return {"config": config_hash(recipe), "commit": commit(), "hardware": hardware(recipe.device)}


def config_hash(recipe: Recipe) -> str:
    """Twelve hexadecimal digits that identify the settings.

    The seed and the machine do not count, and fields with default values are left out: so a new option does not change
    the
    hashes of old recipes.
    """
    body = {name: value for name, value in _described(recipe).items() if name not in NOT_HASHED}
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:12]


def _described(value: Any) -> Any:
    """A dataclass as its kind and the fields that differ from their defaults."""
    if isinstance(value, Schedule):
        return str(value)
    if isinstance(value, Unstored):
        return value.what
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {
            f.name: getattr(value, f.name) for f in dataclasses.fields(value) if getattr(value, f.name) != _usual(f)
        }
        return {"kind": type(value).__name__, **{name: _described(one) for name, one in changed.items()}}
    if isinstance(value, (tuple, list)):
        return [_described(one) for one in value]
    return value


def _usual(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def differences(was: Any, now: Any, name: str = "") -> list[tuple[str, Any, Any]]:
    """The settings that differ between two recipes as plain data, such as (agent.lr, 0.001, 0.5)."""
    if isinstance(was, dict) and isinstance(now, dict) and not name.startswith(("env_args", "eval_args", "levels")):
        if was.get("kind") != now.get("kind"):
            return [(name, was.get("kind"), now.get("kind"))]
        found = [differences(was.get(k), now.get(k), f"{name}.{k}" if name else k) for k in {**was, **now}]
        return [one for some in found for one in some]
    return [] if _plain(was) == _plain(now) else [(name, was, now)]


def _plain(value: Any) -> Any:
    """The value after a round trip through JSON, where tuples become lists."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, (tuple, list)) else value


@functools.cache
def commit() -> str | None:
    """The commit of this checkout, followed by + if files were changed; None for an installed package."""
    root = checkout()
    if root is None or not (root / ".git").exists():
        return None
    ask = ["git", "-C", str(root), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
    try:
        said = subprocess.run(ask, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return said.stdout.strip()


@functools.cache
def hardware(device: str) -> str:
    """The hardware in words: '2 cores of Intel Xeon ..., 24 GB', and the GPU if `device` is one."""
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
