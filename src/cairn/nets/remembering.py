"""The actor-critic with memory: the trunks read features and the output of a recurrent cell, which they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator, Tensor

from cairn.core.errors import CairnError
from cairn.core.types import Rollout, Spec
from cairn.nets.actor_critic import ActorCritic
from cairn.nets.heads import Distribution
from cairn.nets.own import NONE, Own
from cairn.nets.recurrent import MemoryKind, Recurrent, starts, windows


class Remembering(ActorCritic):
    """An actor-critic with a recurrent cell, `core`.

    `state` [B, width] is that of the cell before an observation; left out, it is zero, as where an episode begins.
    """

    def __init__(
        self,
        spec: Spec,
        hidden: Sequence[int],
        memory: MemoryKind,
        size: int,
        sequence: int,
        *,
        own: Own = NONE,
        **shape: Any,
    ) -> None:
        if own.actor is not None or own.critic is not None:
            raise CairnError(
                f"agent.memory is {memory}; it works with a network of your own, not with actor or critic."
            )
        super().__init__(spec, hidden, own=own, remembered=size, **shape)
        self.core: Recurrent = Recurrent(memory, self.width, size)
        self.sequence = sequence

    def drawn(self, fields: list[Tensor], rollout: Rollout) -> list[Tensor]:
        """Sequences [B, L, ...] of the fields; then [B, L] where episodes begin, and [B, width] the first states."""
        assert rollout.state is not None
        step, env = windows(rollout.valid, self.sequence)
        place = torch.zeros(rollout.valid.shape, dtype=torch.int64, device=rollout.valid.device)
        place[rollout.valid] = torch.arange(len(fields[0]), device=place.device)
        found = [x[place[step, env]] for x in fields]
        return [*found, starts(rollout)[step, env], rollout.state[step[:, 0], env[:, 0]]]

    def judge(self, batch: list[Any]) -> tuple[Distribution, Tensor, list[Any]]:
        obs, *rest, begins, state = batch
        policy, value = self.unroll(obs.transpose(0, 1), state, begins.t())
        return policy, value, [x.transpose(0, 1).flatten(0, 1) for x in rest]

    def unroll(
        self, obs: Tensor, state: Tensor, starts: Tensor, valid: Tensor | None = None
    ) -> tuple[Distribution, Tensor]:
        """π and V of all rows [T · B] of B sequences, obs [T, B, ...], from the states [B, width] before their first.

        `starts` [T, B] bool is True where a row begins an episode, which knows nothing of the rows before it. Only rows
        that are `valid` [T, B] are judged; None: all.
        """
        rows = obs.flatten(0, 1)
        seen = self.seen(rows)
        states = self.core.unroll(seen.unflatten(0, starts.shape), state, starts)
        known = self.core.beside(seen, states.flatten(0, 1))
        if valid is not None:
            known, rows = known[valid.flatten()], rows[valid.flatten()]
        return self._judged(known, rows)

    def forward(self, obs: Tensor, state: Tensor | None = None) -> tuple[Distribution, Tensor]:
        return self._judged(self._known(obs, state)[0], obs)

    def policy(self, obs: Tensor, state: Tensor | None = None) -> Distribution:
        return self._distribution(self.trunk(self._known(obs, state)[0], member=0), obs)

    def value(self, obs: Tensor, state: Tensor | None = None) -> Tensor:
        return self._value(self.trunk(self._known(obs, state)[0], member=1), obs)

    @torch.no_grad()
    def act(self, given: list[Tensor], explore: bool, generator: Generator) -> Any:
        """The actions for [obs]; for [obs, state] these and the next states."""
        obs = self.normalise(given[0])
        known, state = self._known(obs, *given[1:])
        policy = self._distribution(self.trunk(known, member=0), obs)
        action = policy.sample(generator) if explore else policy.mode()
        return action if len(given) == 1 else (action, state)

    @torch.no_grad()
    def after(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        """As without memory; sₜ' is read with what is known after sₜ."""
        assert rollout.state is not None
        apart = rollout.terminated | rollout.truncated
        apart[-1] = True
        out = torch.zeros_like(rollout.reward)
        _, state = self._known(self.normalise(rollout.obs[apart]), rollout.state[apart])
        out[apart] = self.value(self.normalise(rollout.next_obs[apart]), state)
        return apart, out

    def _known(self, obs: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """What the trunks read, and the state after it."""
        seen = self.seen(obs)
        state = self.core.step(seen, seen.new_zeros(len(seen), self.core.width) if state is None else state)
        return self.core.beside(seen, state), state

    def _judged(self, known: Tensor, obs: Tensor) -> tuple[Distribution, Tensor]:
        actor, critic = self.trunk(known).unbind(0)
        return self._distribution(actor, obs), self._value(critic, obs)


def actor_critic(
    spec: Spec, hidden: Sequence[int], memory: MemoryKind, size: int, sequence: int = 0, **shape: Any
) -> ActorCritic:
    """The networks of an on-policy agent, with memory of `size` units or without."""
    if memory == "none":
        return ActorCritic(spec, hidden, **shape)
    return Remembering(spec, hidden, memory, size, sequence, **shape)


def no_memory(kind: MemoryKind, who: str, name: str) -> None:
    """Raise CairnError if a setting, called `name`, asks for memory; `who` cannot use it."""
    if kind != "none":
        raise CairnError(f"{name} is {kind}, and {who} has no memory of earlier observations: set it to none.")
