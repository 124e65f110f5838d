"""Policies and checkpoints: writes an agent to a folder, and reads it back (`policy_files` lists the files)."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cairn.algorithms.registry import AgentConfig, agent_name
from cairn.algorithms.settings import as_trainable, setting, weights_meaning
from cairn.core.agent import Agent
from cairn.core.calls import agent_setting, commanded, option
from cairn.core.errors import CairnError
from cairn.core.serialise import from_json, to_json
from cairn.core.state import pack, unpack
from cairn.core.types import Spec
from cairn.core.untrusted import shown
from cairn.envs.task import Task
from cairn.interop.sb3.importer import normalizer_beside, read
from cairn.nets.cnn import sees_images
from cairn.nets.own import NONE, Own
from cairn.runs.locate import find_policy
from cairn.runs.policy_card import build_described, check_spec, check_task, must_be_numbers, must_have_own
from cairn.runs.policy_files import checkpoints, json_file, read_card, read_tensors, tensor_files, write_folder

KEEP = 2


@dataclass(frozen=True)
class Saved:
    """A policy that was read: the agent, its task, and further facts about it."""

    agent: Agent
    task: Task
    about: dict[str, Any]


def save_policy(folder: Path, agent: Agent, task: Task, about: Mapping[str, Any]) -> None:
    """Write a policy folder atomically, replacing an older one."""
    write_folder(folder, _policy_files(agent, task, about))


def save_checkpoint(
    root: Path, agent: Agent, task: Task, about: Mapping[str, Any], training: Mapping[str, Any]
) -> Path:
    """Write root/0000012000/ with policy and training state; the last two checkpoints are kept."""
    folder = root / f"{training['step']:010d}"
    tensors, note = tensor_files("training", pack(agent.training_parts))
    files = {**_policy_files(agent, task, about), **tensors, "training.json": json_file({**training, **note})}
    write_folder(folder, files)
    for old in checkpoints(root)[:-KEEP]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def _policy_files(agent: Agent, task: Task, about: Mapping[str, Any]) -> dict[str, bytes]:
    tensors, note = tensor_files("policy", pack(agent.policy_parts))
    head = {"agent": to_json(agent.cfg), "spec": to_json(agent.spec), "task": to_json(task)}
    if agent.own is not None and agent.own.names():
        head["own"] = agent.own.names()
    return {**tensors, "policy.json": json_file({**head, "about": dict(about), **note})}


def load_policy(path: Path, *, device: str = "cpu", seed: int = 0, trust: bool = False, own: Own = NONE) -> Saved:
    """Read a saved policy without running anything from the file.

    Args:
        path: A run folder, a checkpoint, a policy folder or a zoo entry.
        device: Where to put the agent.
        seed: Seed of the agent's random numbers.
        trust: Whether the task may import a module by its name, or open a file. Without trust such a task is refused.
        own: The networks of the user's own that it was trained with.

    Raises:
        CairnError: There is no policy, it is damaged, or it is refused.
    """
    saved, folder = _load(path, device=device, seed=seed, own=own)
    check_task(saved.task, folder / "policy.json", trust=trust)
    return saved


def _load(path: Path, *, device: str = "cpu", seed: int = 0, own: Own = NONE) -> tuple[Saved, Path]:
    """A saved policy and its folder. Its task is not checked, so it must not be made."""
    folder = find_policy(path)
    card = folder / "policy.json"
    head = read_card(card)
    tensors = read_tensors(folder / "policy.safetensors", head)
    must_be_numbers(tensors, folder / "policy.safetensors")
    try:
        cfg = from_json(AgentConfig, head.get("agent"))
        spec, task = from_json(Spec, head.get("spec")), from_json(Task, head.get("task"))
        about: dict[str, Any] = from_json(dict[str, Any], head.get("about", {}))
    except CairnError as error:
        raise CairnError(f"{card} cannot be used: {error}") from error
    check_spec(spec, card)
    must_have_own(head.get("own", {}), own, card)
    agent: Agent = build_described(cfg, spec, tensors, card, seed=seed, device=device, own=own)
    _take_up(agent, tensors)
    agent.progress = 1.0  # exploration as at the end of training
    return Saved(agent, task, about), folder


def load_agent(path: Path, *, device: str = "cpu", own: Own = NONE) -> tuple[Agent, str]:
    """The agent of a saved policy, and the id of its task, which is not checked and must not be made."""
    saved, _ = _load(path, device=device, own=own)
    return saved.agent, saved.task.id


def export(path: Path, out: Path, *, half: bool = False) -> None:
    """Copy the policy behind `path` to a folder; `half` stores its weights in half precision."""
    folder = find_policy(path)
    if folder.resolve() == out.resolve():
        raise CairnError(f"{out} is the folder of the policy; name another one with {option('out')}.")
    head = read_card(folder / "policy.json")
    tensors = read_tensors(folder / "policy.safetensors", head)
    if half:
        tensors = {name: x.half() if x.dtype == torch.float32 else x for name, x in tensors.items()}
        if not all(x.isfinite().all() for x in tensors.values() if x.is_floating_point()):
            raise CairnError(f"{folder} has weights too large for half precision; leave {option('half')} off.")
    files, note = tensor_files("policy", tensors)
    write_folder(out, {**files, "policy.json": json_file({**head, **note})})


def about_policy(path: Path) -> dict[str, Any]:
    """The facts that were saved with a policy. Raises CairnError where they were altered."""
    return dict(read_card(find_policy(path) / "policy.json").get("about", {}))


def load_zip(path: Path, *, task: Task | None = None, normalizer: Path | None = None) -> Saved:
    """A policy in a zip of Stable-Baselines3, read as data; without `task`, the file's name gives the task."""
    found = read(path, task=task, normalizer=normalizer, beside=True)
    return Saved(found.agent, found.task, found.about)


def load_start(path: Path, agent: Agent, task: Task | None = None) -> str:
    """Initialise an agent from a saved policy of the same kind, or from a zip of Stable-Baselines3.

    Returns what else was read, for a message. A zip needs the agent's `task`. Raises CairnError where they do not
    match.
    """
    beside = normalizer_beside(path) if path.is_file() else None
    saved: Any = load_zip(path, task=task).agent if path.is_file() else load_agent(path)[0]
    try:
        saved = as_trainable(saved, agent.cfg)
    except CairnError as error:
        raise CairnError(f"{path}: {error}") from None
    if _name(saved) != _name(agent):
        raise CairnError(f"{path} holds a {_name(saved)} policy; {_name(agent)} cannot start from it.")
    if saved.spec != agent.spec:
        raise CairnError(
            f"{path} has other observations or actions: {saved.spec.brief}, and this task has {agent.spec.brief}."
        )
    theirs, mine = (weights_meaning(one.cfg) | _widths(one) for one in (saved, agent))
    other = [name for name in sorted(theirs.keys() | mine.keys()) if theirs.get(name) != mine.get(name)]
    if other:
        same = (", ", " ")[commanded()].join(agent_setting(name, theirs.get(name)) for name in other)
        raise CairnError(f"the policy in {path} was trained with other settings; to start from it, add {same}.")
    try:
        _take_up(agent, pack(saved.policy_parts))
    except CairnError as error:
        raise CairnError(f"{path} cannot be started from: {error}") from error
    return "" if beside is None else f", and the observations are normalised by {beside}"


def _widths(agent: Agent) -> dict[str, Any]:
    """The widths of the dense layers; images pass through other layers first."""
    return {} if sees_images(agent.spec) else {"hidden": setting(agent.cfg, "hidden", None)}


def _take_up(agent: Agent, tensors: Mapping[str, Tensor]) -> None:
    """Load a policy into an agent, and update what the agent derives from it."""
    unpack(agent.policy_parts, tensors)
    agent.settle()


def load_level(path: Path, agent: Agent, level: str) -> None:
    """Initialise a level of a hierarchy from the same level of a saved one, or from a policy with its spaces."""
    if level not in agent.levels:
        raise CairnError(f"{_name(agent)} has no level {level!r}; the levels are {' and '.join(agent.levels)}.")
    saved, mine = load_agent(path)[0], agent.levels[level]
    found = saved.levels.get(level, saved)
    if _name(found) != _name(mine):
        raise CairnError(f"{path} holds a {_name(found)} policy, and agent.{level} is {_name(mine)}.")
    if replace(found.spec, reachable=None) != replace(mine.spec, reachable=None):
        raise CairnError(
            f"{path} has other observations or actions: {found.spec.brief}, and agent.{level} has {mine.spec.brief}."
        )
    for name in ("relative_goals", "normalise", "clip_obs"):
        if weights_meaning(found.cfg)[name] != weights_meaning(mine.cfg)[name]:
            raise CairnError(f"{path} was trained with other relative_goals, normalise or clip_obs than agent.{level}.")
    unpack(mine.policy_parts, pack(found.policy_parts))


def _name(agent: Agent) -> str:
    return agent_name(agent.cfg)


def load_checkpoint(folder: Path, agent: Agent) -> dict[str, Any]:
    """Load a checkpoint into the agent and return its counters. Raises CairnError where it is damaged."""
    policy, training = read_card(folder / "policy.json"), read_card(folder / "training.json")
    tensors = read_tensors(folder / "policy.safetensors", policy)
    more = read_tensors(folder / "training.safetensors", training)
    try:
        unpack(agent.policy_parts, tensors)
        unpack(agent.training_parts, more)
    except (RuntimeError, TypeError, ValueError) as error:  # a generator raises for foreign states
        raise CairnError(f"{folder} does not fit this agent ({shown(str(error))}).") from error
    return training
