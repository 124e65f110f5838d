"""Policies and checkpoints as data: safetensors and JSON in a folder that appears whole or not at all.

policy.safetensors    networks and normalisers          policy.json    agent, task, spec, checksum
training.safetensors  optimisers and generators         training.json  counters, replay, checksum    (checkpoints only)
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from cairn.algorithms.registry import AgentConfig
from cairn.core.agent import Agent
from cairn.core.calls import option
from cairn.core.checks import fit
from cairn.core.errors import CairnError
from cairn.core.types import Spec
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
from cairn.envs.task import Task
from cairn.core.state import pack, unpack
from cairn.runs.policy_card import build_described, check_spec, check_task, must_be_numbers
from cairn.runs.disk import failure
from cairn.core.serialise import digest, from_json, to_json

FORMAT = 1
KEEP = 2
FILES = {f"{part}.{kind}" for part in ("policy", "training") for kind in ("json", "safetensors")}
NUMBERED = re.compile(r"[0-9]{10,}")  # names of checkpoints
# settings under which the same weights would mean something else
MEANING = ["activation", "normalise", "normalise_obs", "relative_goals", "layer_norm", "dueling", "cnn"]
MEANING += ["subgoal", "subgoal_range", "every", "bins", "hide"]  # of a hierarchy


@dataclass(frozen=True)
class Saved:
    """A policy read back: the agent, the task it plays and whatever else was noted about it."""

    agent: Agent
    task: Task
    about: dict[str, Any]


def save_policy(folder: Path, agent: Agent, task: Task, about: Mapping[str, Any]) -> None:
    """Write a policy folder in one stroke, replacing what was there."""
    write_folder(folder, _policy_files(agent, task, about))


def save_checkpoint(
    root: Path, agent: Agent, task: Task, about: Mapping[str, Any], training: Mapping[str, Any]
) -> Path:
    """root/0000012000/ with policy and training state; the last two checkpoints are kept."""
    folder = root / f"{training['step']:010d}"
    tensors, note = _tensor_files("training", pack(agent.training_parts))
    files = {**_policy_files(agent, task, about), **tensors, "training.json": _json({**training, **note})}
    write_folder(folder, files)
    for old in checkpoints(root)[:-KEEP]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def checkpoints(root: Path) -> list[Path]:
    """Checkpoint folders, oldest first."""
    found = [p for p in root.iterdir() if NUMBERED.fullmatch(p.name) and p.is_dir()] if root.is_dir() else []
    return sorted(found, key=lambda p: int(p.name))


def _policy_files(agent: Agent, task: Task, about: Mapping[str, Any]) -> dict[str, bytes]:
    tensors, note = _tensor_files("policy", pack(agent.policy_parts))
    head = {"agent": to_json(agent.cfg), "spec": to_json(agent.spec), "task": to_json(task)}
    return {**tensors, "policy.json": _json({**head, "about": dict(about), **note})}


def _tensor_files(name: str, tensors: dict[str, Tensor]) -> tuple[dict[str, bytes], dict[str, Any]]:
    size = sum(x.numel() * x.element_size() for x in tensors.values())
    if size > TENSORS - TENSOR_HEADER or len(tensors) > TENSOR_COUNT:  # or it would be refused when it is read
        most = f"{TENSORS / 2**30:.3g} GiB and {TENSOR_COUNT:,} tensors"
        raise CairnError(
            f"this agent cannot be saved: {name}.safetensors would hold {size / 2**30:,.1f} GiB in {len(tensors):,}"
            f" tensors, and a file may hold {most}. Make its networks smaller."
        )
    blob = safetensors.torch.save(tensors)
    return {f"{name}.safetensors": blob}, {"format": FORMAT, "sha256": hashlib.sha256(blob).hexdigest()}


def _json(value: Mapping[str, Any]) -> bytes:
    """With a digest of its own, so that an altered figure is noticed as an altered tensor is."""
    return json.dumps({**value, "digest": digest(value)}, indent=2).encode()


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write to a temporary name, sync, rename: a crash or a full disk leaves the old folder as it was."""
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
    """CairnError where writing a policy to this folder would remove anything but an older policy."""
    if not os.path.lexists(folder):
        return
    held = sorted(p.name for p in folder.iterdir() if p.name not in FILES or p.is_dir()) if folder.is_dir() else [""]
    if held:
        what = f"holds other files than a policy's ({shown(held[0], 60)})" if held[0] else "is a file"
        raise CairnError(f"{folder} {what}; name a new folder.")


def recover(run: Path) -> None:
    """Put right what a kill between the two renames of `write_folder` left, in a run folder that is locked."""
    for root in (run, run / "checkpoints"):
        for old in root.glob(".*.old"):
            folder = root / old.name[1:-4]
            if folder.name != "best" and not NUMBERED.fullmatch(folder.name):
                continue
            _recover(folder)
            shutil.rmtree(old, ignore_errors=True)  # the new one was in place already


def _recover(folder: Path) -> None:
    """Killed between two renames, a folder is left under its old name: give it its own again."""
    old = folder.with_name(f".{folder.name}.old")
    if not folder.exists() and old.is_dir():
        old.rename(folder)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def find_policy(path: Path) -> Path:
    """The policy folder behind a run folder, a checkpoint or a zoo entry: a run's best, else its newest."""
    path = Path(fit("path", path, str))
    if path.is_file():
        raise CairnError(
            f"{path} is a file; Cairn reads folders of safetensors and JSON, and never unpickles. Name the folder;"
            " a zip of Stable-Baselines3 goes through `cairn import` first."
        )
    if not path.exists():
        kept = Path("zoo") / path
        known = [kept] if kept.is_dir() else sorted(Path("runs").glob(f"{glob.escape(str(path))}-s*"))[-1:]
        where = f" Did you mean {known[0]}?" if known and not path.is_absolute() else ""
        raise CairnError(f"there is no {path}; name a run folder, a checkpoint or a zoo entry.{where}")
    # .best.old: a run was killed between two renames, or is just renaming; whoever holds its lock puts it right
    for folder in (path, path / "best", path / ".best.old", *reversed(checkpoints(path / "checkpoints"))):
        if (folder / "policy.json").exists():
            return folder
    raise CairnError(f"{path} holds no policy (no policy.json in it, in its best/ or in its checkpoints/).")


def has_policy(path: Path) -> bool:
    """Whether `find_policy` finds one."""
    try:
        return bool(find_policy(path))
    except CairnError:
        return False


def load_policy(path: Path, *, device: str = "cpu", seed: int = 0, trust: bool = False) -> Saved:
    """Read a saved policy without running anything from the file.

    Its task may be made afterwards. One that would import a module by its name, or open a file, is refused here, but
    where the user trusts the file.
    """
    saved, folder = _load(path, device=device, seed=seed)
    check_task(saved.task, folder / "policy.json", trust=trust)
    return saved


def _load(path: Path, *, device: str = "cpu", seed: int = 0) -> tuple[Saved, Path]:
    """A saved policy and where it lies; its task is not to be made."""
    folder = find_policy(path)
    card = folder / "policy.json"
    head = _read_json(card)
    tensors = _read_tensors(folder / "policy.safetensors", head)
    must_be_numbers(tensors, folder / "policy.safetensors")
    try:
        cfg: AgentConfig = from_json(AgentConfig, head.get("agent"))  # type: ignore[arg-type]
        spec, task = from_json(Spec, head.get("spec")), from_json(Task, head.get("task"))
        about: dict[str, Any] = from_json(dict[str, Any], head.get("about", {}))
    except CairnError as error:
        raise CairnError(f"{card} cannot be used: {error}") from error
    check_spec(spec, card)
    agent: Agent = build_described(cfg, spec, tensors, card, seed=seed, device=device)
    _take_up(agent, tensors)
    agent.progress = 1.0  # its schedules are at their ends: what explores is as bold as at last
    return Saved(agent, task, about), folder


def load_agent(path: Path, *, device: str = "cpu") -> tuple[Agent, str]:
    """The agent of a saved policy, and the id of the task it plays, which is not to be made."""
    saved, _ = _load(path, device=device)
    return saved.agent, saved.task.id


def export(path: Path, out: Path, *, half: bool = False) -> None:
    """The policy behind `path` as a folder of its own; `half` keeps its weights in half precision."""
    folder = find_policy(path)
    if folder.resolve() == out.resolve():
        raise CairnError(f"{out} is the policy itself; name another folder with {option('out')}.")
    head = _read_json(folder / "policy.json")
    tensors = _read_tensors(folder / "policy.safetensors", head)
    if half:
        tensors = {name: x.half() if x.dtype == torch.float32 else x for name, x in tensors.items()}
        if not all(x.isfinite().all() for x in tensors.values() if x.is_floating_point()):
            raise CairnError(f"{folder} has weights too large for half precision; leave {option('half')} off.")
    files, note = _tensor_files("policy", tensors)
    write_folder(out, {**files, "policy.json": _json({**head, **note})})


def about_policy(path: Path) -> dict[str, Any]:
    """What was noted about a saved policy, without loading it; CairnError where the note was altered."""
    return dict(_read_json(find_policy(path) / "policy.json").get("about", {}))


def load_start(path: Path, agent: Agent) -> None:
    """Fill an agent that is about to train from a saved policy of its kind."""
    saved: Any = load_agent(path)[0]
    if type(saved) is not type(agent):
        raise CairnError(f"{path} holds a {_name(saved)}; a {_name(agent)} cannot start from it.")
    if saved.spec != agent.spec:
        raise CairnError(f"{path} saw and did other things than this run will: {saved.spec} against {agent.spec}.")
    theirs, mine = _meaning(saved.cfg), _meaning(agent.cfg)
    for name in theirs.keys() | mine.keys():
        if theirs.get(name) != mine.get(name):
            told = f"agent.{name} {theirs.get(name)}; start from it with the same, not {mine.get(name)}."
            raise CairnError(f"{path} was trained with {told}")
    try:
        _take_up(agent, pack(saved.policy_parts))
    except CairnError as error:
        raise CairnError(f"{path} cannot be started from: {error}") from error


def _take_up(agent: Agent, tensors: Mapping[str, Tensor]) -> None:
    """Fill an agent from a policy alone; what it keeps besides follows."""
    unpack(agent.policy_parts, tensors)
    getattr(agent, "settle", lambda: None)()


def _meaning(cfg: Any) -> dict[str, Any]:
    """What of these settings its weights depend on, of its parts too."""
    found = {name: getattr(cfg, name) for name in MEANING if hasattr(cfg, name)}
    for part in ("learner", "high", "low"):
        if hasattr(cfg, part):
            found |= {f"{part}.{name}": value for name, value in _meaning(getattr(cfg, part)).items()}
    return found


def load_level(path: Path, agent: Agent, level: str) -> None:
    """Fill one level of a hierarchy: from the same level of a saved one, or from a policy that saw the same."""
    if level not in ("high", "low"):
        raise CairnError(f"hiro has no level {level!r}; the levels are high and low.")
    saved, mine = load_agent(path)[0], getattr(agent, level)
    found: Any = getattr(saved, level, saved)
    if type(found) is not type(mine):
        raise CairnError(f"{path} holds a {_name(found)} where agent.{level} is a {_name(mine)}.")
    if replace(found.spec, reachable=None) != replace(mine.spec, reachable=None):
        raise CairnError(f"{path} saw and did other things than agent.{level} will: {found.spec} against {mine.spec}.")
    if (found.cfg.relative_goals, found.cfg.normalise) != (mine.cfg.relative_goals, mine.cfg.normalise):
        raise CairnError(f"{path} saw its goals otherwise: relative_goals or normalise differ from agent.{level}'s.")
    unpack(mine.policy_parts, pack(found.policy_parts))


def _name(agent: Any) -> str:
    return type(agent).__name__.lower()


def load_checkpoint(folder: Path, agent: Agent) -> dict[str, Any]:
    """Fill the agent from a checkpoint and return its counters; CairnError where it is broken."""
    policy, training = _read_json(folder / "policy.json"), _read_json(folder / "training.json")
    tensors = _read_tensors(folder / "policy.safetensors", policy)
    more = _read_tensors(folder / "training.safetensors", training)
    try:
        unpack(agent.policy_parts, tensors)
        unpack(agent.training_parts, more)
    except (RuntimeError, TypeError, ValueError) as error:  # a generator takes no state but one of its own
        raise CairnError(f"{folder} does not fit this agent ({shown(str(error))}).") from error
    return training


def training_note(folder: Path) -> dict[str, Any]:
    """The counters of a checkpoint and the recipe of its run, without its tensors; CairnError where they are broken."""
    return _read_json(folder / "training.json")


def _read_json(path: Path) -> dict[str, Any]:
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


def _read_tensors(path: Path, head: Mapping[str, Any]) -> dict[str, Tensor]:
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
