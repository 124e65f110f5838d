"""TD3 by hand: ∂L/∂Qᵢ = (Qᵢ - y) / B, clipped to ± 1/B with the Huber loss; the actor follows ∂Q₁/∂a through tanh."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from cairn.core.types import Transition
from cairn.native.networks import Core, layers_of
from cairn.native.supports import plain_encoder, plain_mlp


class TD3ByHand:
    """`TD3._learn` without autograd."""

    def __init__(self, agent: Any, core: Core) -> None:
        self.agent, self.core = agent, core
        shape = agent.actor.hidden, agent.cfg.activation
        self.actor, self.target_actor = (core.net(layers_of(n), *shape) for n in (agent.actor, agent.target_actor))
        self.critics = [core.net(layers_of(agent.critic, i), *shape) for i in range(2)]
        self.targets = [core.net(layers_of(agent.target_critic, i), *shape) for i in range(2)]

    @staticmethod
    def refusal(agent: Any) -> str:
        """Why this agent cannot be trained this way: a clause; "" if it can."""
        nets = [plain_mlp(net, agent.cfg.activation) for net in (agent.actor, agent.critic)]
        return plain_encoder(agent.encoder) or nets[0] or nets[1]

    def learn(self, batch: Transition, move_actor: bool) -> dict[str, Tensor]:
        """As `TD3._learn`."""
        agent, core, cfg = self.agent, self.core, self.agent.cfg
        batch = agent.encoder.learn(batch)
        rows = len(batch.reward)
        target = self._target(batch)
        x = torch.cat([batch.obs, batch.action], 1)
        loss: Tensor = torch.zeros(())
        for critic in self.critics:
            q = critic.forward(x)
            error = q - target
            each = F.smooth_l1_loss(q, target) if cfg.huber else 0.5 * error.square().mean()
            loss = loss + each
            critic.backward((error.clamp(-1, 1) if cfg.huber else error) / rows)
        core.step(agent.critic_opt)
        metrics = {"train/critic_loss": loss}
        if move_actor:
            action = self.actor.forward(batch.obs).tanh()
            q = self.critics[0].forward(torch.cat([batch.obs, action], 1))
            each = torch.full((rows, 1), -1.0 / rows)
            action_grad = self.critics[0].backward(each, learn=False, inputs=batch.obs.shape[1])
            self.actor.backward(action_grad * (1 - action * action))
            core.step(agent.actor_opt)
            core.lerp(agent.target_actor_flat, agent.actor_opt.flat, cfg.tau)
            core.lerp(agent.target_critic_flat, agent.critic_opt.flat, cfg.tau)
            metrics["train/actor_loss"] = -q.mean()
        return metrics

    def _target(self, batch: Transition) -> Tensor:
        """As `TD3.smoothed_target` [B, 1], with the same random numbers."""
        cfg = self.agent.cfg
        action = self.target_actor.forward(batch.next_obs).tanh()
        noise = cfg.target_noise * torch.empty_like(action).normal_(generator=self.agent.generator)
        action = (action + noise.clamp(-cfg.noise_clip, cfg.noise_clip)).clamp(-1, 1)
        x = torch.cat([batch.next_obs, action], 1)
        q = torch.cat([one.forward(x) for one in self.targets], 1).amin(1)
        return torch.addcmul(batch.reward, batch.discount, q)[:, None]

    def install(self) -> None:
        self.before = self.agent.learn
        self.agent.learn = self.learn

    def remove(self) -> None:
        self.agent.learn = self.before
