"""Imports policies of Stable-Baselines3 (ppo, a2c, sac, td3, ddpg and dqn) as Cairn agents; see `archive`."""

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
from cairn.core.types import ActionSpec, Array, Box, Spec
from cairn.core.untrusted import MIB, read_bytes
from cairn.core.untrusted_zip import ZIP
from cairn.envs.task import Task
from cairn.interop.sb3 import safe_unpickle as inert
from cairn.interop.sb3.archive import FEATURES, Archive, laid_out_by_sb3
from cairn.interop.sb3.networks import read_networks
from cairn.nets.cnn import sees_images
from cairn.vector.checks import close_env
from cairn.vector.spaces import GOAL_KEYS, spec_of_env

STATISTICS = 64 * MIB  # bytes of a VecNormalize file
ADMITTED = "|".join(
    [
        inert.NUMPY,
        inert.SPACES,
        r"stable_baselines3\.common\.vec_env\.vec_normalize\.VecNormalize",
        r"stable_baselines3\.common\.running_mean_std\.RunningMeanStd",
    ]
)


# Training settings that a zip has as plain numbers, and their names in Cairn.
SETTINGS = {
    "learning_rate": "lr",
    "n_steps": "horizon",
    "batch_size": "batch_size",
    "n_epochs": "epochs",
    "gae_lambda": "lam",
    "clip_range_vf": "value_clip",
    "ent_coef": "entropy_weight",
    "vf_coef": "value_weight",
    "max_grad_norm": "max_norm",
    "target_kl": "target_kl",
    "buffer_size": "capacity",
    "learning_starts": "learning_starts",
    "tau": "tau",
    "exploration_final_eps": "epsilon",
    "policy_delay": "policy_delay",
    "target_policy_noise": "target_noise",
    "target_noise_clip": "noise_clip",
}
BESIDE = ("{}.vecnormalize.pkl", "{}_vecnormalize.pkl", "vecnormalize.pkl")  # usual names of a VecNormalize file


@dataclass(frozen=True)
class Read:
    """A policy that was read: the agent, its task, where it comes from and how it was trained."""

    agent: Imported
    task: Task
    about: dict[str, Any]


def read(
    path: Path,
    *,
    env: str | None = None,
    env_args: dict[str, Any] | None = None,
    normalizer: Path | None = None,
    task: Task | None = None,
    beside: bool = False,
) -> Read:
    """The policy in a zip as an agent.

    Args:
        path: The zip.
        env: Id of its task; None: from the file's name.
        env_args: Keyword arguments of the environment.
        normalizer: The VecNormalize file, for a policy that was trained on normalised observations.
        task: The task itself, instead of `env` and `env_args`.
        beside: Without a `normalizer`, take the VecNormalize file next to the zip, if there is one.

    Raises:
        CairnError: The file is damaged, not supported, or does not fit the task.
    """
    archive = Archive(path)
    networks = read_networks(archive)
    named = env is not None or task is not None
    task = Task(env or _told_task(path), args=env_args or {}) if task is None else task
    spec, columns = _fit(archive, task, named=named, squash=networks.squash)
    columns = columns if archive.image is None else torch.arange(FEATURES)  # of images its layers see features
    tensors, scale, count = networks.tensors(columns, spec.action), 1.0, 0.0
    if beside and normalizer is None and archive.image is None:
        normalizer = normalizer_beside(path)
    if normalizer is not None and archive.image is not None:
        raise CairnError(f"{path} sees images, which are not normalised; leave out {option('normalizer')}.")
    if normalizer is not None:
        statistics, scale, count = read_statistics(normalizer, archive.parts)
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
        images=archive.image is not None,
        **({"observations": count} if count > 0 else {}),
        **({"alpha": _alpha(archive)} if archive.algorithm == "sac" else {}),
    )
    agent = Imported(cfg, spec)
    unpack(agent.policy_parts, tensors)
    return Read(agent, task, {**_about(archive, normalizer), "settings": _settings(archive)})


def _settings(archive: Archive) -> dict[str, float]:
    """The training settings in a zip, under the names of Cairn's configs."""
    found: dict[str, Any] = {mine: archive.plain(theirs) for theirs, mine in SETTINGS.items()}
    if archive.algorithm == "sac":
        found |= {"entropy_weight": None, "learn_alpha": archive.plain("ent_coef") is None}
    return {name: value for name, value in found.items() if value is not None}


def normalizer_beside(path: Path) -> Path | None:
    """The VecNormalize file next to a zip, under one of its usual names; None if there is none."""
    return next((file for name in BESIDE if (file := path.with_name(name.format(path.stem))).is_file()), None)


def _alpha(archive: Archive) -> float:
    """SAC's entropy coefficient, learned or fixed."""
    fixed = archive.plain("ent_coef")
    alpha = float(np.exp(np.clip(archive.variable("log_ent_coef", 0.0), -50, 50))) if fixed is None else fixed
    return alpha if alpha > 0 else 1e-6


def _told_task(path: Path) -> str:
    """The task in a file's name: CartPole-v1 for ppo-CartPole-v1.zip and CartPole-v1.zip."""
    told = re.fullmatch(rf"(?:(?:{'|'.join(get_args(Algorithm))})-)?(.+-v\d+)", path.stem)
    if told is None:
        raise CairnError(f"the name of {path} does not contain its task; name it with {option('env')}.")
    return told[1]


def _fit(archive: Archive, task: Task, *, named: bool, squash: bool) -> tuple[Spec, Tensor]:
    """The task's spec, and the networks' column for each number of it. Raises CairnError if they differ."""
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
    if archive.image is not None and archive.image != channels_first(spec):
        raise CairnError(
            f"{archive.path} observes images {archive.image}, channels first, and {task.id} has observations"
            f" {spec.obs_shape}; name the task it was trained on with {option('env')}."
        )
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


def channels_first(spec: Spec) -> tuple[int, ...]:
    """The shape of images with channels first; () if observations are not images."""
    shape = spec.obs_shape
    if not sees_images(spec):
        return ()
    return (shape[-1], *shape[:-1]) if shape[-1] < shape[0] else shape


def _same(mine: ActionSpec, task: ActionSpec) -> bool:
    if not (isinstance(mine, Box) and isinstance(task, Box)):
        return (mine.choices, mine.outputs) == (task.choices, task.outputs)
    return mine.shape == task.shape and np.allclose(mine.low, task.low) and np.allclose(mine.high, task.high)


def _seen(parts: dict[str, int]) -> str:
    return ", ".join(f"{key} {width}".strip() for key, width in parts.items()) + " numbers"


def read_statistics(path: Path, parts: dict[str, int]) -> tuple[dict[str, Array], float, float]:
    """The statistics of a VecNormalize, its reward scale, and the number of observations that it saw.

    The statistics are mean, scale and clip for each number of an observation of `parts`; {} if it normalised only
    rewards.
    Raises CairnError where the file is damaged or does not fit.
    """
    found = inert.load(read_bytes(path, STATISTICS), ADMITTED, str(path))
    if not inert.name_of(found).endswith(".VecNormalize"):
        raise CairnError(f"{path} holds no statistics of a VecNormalize.")
    with laid_out_by_sb3(path), np.errstate(invalid="ignore"):
        state = found.state
        clip, epsilon = (float(inert.array(state[name])) for name in ("clip_obs", "epsilon"))
        scale = float(np.sqrt(inert.array(state["ret_rms"].state["var"]) + epsilon)) if state["norm_reward"] else 1.0
        if not state["norm_obs"]:
            return {}, scale, 0.0
        found = state["obs_rms"] if isinstance(state["obs_rms"], dict) else {"": state["obs_rms"]}
        moments = {
            key: [inert.array(rms.state[name]).ravel() for name in ("mean", "var")] for key, rms in found.items()
        }
        count = min((float(inert.array(rms.state["count"])) for rms in found.values()), default=0.0)
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
            else:  # a part that is not normalised
                rows.append((np.zeros(width), np.ones(width), np.full(width, np.inf)))
        columns = [np.concatenate(column).astype(np.float64) for column in zip(*rows, strict=True)]
    if not (np.isfinite(columns[0]).all() and (columns[1] > 0).all() and scale > 0 and 0 <= count < np.inf):
        raise CairnError(f"{path} holds statistics that are NaN or infinite.")
    return dict(zip(("mean", "scale", "clip"), columns, strict=True)), scale, count


def _about(archive: Archive, normalizer: Path | None) -> dict[str, Any]:
    """Where a policy comes from. ppo and a2c leave traces of a VecNormalize, other algorithms do not."""
    about: dict[str, Any] = {
        "imported": archive.path.name,
        "sha256": hashlib.sha256(read_bytes(archive.path, ZIP)).hexdigest(),
        "normalizer": None if normalizer is None else normalizer.name,
        "envs": max(int(archive.plain("n_envs") or 1), 1),
    }
    if archive.algorithm in ("ppo", "a2c") and archive.data.get("_last_original_obs") and normalizer is None:
        about["note"] = f"it was trained with VecNormalize; name its file (.pkl) with {option('normalizer')}."
    return about
