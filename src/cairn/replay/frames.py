"""Replay of stacked frames in which every frame is stored once: a ring of frame numbers, and the frames."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from cairn.core.types import Array, Spec, Step, Transition
from cairn.replay.checksums import Sums
from cairn.replay.packed_frames import Mirrored, Packed, Plain, Store
from cairn.replay.protocol import EvenDraw
from cairn.replay.ring import Ring

SPARE = 64  # one spare frame per this many, for the last frames of episodes, which no step begins with


class Frames(EvenDraw):
    """The last `capacity` transitions of N environments with stacked frames (see `Spec.stack`).

    The ring stores, in place of an observation, the number of its newest frame and how many of its frames are real (not
    zeros before the start of an episode). Stacks are assembled when a batch is sampled. Each environment has its own
    row of
    frames; an episode of T steps has T + 1 of them.

    On a GPU, frames are read from a copy there. With `frame_bytes` they are compressed instead, with that many bytes
    reserved per frame. If frames take more, or episodes are shorter than `SPARE` steps, fewer transitions fit: those
    whose
    frames are about to be overwritten are not sampled any more.
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
        frame_bytes: int = 0,
        device: str = "cpu",
    ) -> None:
        self.ring = Ring(
            capacity, num_envs, _numbered(spec), generator=generator, gamma=gamma, n=n, slack=slack, folder=folder
        )
        self.num_envs, self.stack, self.generator = num_envs, spec.stack, generator
        self.kept = self.ring.live + self.ring.live // SPARE + 2 + self.stack  # frames in use per environment
        self.size = self.kept + 2 * slack  # a step writes at most two frames
        frame = (spec.obs_shape[0] // spec.stack, *spec.obs_shape[1:])  # a frame can have several channels
        place = (num_envs * self.size, frame, spec.obs_dtype, folder)
        self.store: Store
        if frame_bytes:
            live, beyond = num_envs * self.kept, num_envs * (slack + slack // 8)
            self.store = Packed(*place, each=frame_bytes, live=live, slack=beyond)
        else:
            self.store = Plain(*place) if device == "cpu" else Mirrored(*place, device=device)
        self.sums = {  # separately for each environment's row of frames
            (name, env): Sums(name, array[env * self.size : (env + 1) * self.size])
            for name, array in self.store.slotted().items()
            for env in range(num_envs)
        }
        self.channels = frame[0]
        self.written = np.zeros(num_envs, np.int64)  # frames of each environment so far
        self.real = np.zeros(num_envs, np.int64)  # frames of each open episode; 0 where one begins
        self.first = 0  # the oldest row whose frames are all stored

    @staticmethod
    def bytes_each(spec: Spec, frame_bytes: int = 0) -> int:
        """Bytes of memory per transition: a frame, a share of the spare frames, and the row in the ring."""
        whole = math.prod(spec.obs_shape) // spec.stack * np.dtype(spec.obs_dtype).itemsize
        frame = frame_bytes + 12 if frame_bytes else whole  # 12 bytes for its place and length
        return frame + frame // SPARE + Ring.bytes_each(_numbered(spec))

    def __len__(self) -> int:
        return (self.ring.rows - self.first) * self.num_envs

    def add(self, obs: Array, action: Array, step: Step, recorded: Array | None = None) -> None:
        """Store a step of every environment: its next frame and, at the start of an episode, its first frame."""
        self._write(obs, (self.real == 0) & step.valid)
        self.real += 1
        seen, after = self._numbers(self.written - 1, self.real), self._numbers(self.written, self.real + 1)
        self._write(step.next_obs, step.valid)
        self.ring.add(seen, action, replace(step, obs=after, next_obs=after))
        self.real[step.terminated | step.truncated | ~step.valid] = 0
        self._forget_overwritten()

    def _write(self, obs: Array, which: Array) -> None:
        """Store the newest frame of the environments `which` [N] bool."""
        env = np.flatnonzero(which)
        self.store.write(env * self.size + self.written[env] % self.size, obs[env, -self.channels :])
        self.written[env] += 1

    def _numbers(self, frame: Array, real: Array) -> Array:
        """[N, 2]: frame numbers, counted over all environments like the ring's cells, and real frames."""
        return np.stack([frame * self.num_envs + np.arange(self.num_envs), np.minimum(real, self.stack)], 1)

    def _forget_overwritten(self) -> None:
        self.first = max(self.first, self.ring.first)
        while self.first < self.ring.rows:
            number, real = self.ring.arrays["obs"][self.first % self.ring.size].T
            frame = number // self.num_envs
            oldest = np.arange(self.num_envs) * self.size + (frame - real + 1) % self.size
            if (self.written - frame + self.stack <= self.kept).all() and self.store.holds(oldest).all():
                break
            self.first += 1

    def cut(self) -> None:
        """End all open episodes with the newest row."""
        self.ring.cut()
        self.real[:] = 0

    def sample(self, batch: int) -> Transition:
        """A batch of n-step transitions, uniform over the stored ones."""
        return self.gather(self.ring.draw(batch, newest=self.ring.rows - self.first))

    def gather(self, cell: Array) -> Transition:
        """The transitions that start at these cells [B]."""
        numbers = self.ring.gather(cell)
        return replace(numbers, obs=self._stacks(numbers.obs), next_obs=self._stacks(numbers.next_obs))

    def observations(self, at: Array) -> Tensor:
        """obs for stored cells (modulo the ring)."""
        return self._stacks(torch.from_numpy(self.ring.observations(at)))

    def successors(self, at: Array) -> Tensor:
        """next_obs for stored cells (modulo the ring)."""
        return self._stacks(torch.from_numpy(self.ring.successors(at)))

    def _stacks(self, numbers: Tensor) -> Tensor:
        """The observations [B, channels, height, width] for frame numbers [B, 2]."""
        number, real = numbers.numpy().T
        frame, env = np.divmod(number, self.num_envs)
        back = np.arange(self.stack - 1, -1, -1)  # oldest first
        at = (frame[:, None] - back) % self.size + env[:, None] * self.size
        before = back >= real[:, None]  # before the start of the episode: frames of another one
        out = self.store.read(np.where(before, at[:, -1:], at))
        if before.any():
            out[np.nonzero(before)] = 0
        return out.flatten(1, 2)

    def save(self) -> dict[str, Any]:
        """The state of the ring and the frames, with checksums. `cut` must be called first."""
        kept = {**self.ring.save(), **self.store.save()}
        if self.ring.storage.folder is not None:
            kept["frames"] = {f"{name}/{env}": sums.take(*self._span(env)) for (name, env), sums in self.sums.items()}
        return kept

    def _span(self, env: int) -> tuple[int, int]:
        """The frames of an environment that no write after a checkpoint can have overwritten."""
        end = int(self.written[env])
        return max(end - self.kept, 0), end

    def load(self, saved: dict[str, Any]) -> None:
        """Continue from a checkpoint. Raises CairnError where the files do not match it."""
        self.ring.load(saved)
        self.store.load(saved)
        self.real[:] = 0
        self.first = 0
        if self.ring.rows > 0:
            newest = (self.ring.rows - 1) % self.ring.size
            number, valid = self.ring.arrays["obs"][newest, :, 0], self.ring.arrays["valid"][newest]
            self.written = number // self.num_envs + 1 + valid
        for (name, env), sums in self.sums.items():
            sums.check(*self._span(env), saved.get("frames", {}).get(f"{name}/{env}"))
        self._forget_overwritten()


def _numbered(spec: Spec) -> Spec:
    """The ring's spec: an observation is the number of its newest frame, and how many frames are real."""
    return replace(spec, obs_shape=(2,), obs_dtype="int64", stack=1)
