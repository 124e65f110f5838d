"""Q(s, ·) with memory: the values read features and the output of a recurrent cell, which has read those before."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cairn.core.types import Sequences
from cairn.nets.features import FeatureNet
from cairn.nets.recurrent import Recurrent


class RecurrentValues(nn.Module):
    """Features (`before`, or the observation itself), a recurrent cell, and a head of values on both.

    `head` reads rows of what is known: [features | output of the cell].
    """

    def __init__(self, core: Recurrent, head: nn.Module, before: FeatureNet | None = None) -> None:
        super().__init__()
        self.before, self.core, self.head = before, core, head

    def forward(self, obs: Tensor) -> Tensor:
        """Q(s, ·) [B, actions] where episodes begin with obs [B, ...]."""
        return self.step(obs, obs.new_zeros(len(obs), self.core.width, dtype=torch.float32))[0]

    def step(self, obs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Q(s, ·) [B, actions] and the states after obs [B, ...], from those before it [B, width]."""
        seen = self._seen(obs)
        state = self.core.step(seen, state)
        return self.head(self.core.beside(seen, state)), state

    def unroll(self, batch: Sequences, burn_in: int) -> tuple[Tensor, Tensor]:
        """What is known [L · B, ...] at the steps to learn from, and at their successors, which carry no gradient.

        A successor is read with the state after the step before it, so that no episode knows of another.
        """
        count, state = len(batch.state), batch.state
        if burn_in:
            with torch.no_grad():
                state = self._states(self._seen(batch.obs[:burn_in].flatten(0, 1)), state, batch.begins[:burn_in])[
                    -count:
                ]
        seen = self._seen(batch.obs[burn_in:].flatten(0, 1))
        states = self._states(seen, state, batch.begins[burn_in:])
        learned = len(batch.reward)  # behind them are those that n-step returns look at
        known = self.core.beside(seen[:learned], states[:learned])
        with torch.no_grad():
            following = self._seen(batch.next_obs)
            return known, self.core.beside(following, self.core.step(following, states[batch.after]))

    def _states(self, seen: Tensor, state: Tensor, begins: Tensor) -> Tensor:
        """The states [T · B, width] after each row of features [T · B, F]."""
        return self.core.unroll(seen.unflatten(0, begins.shape), state, begins).flatten(0, 1)

    def _seen(self, obs: Tensor) -> Tensor:
        if self.before is None:
            return obs
        out: Tensor = self.before(obs)
        return out
