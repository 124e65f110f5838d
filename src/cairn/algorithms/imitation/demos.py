"""Demonstrations: episodes of an expert, recorded, written to a file and read back.

A file is a NumPy archive (.npz) without pickles, in which the episodes follow one another:
    obs [steps + episodes, ...]      all observations, including each episode's last
    action [steps, ...]              in the environment's own units, as in Minari
    reward [steps], length [episodes], terminated [episodes]; task, the environment's id
A folder is read as a Minari data set (data/main_data.hdf5), which needs the package h5py.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cairn.algorithms.imitation.expert import Expert
from cairn.core.checks import fit
from cairn.core.composite_actions import discrete_or_box
from cairn.core.errors import CairnError, EnvError
from cairn.core.types import Array, Discrete, Spec
from cairn.core.untrusted import NotThere, opened, shown
from cairn.core.untrusted_zip import ZIP, ZIP_FREE, ZIP_RATIO, read_npz
from cairn.envs.task import LONGEST, say_cut
from cairn.vector.protocol import Vector
from cairn.vector.spaces import GOAL_KEYS

FIELDS = ("obs", "action", "reward", "length", "terminated", "task")
Raw = tuple[str, list[tuple[Array, Array, Array, bool]]]  # task; obs, action, reward, terminated per episode


@dataclass(frozen=True)
class Demonstration:
    """One episode: obs [T + 1, ...], action [T] or [T, dim] in Cairn's units, reward [T]; terminated or cut."""

    obs: Array
    action: Array
    reward: Array
    terminated: bool


@dataclass(frozen=True)
class Demos:
    """Episodes of one task."""

    task: str
    episodes: tuple[Demonstration, ...]

    @property
    def steps(self) -> int:
        """Steps of all episodes."""
        return sum(len(e.reward) for e in self.episodes)

    @property
    def returns(self) -> list[float]:
        """The return of each episode."""
        return [float(e.reward.sum()) for e in self.episodes]


def record(
    expert: Expert,
    envs: Vector,
    seeds: Sequence[int],
    task: str,
    stop: Callable[[], bool] = bool,
    *,
    longest: int = LONGEST,
) -> Demos | None:
    """Record one episode of the expert for each seed.

    Args:
        expert: Chooses the actions.
        envs: The environments, which are reset with the seeds in turn.
        seeds: One seed per episode.
        task: The environment's id, for the file.
        stop: Called at every step; True ends the recording.
        longest: Steps after which an episode is cut.

    Returns:
        The episodes in the order of the seeds; None if `stop` returned True.
    """
    episodes: list[Demonstration] = []
    for start in range(0, len(seeds), envs.num_envs):
        chunk = list(seeds[start : start + envs.num_envs])
        obs = envs.reset(chunk + chunk[:1] * (envs.num_envs - len(chunk)))
        expert.forget(np.ones(envs.num_envs, bool))
        rows: list[list[tuple[Array, Array, float]]] = [[] for _ in chunk]
        done: dict[int, Demonstration] = {}
        while len(done) < len(chunk):
            if stop():
                return None
            action = expert(obs)
            step = envs.step(action)
            expert.forget(step.terminated | step.truncated | ~step.valid)
            for i in (i for i in range(len(chunk)) if i not in done):
                if not step.valid[i]:
                    raise EnvError(i, "was restarted while demonstrations were recorded")
                rows[i].append((obs[i], action[i], float(step.reward[i])))
                ended = bool(step.terminated[i] or step.truncated[i])
                if ended or len(rows[i]) >= longest:
                    if not ended:
                        say_cut(longest)
                    seen, taken, paid = zip(*rows[i], strict=True)
                    shown = np.stack([*seen, step.next_obs[i]])
                    done[i] = Demonstration(
                        shown, np.stack(taken), np.array(paid, np.float32), bool(step.terminated[i])
                    )
            obs = step.obs
        episodes += [done[i] for i in range(len(chunk))]
    return Demos(task, tuple(episodes))


def write(path: Path, demos: Demos, spec: Spec) -> None:
    """Write a file atomically; `spec` converts actions to the environment's units."""
    action = np.concatenate([e.action for e in demos.episodes])
    fields: dict[str, Any] = {
        "obs": np.concatenate([e.obs for e in demos.episodes]),
        "action": spec.action.to_env(action),
        "reward": np.concatenate([e.reward for e in demos.episodes]),
        "length": np.array([len(e.reward) for e in demos.episodes], np.int64),
        "terminated": np.array([e.terminated for e in demos.episodes], bool),
        "task": np.array(demos.task),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    with open(temporary, "wb") as file:
        np.savez_compressed(file, **fields)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def read(path: Path, spec: Spec) -> Demos:
    """Read demonstrations for a spec. Raises CairnError where they are missing, damaged or of other spaces."""
    path = Path(fit("path", path, str))
    if path.is_dir():
        return _checked(path, _read_minari(path, spec), spec)
    try:
        data = read_npz(path, (), optional=FIELDS)
    except NotThere:
        raise CairnError(
            f"there are no demonstrations at {path}; `cairn demos POLICY --out {path}` records some."
        ) from None
    except CairnError as error:
        raise CairnError(
            f"{path} cannot be read: it is empty, cut short or not a NumPy archive of demonstrations ({error})"
        ) from error
    lacking = next((name for name in FIELDS if name not in data), None)
    if lacking is not None:
        raise CairnError(f"{path} holds no demonstrations: it lacks {lacking}.")
    return _checked(path, _episodes(path, data), spec)


def _episodes(path: Path, data: Mapping[str, Array]) -> Raw:
    """The episodes of a file."""
    obs, action, reward, length, ends = (data[name] for name in FIELDS[:-1])
    if any(x.dtype.kind not in "biuf" for x in (obs, action, reward, length, ends)):
        raise CairnError(f"{path} is corrupt: it holds text where numbers are expected.")
    whole = min(x.ndim for x in (obs, action, reward, length, ends)) > 0 and length.dtype == np.int64
    if not whole or not len(obs) - len(length) == len(action) == len(reward) == length.sum():
        raise CairnError(f"{path} is corrupt: its arrays do not have the lengths of its episodes.")
    if ends.shape != length.shape or (length < 1).any() or (length > len(reward)).any():
        raise CairnError(f"{path} is corrupt: it holds an episode without a step, or without an end.")
    out, at = [], 0
    for k, count in enumerate(length):
        steps, seen = slice(at, at + count), slice(at + k, at + k + count + 1)
        out.append((obs[seen], action[steps], reward[steps], bool(ends[k])))
        at += count
    try:
        return shown(str(data["task"])), out
    except ValueError as error:  # text that cannot be decoded
        raise CairnError(f"{path} is corrupt: the name of its task cannot be read.") from error


def _checked(path: Path, raw: Raw, spec: Spec) -> Demos:
    """Episodes in Cairn's units, after checking that they fit the spec and are finite."""
    task, found = raw
    if not found:
        raise CairnError(f"{path} holds no episode.")
    episodes = []
    for obs, action, reward, terminated in found:
        if obs.shape[1:] != spec.obs_shape:
            raise CairnError(f"{path} has observations of shape {obs.shape[1:]}, and the task {spec.obs_shape}.")
        taken = discrete_or_box(spec.action, "a demonstration")
        discrete = isinstance(taken, Discrete)
        shape = () if isinstance(taken, Discrete) else taken.shape
        if action.shape[1:] != shape or discrete != np.issubdtype(action.dtype, np.integer):
            raise CairnError(f"{path} holds actions of another type than the task's action space.")
        ours = taken.from_env(action).astype(spec.action_dtype)
        if isinstance(taken, Discrete) and not ((ours >= 0) & (ours < taken.n)).all():
            raise CairnError(f"{path} holds actions outside the task's action space.")
        if not all(np.isfinite(x).all() for x in (obs, ours, reward)):
            raise CairnError(f"{path} holds NaN or infinite numbers.")
        episodes.append(Demonstration(obs.astype(spec.obs_dtype), ours, reward.astype(np.float32), terminated))
    return Demos(task, tuple(episodes))


def _read_minari(path: Path, spec: Spec) -> Raw:
    """The episodes of a Minari data set, which has one group per episode."""
    file = next((p for p in (path / "data" / "main_data.hdf5", path / "main_data.hdf5") if p.is_file()), None)
    if file is None:
        raise CairnError(f"{path} is not a Minari dataset: it contains no main_data.hdf5.")
    try:
        h5py: Any = importlib.import_module("h5py")
    except ModuleNotFoundError:
        raise CairnError(f"{path} is an HDF5 data set; to read it, pip install h5py.") from None
    try:
        with opened(file, ZIP) as held, h5py.File(file, "r") as data:
            size = os.fstat(held.fileno()).st_size
            room = _Room(file, min(ZIP, max(ZIP_FREE, ZIP_RATIO * size)))
            names = sorted((name for name in data if name.startswith("episode_")), key=lambda n: int(n[8:]))
            episodes = [_minari_episode(room.member(data, name), spec, room) for name in names]
            return shown(str(data.attrs.get("env_spec", ""))), episodes
    except CairnError:
        raise
    except Exception as error:  # h5py raises many types of errors for damaged files
        raise CairnError(f"{file} cannot be read: it is cut short or does not have the layout of Minari.") from error


class _Room:
    """Limits what is read of an HDF5 file: only data in the file itself, and a number of bytes in proportion to it."""

    def __init__(self, file: Path, left: int) -> None:
        self.file, self.left = file, left

    def member(self, group: Any, name: str) -> Any:
        """A group or an array that is stored in the file itself."""
        if type(group.get(name, getlink=True)).__name__ != "HardLink":
            raise CairnError(f"{self.file} is refused: {shown(name)} in it is a link to elsewhere.")
        return group[name]

    def array(self, group: Any, name: str) -> Array:
        """The numbers of a member."""
        found = self.member(group, name)
        if getattr(found, "external", None) or getattr(found, "is_virtual", False):
            raise CairnError(f"{self.file} is refused: {shown(name)} in it lies in another file.")
        if found.dtype.kind not in "biuf":
            raise CairnError(f"{self.file} is refused: {shown(name)} in it holds no numbers.")
        self.left -= int(found.nbytes)
        if self.left < 0:
            raise CairnError(f"{self.file} is refused: it would unpack to far more than its size.")
        return np.asarray(found)


def _minari_episode(group: Any, spec: Spec, room: _Room) -> tuple[Array, Array, Array, bool]:
    seen = room.member(group, "observations")
    if isinstance(seen, Mapping):
        keys = GOAL_KEYS if spec.goal is not None else tuple(seen)
        columns = [room.array(seen, key) for key in keys]
        obs = np.concatenate([c.reshape(len(c), -1) for c in columns], 1)
    else:
        obs = room.array(group, "observations")
    action, reward, ends = (room.array(group, name) for name in ("actions", "rewards", "terminations"))
    if not len(obs) == len(action) + 1 == len(reward) + 1 > 1:
        raise ValueError("the arrays of an episode differ in length")
    return obs, action, reward, bool(ends[-1])
