"""The files of policies and checkpoints: a folder of safetensors and JSON that is written atomically.

policy.safetensors    networks and normalisers          policy.json    agent, task, spec, checksum
training.safetensors  optimisers and generators         training.json  counters, replay, checksum    (checkpoints only)
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from cairn.core.errors import CairnError
from cairn.core.serialise import digest
from cairn.core.untrusted import (
    TENSOR_COUNT,
    TENSOR_HEADER,
    TENSORS,
    NotThere,
    check_tensors,
    read_bytes,
    read_json,
    shown,
)
from cairn.runs.disk import failure

FORMAT = 1
FILES = {f"{part}.{kind}" for part in ("policy", "training") for kind in ("json", "safetensors")}
NUMBERED = re.compile(r"[0-9]{10,}")  # names of checkpoints


def checkpoints(root: Path) -> list[Path]:
    """Checkpoint folders, oldest first."""
    found = [p for p in root.iterdir() if NUMBERED.fullmatch(p.name) and p.is_dir()] if root.is_dir() else []
    return sorted(found, key=lambda p: int(p.name))


def tensor_files(name: str, tensors: dict[str, Tensor]) -> tuple[dict[str, bytes], dict[str, Any]]:
    """A safetensors file of these tensors, and its format and checksum. Raises CairnError if it is too large."""
    size = sum(x.numel() * x.element_size() for x in tensors.values())
    if size > TENSORS - TENSOR_HEADER or len(tensors) > TENSOR_COUNT:  # reading would refuse it
        most = f"{TENSORS / 2**30:.3g} GiB and {TENSOR_COUNT:,} tensors"
        raise CairnError(
            f"this agent cannot be saved: {name}.safetensors would hold {size / 2**30:,.1f} GiB in {len(tensors):,}"
            f" tensors, and a file may hold {most}. Make its networks smaller."
        )
    blob = safetensors.torch.save(tensors)
    return {f"{name}.safetensors": blob}, {"format": FORMAT, "sha256": hashlib.sha256(blob).hexdigest()}


def json_file(value: Mapping[str, Any]) -> bytes:
    """JSON with a digest of itself, so that later changes are noticed."""
    return json.dumps({**value, "digest": digest(value)}, indent=2).encode()


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write to a temporary folder, sync, rename. A crash or a full disk leaves the old folder unchanged."""
    folder = folder.resolve()
    _recover(folder)
    check_replaceable(folder)
    temporary, old = folder.with_name(f".{folder.name}.tmp"), folder.with_name(f".{folder.name}.old")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        for name, blob in files.items():
            with open(temporary / name, "wb") as file:
                file.write(blob)
                file.flush()
                os.fsync(file.fileno())
        _sync_folder(temporary)
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)
            folder.rename(old)
        temporary.rename(folder)
        _sync_folder(folder.parent)
    except OSError as error:
        _recover(folder)
        shutil.rmtree(temporary, ignore_errors=True)
        raise failure(folder, error) from error
    shutil.rmtree(old, ignore_errors=True)


def check_replaceable(folder: Path) -> None:
    """Raise CairnError where writing a policy to this folder would remove other files."""
    if not os.path.lexists(folder):
        return
    held = sorted(p.name for p in folder.iterdir() if p.name not in FILES or p.is_dir()) if folder.is_dir() else [""]
    if held:
        what = f"holds other files than a policy's ({shown(held[0], 60)})" if held[0] else "is a file"
        raise CairnError(f"{folder} {what}; name a new folder.")


def recover(run: Path) -> None:
    """Repair a locked run folder after a crash between the two renames of `write_folder`."""
    for root in (run, run / "checkpoints"):
        for old in root.glob(".*.old"):
            folder = root / old.name[1:-4]
            if folder.name != "best" and not NUMBERED.fullmatch(folder.name):
                continue
            _recover(folder)
            shutil.rmtree(old, ignore_errors=True)  # the new folder is already in place


def _recover(folder: Path) -> None:
    """Rename a folder back that a crash between two renames left under its temporary name."""
    old = folder.with_name(f".{folder.name}.old")
    if not folder.exists() and old.is_dir():
        old.rename(folder)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_card(path: Path) -> dict[str, Any]:
    """The contents of policy.json or training.json. Raises CairnError where it is missing, damaged or newer."""
    try:
        head = read_json(path)
    except NotThere:
        raise CairnError(f"{path} is missing.") from None
    if not isinstance(head, dict) or not isinstance(head.get("format"), int):
        raise CairnError(f"{path} was not written by Cairn.")
    if head["format"] > FORMAT:
        raise CairnError(
            f"{path} is of format {head['format']}, newer than this Cairn reads ({FORMAT}); upgrade Cairn."
        )
    if "digest" not in head:
        raise CairnError(f"{path} has no digest: an older Cairn wrote it, or it was altered.")
    if head["digest"] != digest(head):
        raise CairnError(f"{path} is damaged: it is not what was saved (its digest differs).")
    return head


def training_note(folder: Path) -> dict[str, Any]:
    """A checkpoint's counters and recipe, without its tensors. Raises CairnError where they are damaged."""
    return read_card(folder / "training.json")


def read_tensors(path: Path, head: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors of a file, checked against the checksum in its card. Raises CairnError."""
    try:
        blob = read_bytes(path, TENSORS)
    except NotThere:
        raise CairnError(f"{path} is missing.") from None
    if hashlib.sha256(blob).hexdigest() != head.get("sha256"):
        raise CairnError(f"{path} is damaged: it is not the file that was saved (its checksum differs).")
    check_tensors(blob, str(path))
    try:
        tensors: dict[str, Tensor] = safetensors.torch.load(blob)
    except safetensors.SafetensorError as error:
        raise CairnError(f"{path} is not a safetensors file.") from error
    return tensors
