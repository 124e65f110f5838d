"""Uniform replay: a ring of rows, each with one transition of every environment."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from cairn.core.errors import CairnError
from cairn.core.returns import n_step
from cairn.core.types import Array, Spec, Step, Transition
from cairn.replay.checksums import Sums
from cairn.replay.mirror import Mirror, can_mirror
from cairn.replay.protocol import EvenDraw
from cairn.replay.storage import Storage

MOST_REDRAWS = 1000


@dataclass(frozen=True)
class Walk:
    """n stored steps from each of B starts, copied out of the ring: arrays, or tensors where it has a copy on a device.

    obs, action [B, ...] of the first step; next_obs [n, B, ...], reward, terminated [n, B] of all steps;
    stops [n, B] where the episode ended or nothing newer is stored; None if n is 1
    """

    obs: Any
    action: Any
    next_obs: Any
    reward: Any
    terminated: Any
    stops: Any


class Ring(EvenDraw):
    """The last `capacity` transitions of N environments, in rows of N.

    Each observation is stored once: the successor of a row is the observation of the next row. Where an episode ended,
    the
    successor is in `final`, which is filled densely: its unused part takes no memory.

    With a `folder`, arrays are memory-mapped files and a checkpoint need not copy them. The ring has `slack` rows more
    than
    it samples from, so rows written after a checkpoint do not overwrite those that it needs. A checkpoint stores
    `rows`.

    Args:
        capacity: Transitions to sample from.
        num_envs: Environments per row.
        spec: The task's spaces.
        generator: Draws the samples.
        gamma: Discount factor of n-step returns.
        n: Steps of an n-step return.
        slack: Further rows to keep for checkpoints.
        folder: Where to keep memory-mapped files; None keeps everything in memory.
        device: Where batches are wanted. Beside a GPU the ring has a copy there, from which they are read.
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
        device: str = "cpu",
    ) -> None:
        self.live = max(capacity // num_envs, 1)  # rows to sample from
        self.size = self.live + slack + 1  # rows in all; one more for the newest successor
        self.num_envs, self.gamma, self.n = num_envs, gamma, n
        self.generator = generator
        self.rows = self.finals = 0  # written so far
        lead = (self.size, num_envs)
        self.storage = Storage(
            {
                "obs": ((*lead, *spec.obs_shape), spec.obs_dtype),
                "final": ((self.size * num_envs, *spec.obs_shape), spec.obs_dtype),
                "final_at": (lead, "int32"),  # 1 + index in `final`; 0: the next row has it
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
        self.sums: dict[str, Sums] = {}
        # views [size · N, ...], indexed by cell
        self.total = self.size * num_envs
        self.final = self.arrays["final"]
        self.cells = {k: v.reshape(self.total, *v.shape[2:]) for k, v in self.arrays.items() if k != "final"}
        self.mirror = Mirror(self, device) if device != "cpu" and can_mirror(self) else None

    def __len__(self) -> int:
        return min(self.rows, self.live) * self.num_envs

    @staticmethod
    def bytes_each(spec: Spec) -> int:
        """Bytes of memory per transition, without the last observations of episodes."""
        obs = math.prod(spec.obs_shape) * np.dtype(spec.obs_dtype).itemsize
        action = math.prod(spec.action_shape) * np.dtype(spec.action_dtype).itemsize
        return obs + action + 4 + 4 + 3  # final_at, reward, three flags

    @property
    def ring(self) -> Ring:
        """The ring itself, as `Frames.ring` is that of a replay of frames."""
        return self

    def add(self, obs: Array, action: Array, step: Step, recorded: Array | None = None) -> None:
        """Store one step of every environment: obs [N, ...], which is the last step's `obs`, and the action."""
        at = self.rows % self.size
        row = {
            "obs": obs,
            "final_at": 0,
            "action": action,
            "reward": step.reward,
            "terminated": step.terminated,
            "truncated": step.truncated,
            "valid": step.valid,
        }
        for name, value in row.items():
            self.arrays[name][at] = value
        self.arrays["obs"][(at + 1) % self.size] = step.next_obs
        ended = step.terminated | step.truncated
        if np.count_nonzero(ended):  # cheaper than `any` and `all`, at every step
            self._keep_successors(at, ended)
        if np.count_nonzero(step.valid) < self.num_envs:
            self.has_fillers = True
            if self.rows > 0:  # a lost step truncates the open episode
                self.arrays["truncated"][at - 1] |= ~step.valid
        self.rows += 1

    def cut(self) -> None:
        """Truncate all open episodes: the environments are about to be reset."""
        if self.rows > 0:
            at = (self.rows - 1) % self.size
            self.arrays["truncated"][at] = True
            self._keep_successors(at, self.arrays["final_at"][at] == 0)

    def _keep_successors(self, at: int, which: Array) -> None:
        """Copy successors to `final`, because the next row will begin other episodes."""
        found = self.arrays["obs"][(at + 1) % self.size][which]
        places = (self.finals + np.arange(len(found))) % self.total
        self.final[places] = found
        self.arrays["final_at"][at, which] = places + 1
        self.finals += len(found)

    def observations(self, at: Array) -> Array:
        """A copy of obs for stored cells (modulo the ring)."""
        return self.cells["obs"].take(at, 0, mode="wrap")

    def successors(self, at: Array) -> Array:
        """A copy of next_obs for stored cells (modulo the ring)."""
        out = self.cells["obs"].take(at + self.num_envs, 0, mode="wrap")
        place = self.cells["final_at"].take(at, mode="wrap")
        ended = place.nonzero()
        out[ended] = self.final.take(place[ended] - 1, 0)
        return out

    @property
    def first(self) -> int:
        """The oldest row to sample from, numbered from the beginning of the run."""
        return max(self.rows - self.live, 0)

    def draw(self, batch: int, newest: int | None = None) -> Array:
        """Random cells [B] of stored transitions: row · N + env, with rows numbered from the beginning of the run.

        With `newest`, only from that many newest rows.
        """
        first = self.first if newest is None else max(self.first, self.rows - newest)
        low, high = first * self.num_envs, self.rows * self.num_envs
        cell: Array = torch.randint(low, high, (batch,), generator=self.generator).numpy()
        if self.has_fillers:
            bad = ~self.cells["valid"].take(cell % self.total)
            for _ in range(MOST_REDRAWS):
                if not bad.any():
                    break
                cell[bad] = torch.randint(low, high, (int(bad.sum()),), generator=self.generator).numpy()
                bad = ~self.cells["valid"].take(cell % self.total)
            else:
                raise CairnError("the replay buffer holds almost no valid transition: its environments keep failing.")
        return cell

    def sample(self, batch: int) -> Transition:
        """A batch of n-step transitions. Where fewer than n steps are stored, the return bootstraps earlier."""
        return self.gather(self.draw(batch))

    def gather(self, cell: Array) -> Transition:
        """The transitions that start at these cells [B]."""
        return self.transition(self.walk(cell))

    def walk(self, cell: Array) -> Walk:
        """The n steps from each cell on, in the same environment; on the device if there is a copy."""
        return self.walk_here(cell) if self.mirror is None else self._walk_there(self.mirror, cell)

    def _walk_there(self, mirror: Mirror, cell: Array) -> Walk:
        """`walk_here`, of the copy."""
        mirror.send()
        cells, first = mirror.cells, mirror.sent(cell)
        start = first % self.total
        at, stops = start[None], None
        if self.n > 1:
            rows = first + self.num_envs * torch.arange(self.n, device=first.device)[:, None]
            at = rows % self.total
            stops = cells["terminated"][at] | cells["truncated"][at] | (rows >= (self.rows - 1) * self.num_envs)
        steps = mirror.successors(at), cells["reward"][at], cells["terminated"][at]
        return Walk(cells["obs"][start], cells["action"][start], *steps, stops)

    def walk_here(self, cell: Array) -> Walk:
        """The n steps from each cell on, as arrays."""
        cells = self.cells
        start = cell % self.total
        at, stops = start[None], None
        if self.n > 1:
            rows = cell + self.num_envs * np.arange(self.n)[:, None]
            at = rows % self.total
            newest = rows >= (self.rows - 1) * self.num_envs
            stops = cells["terminated"].take(at) | cells["truncated"].take(at) | newest
        return Walk(
            obs=cells["obs"].take(start, 0, mode="wrap"),  # the fastest mode: no bounds check, no buffering
            action=cells["action"].take(start, 0, mode="wrap"),
            next_obs=self.successors(at),
            reward=cells["reward"].take(at, mode="wrap"),
            terminated=cells["terminated"].take(at, mode="wrap"),
            stops=stops,
        )

    def transition(self, walk: Walk) -> Transition:
        """Walks summed up as n-step transitions."""
        tensor = torch.from_numpy
        if isinstance(walk.obs, Tensor):
            return self._transition_there(walk)
        if walk.stops is None:
            reward, next_obs = tensor(walk.reward[0]), tensor(walk.next_obs[0])
            discount = tensor(np.multiply(~walk.terminated[0], self.gamma, dtype=np.float32))
        else:
            terminated, stops = tensor(walk.terminated), tensor(walk.terminated | walk.stops)
            reward, discount, last = n_step(tensor(walk.reward), stops, terminated, gamma=self.gamma)
            next_obs = tensor(walk.next_obs[last.numpy(), np.arange(len(last))])
        return Transition(tensor(walk.obs), tensor(walk.action), reward, next_obs, discount)

    def _transition_there(self, walk: Walk) -> Transition:
        """`transition`, of tensors."""
        if walk.stops is None:
            reward, next_obs = walk.reward[0], walk.next_obs[0]
            discount = (~walk.terminated[0]).to(torch.float32) * self.gamma
        else:
            ends = walk.terminated | walk.stops
            reward, discount, last = n_step(walk.reward, ends, walk.terminated, gamma=self.gamma)
            next_obs = walk.next_obs[last, torch.arange(len(last), device=last.device)]
        return Transition(walk.obs, walk.action, reward, next_obs, discount)

    def save(self) -> dict[str, Any]:
        """The state for a checkpoint, once mapped files are on disk."""
        self.storage.sync()
        kept = {"rows": self.rows, "finals": self.finals, "size": self.size}
        return {
            **kept,
            "has_fillers": int(self.has_fillers),
            "sums": self._sums_of(lambda sums, span: sums.take(*span)),
        }

    def load(self, saved: dict[str, Any]) -> None:
        """Continue from a checkpoint. Raises CairnError where the files do not match it."""
        if saved["size"] != self.size:
            raise CairnError(f"the replay files hold {saved['size']} rows where this run needs {self.size}.")
        self.storage.must_be_found()
        self.rows, self.finals = saved["rows"], saved["finals"]
        self.has_fillers = bool(saved["has_fillers"])
        if self.mirror is not None:
            self.mirror.forget()
        told = saved.get("sums", {})
        self._sums_of(lambda sums, span: sums.check(*span, told.get(sums.name)))

    def _sums_of(self, do: Callable[[Sums, tuple[int, int]], Any]) -> dict[str, Any]:
        """Apply `do` to the checksums of all arrays, over the rows to sample from and the `final` ones of these."""
        if self.storage.folder is None:
            return {}
        self.sums = self.sums or {name: Sums(name, array) for name, array in self.arrays.items()}
        span = self.first, self.rows
        found = {name: do(sums, span) for name, sums in self.sums.items() if name != "final"}
        rows = np.arange(*span) % self.size
        named = int(np.count_nonzero(self.arrays["final_at"][rows]))
        return {**found, "final": do(self.sums["final"], (self.finals - named, self.finals))}
