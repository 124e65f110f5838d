"""Policies of Stable-Baselines3 (ppo, a2c, sac, td3, ddpg and dqn, with MLPs) as agents of Cairn's; see `archive`."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from cairn.algorithms.imported import Algorithm, Imported, ImportedConfig
from cairn.core.calls import option
from cairn.core.errors import CairnError
from cairn.core.state import unpack
from cairn.core.types import ActionSpec, Array, Box, Discrete, Spec
from cairn.core.untrusted import MIB, read_bytes
from cairn.core.untrusted_zip import ZIP
from cairn.envs.task import Task
from cairn.interop.sb3 import safe_unpickle as inert
from cairn.interop.sb3.archive import Archive, laid_out_by_sb3
from cairn.interop.sb3.networks import read_networks
from cairn.vector.checks import close_env
from cairn.vector.protocol import GOAL_KEYS, spec_of_env

STATISTICS = 64 * MIB  # bytes of a VecNormalize's file
ADMITTED = "|".join(
    [
        inert.NUMPY,
        inert.SPACES,
        r"stable_baselines3\.common\.vec_env\.vec_normalize\.VecNormalize",
        r"stable_baselines3\.common\.running_mean_std\.RunningMeanStd",
    ]
)


@dataclass(frozen=True)
class Read:
    """A policy that was read: the agent, the task it plays and where it comes from."""

    agent: Imported
    task: Task
    about: dict[str, Any]


def read(
    path: Path, *, env: str | None = None, env_args: dict[str, Any] | None = None, normalizer: Path | None = None
) -> Read:
    """The policy in a zip as an agent that plays `env`, or else the task that the file's name tells.

    `normalizer` is the file of a VecNormalize, for a policy that was trained on normalised observations.
    """
    archive = Archive(path)
    networks = read_networks(archive)
    task = Task(env or _told_task(path), args=env_args or {})
    spec, columns = _fit(archive, task, named=env is not None, squash=networks.squash)
    tensors, scale = networks.tensors(columns, spec.action), 1.0
    if normalizer is not None:
        statistics, scale = read_statistics(normalizer, archive.parts)
        tensors |= {f"statistics.{name}": torch.from_numpy(value)[columns] for name, value in statistics.items()}
    cfg = ImportedConfig(
        algorithm=archive.algorithm,
        hidden=networks.hidden,
        activation=networks.activation,
        noise=networks.noise,
        squash=networks.squash,
        clip_mean=networks.clip_mean,
        epsilon=archive.number("exploration_rate", 0.0),
        critic_hidden=networks.critic_hidden,
        critics=len(networks.critics),
        gamma=archive.number("gamma", 0.99),
        reward_scale=scale,
        normalise="statistics.mean" in tensors,
    )
    agent = Imported(cfg, spec)
    unpack(agent.policy_parts, tensors)
    return Read(agent, task, _about(archive, normalizer))


def _told_task(path: Path) -> str:
    """ppo-CartPole-v1.zip and CartPole-v1.zip tell CartPole-v1."""
    told = re.fullmatch(rf"(?:(?:{'|'.join(get_args(Algorithm))})-)?(.+-v\d+)", path.stem)
    if told is None:
        raise CairnError(f"the name of {path} does not contain its task; name it with {option('env')}.")
    return told[1]


def _fit(archive: Archive, task: Task, *, named: bool, squash: bool) -> tuple[Spec, Tensor]:
    """The task's spec, and for each number it shows the place where the networks want it; CairnError if they differ."""
    try:
        probe = task()
    except CairnError as error:
        if named:
            raise
        raise CairnError(f"{error} The task is taken from the file name; name another with {option('env')}.") from error
    space, (spec, _) = probe.observation_space, spec_of_env(probe)
    close_env(probe)
    shown = {"": spaces.flatdim(space)}
    if isinstance(space, spaces.Dict):
        keys = space.spaces if spec.goal is None else GOAL_KEYS
        shown = {key: spaces.flatdim(space[key]) for key in keys}
    if archive.parts != shown:
        raise CairnError(
            f"{archive.path} observes {_seen(archive.parts)} and {task.id} has {_seen(shown)};"
            f" name the task it was trained on with {option('env')}."
        )
    if not _same(archive.action, spec.action):
        raise CairnError(
            f"{archive.path} has {archive.action.described} and {task.id} has {spec.action.described};"
            f" name the task it was trained on with {option('env')}."
        )
    if isinstance(spec.action, Box) and not spec.action.bounded:
        if squash or np.isfinite([spec.action.low, spec.action.high]).any():
            raise CairnError(f"{archive.path} has an action space with infinite bounds; it cannot be imported.")
    ends = np.cumsum(list(archive.parts.values()))
    places = {key: np.arange(end - width, end) for (key, width), end in zip(archive.parts.items(), ends, strict=True)}
    return spec, torch.from_numpy(np.concatenate([places[key] for key in shown]))


def _same(mine: ActionSpec, task: ActionSpec) -> bool:
    if isinstance(mine, Discrete) or isinstance(task, Discrete):
        return isinstance(mine, Discrete) and isinstance(task, Discrete) and mine.n == task.n
    return mine.shape == task.shape and np.allclose(mine.low, task.low) and np.allclose(mine.high, task.high)


def _seen(parts: dict[str, int]) -> str:
    return ", ".join(f"{key} {width}".strip() for key, width in parts.items()) + " numbers"


def read_statistics(path: Path, parts: dict[str, int]) -> tuple[dict[str, Array], float]:
    """The mean, scale and clip of a VecNormalize for each number of an observation of `parts`, and its reward's scale.

    There are none where it normalised rewards only.
    """
    found = inert.load(read_bytes(path, STATISTICS), ADMITTED, str(path))
    if not inert.name_of(found).endswith(".VecNormalize"):
        raise CairnError(f"{path} holds no statistics of a VecNormalize.")
    with laid_out_by_sb3(path), np.errstate(invalid="ignore"):
        state = found.state
        clip, epsilon = (float(inert.array(state[name])) for name in ("clip_obs", "epsilon"))
        scale = float(np.sqrt(inert.array(state["ret_rms"].state["var"]) + epsilon)) if state["norm_reward"] else 1.0
        if not state["norm_obs"]:
            return {}, scale
        found = state["obs_rms"] if isinstance(state["obs_rms"], dict) else {"": state["obs_rms"]}
        moments = {
            key: [inert.array(rms.state[name]).ravel() for name in ("mean", "var")] for key, rms in found.items()
        }
        widths = {key: len(mean) for key, (mean, _) in moments.items()}
        if not widths.items() <= parts.items():
            raise CairnError(
                f"{path} is for {_seen(widths)} and the policy observes {_seen(parts)}; it belongs to another policy."
            )
        rows = []
        for key, width in parts.items():
            if key in moments:
                mean, var = moments[key]
                rows.append((mean, np.sqrt(var + epsilon), np.full(width, clip)))
            else:  # a part that it leaves alone
                rows.append((np.zeros(width), np.ones(width), np.full(width, np.inf)))
        columns = [np.concatenate(column).astype(np.float64) for column in zip(*rows, strict=True)]
    if not (np.isfinite(columns[0]).all() and (columns[1] > 0).all() and scale > 0):
        raise CairnError(f"{path} holds statistics that are NaN or infinite.")
    return dict(zip(("mean", "scale", "clip"), columns, strict=True)), scale


def _about(archive: Archive, normalizer: Path | None) -> dict[str, Any]:
    """Where a policy comes from. Training of ppo and a2c leaves a trace of a VecNormalize, that of the others none."""
    about: dict[str, Any] = {
        "imported": archive.path.name,
        "sha256": hashlib.sha256(read_bytes(archive.path, ZIP)).hexdigest(),
        "normalizer": None if normalizer is None else normalizer.name,
    }
    if archive.algorithm in ("ppo", "a2c") and archive.data.get("_last_original_obs") and normalizer is None:
        about["note"] = f"it was trained behind a VecNormalize; give that one's file with {option('normalizer')}."
    return about
