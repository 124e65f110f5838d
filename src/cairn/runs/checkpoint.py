"""Policies and checkpoints: an agent written to the files of a folder and read back (`policy_files` lists them)."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cairn.algorithms.registry import AgentConfig, agent_name, weights_meaning
from cairn.core.agent import Agent
from cairn.core.calls import option
from cairn.core.errors import CairnError
from cairn.core.serialise import from_json, to_json
from cairn.core.state import pack, unpack
from cairn.core.types import Spec
from cairn.core.untrusted import shown
from cairn.envs.task import Task
from cairn.runs.locate import find_policy
from cairn.runs.policy_card import build_described, check_spec, check_task, must_be_numbers
from cairn.runs.policy_files import checkpoints, json_file, read_card, read_tensors, tensor_files, write_folder

KEEP = 2


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
    tensors, note = tensor_files("training", pack(agent.training_parts))
    files = {**_policy_files(agent, task, about), **tensors, "training.json": json_file({**training, **note})}
    write_folder(folder, files)
    for old in checkpoints(root)[:-KEEP]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def _policy_files(agent: Agent, task: Task, about: Mapping[str, Any]) -> dict[str, bytes]:
    tensors, note = tensor_files("policy", pack(agent.policy_parts))
    head = {"agent": to_json(agent.cfg), "spec": to_json(agent.spec), "task": to_json(task)}
    return {**tensors, "policy.json": json_file({**head, "about": dict(about), **note})}


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
    """What was noted about a saved policy, without loading it; CairnError where the note was altered."""
    return dict(read_card(find_policy(path) / "policy.json").get("about", {}))


def load_start(path: Path, agent: Agent) -> None:
    """Fill an agent that is about to train from a saved policy of its kind."""
    saved: Any = load_agent(path)[0]
    if _name(saved) != _name(agent):
        raise CairnError(f"{path} holds a {_name(saved)} policy; {_name(agent)} cannot start from it.")
    if saved.spec != agent.spec:
        raise CairnError(
            f"{path} has other observations or actions: {saved.spec.brief}, and this task has {agent.spec.brief}."
        )
    theirs, mine = weights_meaning(saved.cfg), weights_meaning(agent.cfg)
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
    agent.settle()


def load_level(path: Path, agent: Agent, level: str) -> None:
    """Fill one level of a hierarchy: from the same level of a saved one, or from a policy that saw the same."""
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
    if (found.cfg.relative_goals, found.cfg.normalise) != (mine.cfg.relative_goals, mine.cfg.normalise):
        raise CairnError(f"{path} was trained with other relative_goals or normalise than agent.{level}.")
    unpack(mine.policy_parts, pack(found.policy_parts))


def _name(agent: Agent) -> str:
    return agent_name(agent.cfg)


def load_checkpoint(folder: Path, agent: Agent) -> dict[str, Any]:
    """Fill the agent from a checkpoint and return its counters; CairnError where it is broken."""
    policy, training = read_card(folder / "policy.json"), read_card(folder / "training.json")
    tensors = read_tensors(folder / "policy.safetensors", policy)
    more = read_tensors(folder / "training.safetensors", training)
    try:
        unpack(agent.policy_parts, tensors)
        unpack(agent.training_parts, more)
    except (RuntimeError, TypeError, ValueError) as error:  # a generator takes no state but one of its own
        raise CairnError(f"{folder} does not fit this agent ({shown(str(error))}).") from error
    return training
