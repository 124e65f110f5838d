"""Twin delayed deep deterministic policy gradient (Fujimoto et al. 2018)."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from cairn.core.agent import BaseAgent, Metrics, PlainReplay
from cairn.core.checks import Ahead, Count, Natural, NonNegative, Positive, Unit, Widths, validated
from cairn.core.errors import CairnError
from cairn.core.losses import twin_huber, twin_q
from cairn.core.schedules import Rate, constant
from cairn.core.state import Parts
from cairn.core.types import Box, Spec, Transition
from cairn.nets.cnn import no_images
from cairn.nets.encoder import Encoder
from cairn.nets.graphs import graphed
from cairn.nets.health import dead_units
from cairn.nets.mlp import MLP
from cairn.nets.optim import Flat, Optimizer, lerp_
from cairn.nets.seeding import seeded


@dataclass(frozen=True)
class TD3Config(PlainReplay):
    discrete: ClassVar[bool] = False  # the action spaces it acts in

    hidden: Widths = (256, 256)  # units per hidden layer (SB3: policy_kwargs net_arch)
    lr: Rate = constant(1e-3)  # learning rate of the critics, a number or a schedule (SB3: learning_rate)
    actor_lr: Rate | None = None  # learning rate of the actor; None: the same as the critics'
    gamma: Unit = 0.99  # discount factor γ (SB3: gamma)
    tau: Unit = 0.005  # soft update coefficient τ of the target critics (SB3: tau)
    batch_size: Count = 256  # minibatch size in transitions (SB3: batch_size)
    capacity: Count = 1_000_000  # size of the replay buffer in transitions (SB3: buffer_size)
    learning_starts: Natural = 1_000  # steps of random actions before the first update (SB3: learning_starts)
    updates_per_step: Positive = 1.0  # gradient steps per environment step (SB3: gradient_steps / train_freq)
    n_step: Ahead = 1  # steps n of the n-step return (SB3: n_steps of off-policy algorithms)
    noise: NonNegative = 0.1  # std σ of Gaussian exploration noise; actions lie in [-1, 1] (SB3: action_noise)
    target_noise: NonNegative = 0.2  # std of the noise added to target actions (SB3: target_policy_noise)
    noise_clip: NonNegative = 0.5  # clip range of that target noise (SB3: target_noise_clip)
    huber: bool = False  # Huber loss for the critics, linear beyond an error of 1; false: squared error
    policy_delay: Count = 2  # critic updates per actor update (SB3: policy_delay)
    normalise: bool = False  # normalise observations and goals by running mean and std (SB3: VecNormalize)
    relative_goals: bool = False  # observe the goal as its displacement from the achieved goal


class TD3(BaseAgent):
    """A deterministic actor in [-1, 1]; targets smoothed by clipped noise and taken from the lesser of two critics."""

    def __init__(self, cfg: TD3Config, spec: Spec, *, seed: int = 0, device: str = "cpu") -> None:
        if not isinstance(spec.action, Box):
            raise CairnError("TD3 acts in continuous action spaces only; use dqn, ppo or a2c for this task.")
        if not spec.action.bounded:
            raise CairnError(
                "TD3 needs a bounded action space, and this task's is unbounded; use ppo, or give its Box bounds."
            )
        no_images(spec, "TD3")
        self.cfg = cfg = validated(cfg, "agent.")
        self.spec, self.progress = spec, 0.0
        self.encoder = Encoder(spec, normalise=cfg.normalise, relative_goals=cfg.relative_goals).to(device)
        obs, dim = self.encoder.width, spec.action.dim
        with seeded(seed):
            self.actor = MLP(obs, cfg.hidden, dim).to(device)
            self.critic = MLP(obs + dim, cfg.hidden, 1, members=2).to(device)
        self.target_actor, self.target_critic = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.actor_lr = cfg.lr if cfg.actor_lr is None else cfg.actor_lr
        self.actor_opt = Optimizer(self.actor, lr=self.actor_lr(0))
        self.critic_opt = Optimizer(self.critic, lr=cfg.lr(0))
        self.target_actor_flat, self.target_critic_flat = Flat(self.target_actor), Flat(self.target_critic)
        self.generator = torch.Generator(device).manual_seed(seed)
        self.updates = torch.zeros((), dtype=torch.int64)
        self.learn = graphed(self._learn, self.generator)
        self.policy_parts: Parts = {
            "encoder": self.encoder,
            "actor": self.actor,
            "critic": self.critic,
            "target_actor": self.target_actor,
            "target_critic": self.target_critic,
        }
        self.training_parts: Parts = {
            "actor_opt": self.actor_opt,
            "critic_opt": self.critic_opt,
            "generator": self.generator,
            "updates": self.updates,
        }

    def pi(self, actor: MLP, obs: Tensor) -> Tensor:
        """π(s) of encoded observations, as `q` takes them."""
        out: Tensor = actor(obs).tanh()
        return out

    def q(self, critic: MLP, obs: Tensor, action: Tensor, frozen: bool = False) -> Tensor:
        """[2, B]"""
        out: Tensor = critic(torch.cat([obs, action], 1), frozen)[..., 0]
        return out

    def _noise(self, like: Tensor, sigma: float) -> Tensor:
        return sigma * torch.empty_like(like).normal_(generator=self.generator)

    def judges_actions(self) -> bool:
        return True

    def action_value(self, obs: Tensor, action: Tensor) -> Tensor:
        """The least of the two critics."""
        return self.q(self.critic, self.encoder(obs), action).amin(0)

    @torch.no_grad()
    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        action = self.pi(self.actor, self.encoder(obs))
        return (action + self._noise(action, self.cfg.noise)).clamp(-1, 1) if explore else action

    @torch.no_grad()
    def smoothed_target(self, batch: Transition) -> Tensor:
        """y = R + γᵏ(1 - term) min Q'(s', clip(π'(s') + clip(ε, ±c), ±1)), ε ~ N(0, σ̃); [B]."""
        action = self.pi(self.target_actor, batch.next_obs)
        noise = self._noise(action, self.cfg.target_noise).clamp(-self.cfg.noise_clip, self.cfg.noise_clip)
        q = self.q(self.target_critic, batch.next_obs, (action + noise).clamp(-1, 1))
        return torch.addcmul(batch.reward, batch.discount, q.amin(0))

    def update(self, batch: Transition) -> Metrics:
        self.critic_opt.lr, self.actor_opt.lr = self.cfg.lr(self.progress), self.actor_lr(self.progress)
        self.updates += 1
        metrics = self.learn(batch, int(self.updates) % self.cfg.policy_delay == 0)
        return {**metrics, "train/dead_units": lambda: self.dead_units(batch)}

    def dead_units(self, batch: Transition) -> Tensor:
        obs = self.encoder(batch.obs)
        return dead_units((self.actor, obs), (self.critic, torch.cat([obs, batch.action], 1)))

    def _learn(self, batch: Transition, move_actor: bool) -> dict[str, Tensor]:
        batch = self.encoder.learn(batch)
        loss = twin_huber if self.cfg.huber else twin_q
        critic_loss = loss(self.q(self.critic, batch.obs, batch.action), self.smoothed_target(batch))
        self.critic_opt.step(critic_loss)
        metrics = {"train/critic_loss": critic_loss.detach()}
        if move_actor:
            actor_loss = -self.q(self.critic, batch.obs, self.pi(self.actor, batch.obs), frozen=True)[0].mean()
            self.actor_opt.step(actor_loss)
            lerp_(self.target_actor_flat, self.actor_opt.flat, self.cfg.tau)
            lerp_(self.target_critic_flat, self.critic_opt.flat, self.cfg.tau)
            metrics["train/actor_loss"] = actor_loss.detach()
        return metrics
