"""Uniform replay: a ring of time steps, each holding one transition of every environment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Generator, Tensor

from cairn.core.errors import CairnError
from cairn.core.returns import n_step
from cairn.core.types import Array, Spec, Step, Transition
from cairn.replay.storage import Storage


@dataclass(frozen=True)
class Walk:
    """n stored cells from each of B starts, [n, B]; `newest` marks those of the newest row. None where n is 1."""

    cells: Tensor
    newest: Tensor | None


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
        self.data = self.storage.tensors
        self.arrays = {k: v.numpy() for k, v in self.data.items()}  # the same memory; numpy writes small rows faster
        self.has_fillers = False
        # the same memory as [size · N, ...], indexed by cell
        self.cells = {k: v.view(self.size * num_envs, *v.shape[2:]) for k, v in self.data.items()}

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
            self.data["truncated"][(self.rows - 1) % self.size] |= True

    @property
    def first(self) -> int:
        """The oldest row to sample from, counted from the beginning of the run."""
        return max(self.rows - self.live, 0)

    def draw(self, batch: int) -> Tensor:
        """Uniform cells of `batch` stored transitions: row · N + env, rows counted from the beginning of the run."""
        low, high = self.first * self.num_envs, self.rows * self.num_envs
        cell = torch.randint(low, high, (batch,), generator=self.generator)
        if self.has_fillers:
            bad = ~self.cells["valid"][cell % len(self.cells["valid"])]
            if bad.any():
                cell[bad] = self.draw(int(bad.sum()))
        return cell

    def sample(self, batch: int) -> Transition:
        """n-step transitions; a walk that meets the newest row stops there and bootstraps earlier."""
        return self.gather(self.draw(batch))

    def gather(self, cell: Tensor) -> Transition:
        """The transitions that start at these cells."""
        return self.assemble(self.walk(cell))

    def walk(self, cell: Tensor) -> Walk:
        """The n rows from each cell on, in the same environment."""
        if self.n == 1:
            return Walk((cell % len(self.cells["reward"]))[None], None)
        rows = cell + self.num_envs * torch.arange(self.n)[:, None]
        return Walk(rows % len(self.cells["reward"]), rows >= (self.rows - 1) * self.num_envs)

    def assemble(self, walk: Walk, reward: Tensor | None = None, terminated: Tensor | None = None) -> Transition:
        """n-step transitions along walks, with the stored rewards and terminations or with others, both [n, B]."""
        start = end = walk.cells[0]
        if walk.newest is None:
            paid = self.cells["reward"].index_select(0, start) if reward is None else reward[0]
            ended = self.cells["terminated"].index_select(0, start) if terminated is None else terminated[0]
            discount = self.gamma * ~ended
        else:
            reward = self.cells["reward"][walk.cells] if reward is None else reward
            stored = self.cells["terminated"][walk.cells]
            terminated = stored if terminated is None else terminated
            stops = terminated | stored | self.cells["truncated"][walk.cells] | walk.newest  # the episode ended there
            paid, discount, last = n_step(reward, stops, terminated, gamma=self.gamma)
            end = walk.cells.gather(0, last[None])[0]
        return Transition(
            obs=self.cells["obs"].index_select(0, start),
            action=self.cells["action"].index_select(0, start),
            reward=paid,
            next_obs=self.cells["next_obs"].index_select(0, end),
            discount=discount,
        )

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
