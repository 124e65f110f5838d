"""Q-learning by hand: ∂L/∂Q(s, a) = w clip(Q(s, a) - y, ±1) / B."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cairn.core.types import Transition, WeightedTransition
from cairn.native.networks import Core, Errors, layers_of
from cairn.native.supports import plain_encoder, plain_mlp


class DQNByHand:
    """`DQN._learn` and `DQN._toss` without autograd."""

    def __init__(self, agent: Any, core: Core) -> None:
        self.agent, self.core = agent, core
        online, target = layers_of(agent.q), layers_of(agent.target)
        shape = agent.q.hidden, agent.cfg.activation
        self.q, self.next_q, self.target = (core.net(one, *shape) for one in (online, online, target))

    @staticmethod
    def refusal(agent: Any) -> str:
        """Why this agent cannot be trained this way: a clause; "" if it can."""
        return plain_encoder(agent.encoder) or plain_mlp(agent.q, agent.cfg.activation)

    def learn(self, batch: Transition, move_target: bool) -> dict[str, Tensor]:
        """As `DQN._learn`."""
        agent, cfg, core = self.agent, self.agent.cfg, self.core
        seen = batch.next_obs
        batch = agent.encoder.learn(batch)
        judged = self.target.forward(batch.next_obs)
        chooser = self.next_q.forward(batch.next_obs) if cfg.double else judged
        if agent.allowed is not None:
            chooser = chooser.masked_fill(~agent.allowed(seen), -torch.inf)
        q = self.q.forward(batch.obs)
        weight = batch.weight if isinstance(batch, WeightedTransition) else None
        action = agent.index(batch.action)
        found = core.td(Errors(q, judged, chooser, action, batch.reward, batch.discount, weight, cfg.q_range))
        self.q.backward(found.q_grad)
        core.step(agent.opt)
        if move_target:
            core.lerp(agent.target_flat, agent.opt.flat, cfg.tau)
        metrics = {"train/loss": found.loss, "train/q_mean": found.mean}
        return metrics if weight is None else {**metrics, "train/td_error": found.error}

    def toss(self, seen: list[Any]) -> Tensor:
        """ε-greedy actions; the same random numbers as the agent's own."""
        agent, (obs, epsilon) = self.agent, seen
        coin = torch.rand(len(obs), generator=agent.generator)
        dice, x = agent.dice(obs), agent.encoder.forward(obs)
        if agent.allowed is None:
            return self.core.toss(self.next_q, x, coin < epsilon, dice)
        best = self.next_q.forward(x).masked_fill(~agent.allowed(obs), -torch.inf).argmax(-1)
        return torch.where(coin < epsilon, dice, best)

    def install(self) -> None:
        self.before = self.agent.learn, self.agent.toss
        self.agent.learn, self.agent.toss = self.learn, self.toss

    def remove(self) -> None:
        self.agent.learn, self.agent.toss = self.before
