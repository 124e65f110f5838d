"""Uniform replay: a ring of time steps, each holding one transition of every environment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Generator

from cairn.core.errors import CairnError
from cairn.core.returns import n_step
from cairn.core.types import Array, Spec, Step, Transition
from cairn.replay.storage import Storage


@dataclass(frozen=True)
class Walk:
    """n stored steps from each of B starts, copied out of the ring.

    obs, action [B, ...] of the first step; next_obs [n, B, ...], reward, terminated [n, B] of all;
    stops [n, B] where the episode ended or nothing newer is stored; None where n is 1
    """

    obs: Array
    action: Array
    next_obs: Array
    reward: Array
    terminated: Array
    stops: Array | None


class Ring:
    """The last `capacity` transitions of N environments, in rows of N.

    Mapped onto files (`folder`), the ring IS the checkpoint's replay: it owns `slack` rows more than it samples from,
    so what was written after a checkpoint never overwrites what that checkpoint needs. A checkpoint stores `rows`.
    """

    def __init__(
        self,
        capacity: int,
        num_envs: int,
        spec: Spec,
        *,
        generator: Generator,
        gamma: float,
        n: int = 1,
        slack: int = 0,
        folder: Path | None = None,
    ) -> None:
        self.live = max(capacity // num_envs, 1)  # rows to sample from
        self.size = self.live + slack  # rows stored
        self.num_envs, self.gamma, self.n = num_envs, gamma, n
        self.generator = generator
        self.rows = 0  # written since the beginning
        lead = (self.size, num_envs)
        self.storage = Storage(
            {
                "obs": ((*lead, *spec.obs_shape), spec.obs_dtype),
                "next_obs": ((*lead, *spec.obs_shape), spec.obs_dtype),
                "action": ((*lead, *spec.action_shape), spec.action_dtype),
                "reward": (lead, "float32"),
                "terminated": (lead, "bool"),
                "truncated": (lead, "bool"),
                "valid": (lead, "bool"),
            },
            folder,
        )
        self.arrays = self.storage.arrays
        self.has_fillers = False
        # the same memory as [size · N, ...], indexed by cell
        self.total = self.size * num_envs
        self.cells = {k: v.reshape(self.total, *v.shape[2:]) for k, v in self.arrays.items()}

    def __len__(self) -> int:
        return min(self.rows, self.live) * self.num_envs

    def add(self, obs: Array, action: Array, step: Step) -> None:
        """Store one step of every environment."""
        at = self.rows % self.size
        row = {
            "obs": obs,
            "next_obs": step.next_obs,
            "action": action,
            "reward": step.reward,
            "terminated": step.terminated,
            "truncated": step.truncated,
            "valid": step.valid,
        }
        for name, value in row.items():
            self.arrays[name][at] = value
        if not step.valid.all():
            self.has_fillers = True
            if self.rows > 0:  # whatever was open before a lost step was cut there
                self.arrays["truncated"][at - 1] |= ~step.valid
        self.rows += 1

    def cut(self) -> None:
        """The environments are about to be reset: what is open ends here, bootstrapping from its successor."""
        if self.rows > 0:
            self.arrays["truncated"][(self.rows - 1) % self.size] |= True

    @property
    def first(self) -> int:
        """The oldest row to sample from, counted from the beginning of the run."""
        return max(self.rows - self.live, 0)

    def draw(self, batch: int) -> Array:
        """Uniform cells of `batch` stored transitions: row · N + env, rows counted from the beginning of the run."""
        low, high = self.first * self.num_envs, self.rows * self.num_envs
        cell: Array = torch.randint(low, high, (batch,), generator=self.generator).numpy()
        if self.has_fillers:
            bad = ~self.cells["valid"].take(cell % self.total)
            if bad.any():
                cell[bad] = self.draw(int(bad.sum()))
        return cell

    def sample(self, batch: int) -> Transition:
        """n-step transitions; a walk that meets the newest row stops there and bootstraps earlier."""
        return self.gather(self.draw(batch))

    def gather(self, cell: Array) -> Transition:
        """The transitions that start at these cells."""
        return self.transition(self.walk(cell))

    def walk(self, cell: Array) -> Walk:
        """The n steps from each cell on, in the same environment."""
        cells = self.cells
        start = cell % self.total
        at, stops = start[None], None
        if self.n > 1:
            rows = cell + self.num_envs * np.arange(self.n)[:, None]
            at = rows % self.total
            newest = rows >= (self.rows - 1) * self.num_envs
            stops = cells["terminated"].take(at) | cells["truncated"].take(at) | newest
        return Walk(
            obs=cells["obs"].take(start, 0),
            action=cells["action"].take(start, 0),
            next_obs=cells["next_obs"].take(at, 0),
            reward=cells["reward"].take(at),
            terminated=cells["terminated"].take(at),
            stops=stops,
        )

    def transition(self, walk: Walk) -> Transition:
        """Walks summed up as n-step transitions."""
        tensor = torch.from_numpy
        if walk.stops is None:
            reward, next_obs = tensor(walk.reward[0]), tensor(walk.next_obs[0])
            discount = tensor(np.multiply(~walk.terminated[0], self.gamma, dtype=np.float32))
        else:
            terminated, stops = tensor(walk.terminated), tensor(walk.terminated | walk.stops)
            reward, discount, last = n_step(tensor(walk.reward), stops, terminated, gamma=self.gamma)
            next_obs = tensor(walk.next_obs[last.numpy(), np.arange(len(last))])
        return Transition(tensor(walk.obs), tensor(walk.action), reward, next_obs, discount)

    def save(self) -> dict[str, int]:
        """What a checkpoint must remember of us, once the mapped files are on disk."""
        self.storage.sync()
        return {"rows": self.rows, "size": self.size, "has_fillers": int(self.has_fillers)}

    def load(self, saved: dict[str, int]) -> None:
        if saved["size"] != self.size:
            raise CairnError(f"the replay files hold {saved['size']} rows where this run needs {self.size}.")
        if not self.storage.found:
            raise CairnError("the replay files of this run are missing or cut short.")
        self.rows = saved["rows"]
        self.has_fillers = bool(saved["has_fillers"])
