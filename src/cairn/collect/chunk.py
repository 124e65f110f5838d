"""Chunks: the steps of several environments as arrays, which a sampler sends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch

from cairn.collect.protocol import Played
from cairn.core.types import Array, Episode, Rollout, Step


@dataclass(frozen=True)
class Chunk:
    """T steps of K environments. obs is [T + 1, K, ...], the last row the newest; the others are [T, K, ...].

    after     successors of the steps that ended an episode, in the order of `ends`; the others are the next obs
    recorded  what the agent's memory recorded
    episodes  (row, episode) of the episodes that ended
    """

    obs: Array
    action: Array
    reward: Array
    terminated: Array
    truncated: Array
    valid: Array
    after: Array
    recorded: Array
    episodes: tuple[tuple[int, Episode], ...] = ()

    @property
    def ends(self) -> Array:
        """[T, K] bool: where an episode ended."""
        out: Array = self.terminated | self.truncated
        return out

    def next_obs(self) -> Array:
        """[T, K, ...]: the true successor of every step."""
        out = self.obs[1:].copy()
        out[self.ends] = self.after
        return out

    def steps(self) -> list[Step]:
        """The steps as a vector would have returned them."""
        next_obs = self.next_obs()
        episodes: list[list[Episode]] = [[] for _ in self.reward]
        for row, episode in self.episodes:
            episodes[row].append(episode)
        return [
            Step(
                self.obs[t + 1],
                next_obs[t],
                self.reward[t],
                self.terminated[t],
                self.truncated[t],
                self.valid[t],
                tuple(episodes[t]),
            )
            for t in range(len(self.reward))
        ]

    def played(self) -> list[Played]:
        """The steps as the off-policy loops take them."""
        rows = zip(self.obs, self.action, self.steps(), self.recorded, strict=False)
        return [Played(*row) for row in rows]

    def rollout(self, device: str) -> Rollout:
        """The steps as the on-policy loop takes them, on `device`."""
        columns = [
            self.obs[:-1],
            self.action,
            self.reward,
            self.next_obs(),
            self.terminated,
            self.truncated,
            self.valid,
        ]
        columns += [self.recorded] if self.recorded.shape[2] else []
        return Rollout(*(torch.from_numpy(np.ascontiguousarray(column)).to(device) for column in columns))


def joined(parts: Sequence[Chunk], rows: int) -> Chunk:
    """Chunks side by side; shorter ones are filled up to `rows` with invalid steps."""
    parts = [_filled(part, rows) for part in parts]
    first = np.cumsum([0, *(part.reward.shape[1] for part in parts)])
    episodes = tuple(
        (row, replace(episode, env=episode.env + int(start)))
        for part, start in zip(parts, first, strict=False)
        for row, episode in part.episodes
    )
    columns = {
        f.name: np.concatenate([getattr(part, f.name) for part in parts], 1)
        for f in fields(Chunk)
        if f.name not in ("after", "episodes")
    }
    # `after` is ordered by row first, so it cannot be concatenated: expand every part, then select the ends.
    next_obs = np.concatenate([part.next_obs() for part in parts], 1)
    ends = columns["terminated"] | columns["truncated"]
    return Chunk(**columns, after=next_obs[ends], episodes=episodes)


def _filled(part: Chunk, rows: int) -> Chunk:
    short = rows - len(part.reward)
    if short == 0:
        return part

    def more(column: Array) -> Array:
        return np.concatenate([column, np.zeros((short, *column.shape[1:]), column.dtype)])

    return Chunk(
        np.concatenate([part.obs, np.repeat(part.obs[-1:], short, 0)]),
        more(part.action),
        more(part.reward),
        more(part.terminated),
        more(part.truncated),
        more(part.valid),
        part.after,
        more(part.recorded),
        part.episodes,
    )
