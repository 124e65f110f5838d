"""Twin delayed deep deterministic policy gradient (Fujimoto et al. 2018)."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from cairn.core.agent import BaseAgent, Metrics, PlainReplay
from cairn.core.checks import Ahead, Count, Natural, NonNegative, Positive, Unit, Widths, validated
from cairn.core.errors import CairnError
from cairn.core.losses import twin_huber, twin_q
from cairn.core.schedules import Rate, constant
from cairn.core.state import Parts
from cairn.core.types import Box, Spec, Transition
from cairn.nets.cnn import Vision
from cairn.nets.encoder import Encoder
from cairn.nets.features import IMAGE_FEATURES, feature_net
from cairn.nets.graphs import graphed
from cairn.nets.health import dead_units
from cairn.nets.mlp import MLP, Activation
from cairn.nets.optim import Flat, Optimizer, lerp_
from cairn.nets.own import NONE, Own, not_normalised
from cairn.nets.seeding import seeded


@dataclass(frozen=True)
class TD3Config(PlainReplay):
    """Settings of TD3."""

    discrete: ClassVar[bool] = False  # acts in continuous action spaces

    hidden: Widths = (256, 256)  # units per hidden layer (SB3: policy_kwargs net_arch)
    activation: Activation = "relu"  # activation function of the hidden layers (SB3: policy_kwargs activation_fn)
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
    clip_obs: Positive = 5.0  # normalised observations are clipped to ± this (SB3: VecNormalize clip_obs)
    relative_goals: bool = False  # observe the goal as its displacement from the achieved goal
    cnn: Vision = "nature"  # network that reads images: nature (Mnih et al. 2015) or impala (ResNet)
    bf16: bool = False  # compute convolutions in bfloat16: faster on processors that support it
    random_shift: Natural = 0  # pixels by which the images of a batch are moved at random (DrQ: 4); 0: none


class TD3(BaseAgent):
    """A deterministic actor in [-1, 1]. Targets use the minimum of two critics at an action with clipped noise."""

    def __init__(self, cfg: TD3Config, spec: Spec, *, seed: int = 0, device: str = "cpu", own: Own = NONE) -> None:
        if not isinstance(spec.action, Box):
            raise CairnError("TD3 acts in continuous action spaces only; use dqn, ppo or a2c for this task.")
        if not spec.action.bounded:
            raise CairnError(
                "TD3 needs a bounded action space, and this task's is unbounded; use ppo, or give its Box bounds."
            )
        self.cfg = cfg = validated(cfg, "agent.")
        self.spec, self.progress, self.own = spec, 0.0, own
        self.generator = torch.Generator(device).manual_seed(seed)
        look: Any = {"cnn": cfg.cnn, "bf16": cfg.bf16, "normalise": cfg.normalise, "squashed": IMAGE_FEATURES}
        look["clip"] = cfg.clip_obs
        not_normalised(own, cfg.normalise, "normalise")
        with seeded(seed):
            features = feature_net(spec, own.network, images=True, **look)
        seen: Any = {"normalise": cfg.normalise, "relative_goals": cfg.relative_goals, "features": features}
        seen |= {"clip": cfg.clip_obs, "random_shift": cfg.random_shift, "generator": self.generator}
        self.encoder = Encoder(spec, **seen).to(device)
        obs, dim = self.encoder.width, spec.action.dim
        with seeded(seed):
            self.actor = MLP(obs, cfg.hidden, dim, activation=cfg.activation).to(device)
            self.critic = MLP(obs + dim, cfg.hidden, 1, members=2, activation=cfg.activation).to(device)
        self.target_actor, self.target_critic = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.target_encoder = self.encoder.target()
        self.actor_lr = cfg.lr if cfg.actor_lr is None else cfg.actor_lr
        self.actor_opt = Optimizer(self.actor, lr=self.actor_lr(0))
        self.critic_opt = Optimizer(self.critic, lr=cfg.lr(0))
        self.target_actor_flat, self.target_critic_flat = Flat(self.target_actor), Flat(self.target_critic)
        self.target_features = None if self.target_encoder is None else Flat(self.target_encoder)
        self.updates = torch.zeros((), dtype=torch.int64)
        self.feature_opts = [] if features is None else [Optimizer(self.encoder, lr=cfg.lr(0))]
        self.learn = graphed(self._learn, self.generator)
        self.policy_parts: Parts = {
            "encoder": self.encoder,
            "actor": self.actor,
            "critic": self.critic,
            "target_actor": self.target_actor,
            "target_critic": self.target_critic,
            **({} if self.target_encoder is None else {"target_encoder": self.target_encoder}),
        }
        self.training_parts: Parts = {
            **dict(zip(("feature_opt",), self.feature_opts, strict=False)),
            "actor_opt": self.actor_opt,
            "critic_opt": self.critic_opt,
            "generator": self.generator,
            "updates": self.updates,
        }

    def pi(self, actor: MLP, obs: Tensor) -> Tensor:
        """π(s) [B, dim] for encoded observations [B, width]."""
        out: Tensor = actor(obs).tanh()
        return out

    def q(self, critic: MLP, obs: Tensor, action: Tensor, frozen: bool = False) -> Tensor:
        """Q(s, a) of both critics [2, B], for encoded observations; `frozen` as in `MLP.forward`."""
        out: Tensor = critic(torch.cat([obs, action], 1), frozen)[..., 0]
        return out

    def _noise(self, like: Tensor, sigma: float) -> Tensor:
        return sigma * torch.empty_like(like).normal_(generator=self.generator)

    def judges_actions(self) -> bool:
        """True: TD3 has Q(s, a)."""
        return True

    def action_value(self, obs: Tensor, action: Tensor) -> Tensor:
        """The minimum of the two critics [B]."""
        return self.q(self.critic, self.encoder(obs), action).amin(0)

    @torch.no_grad()
    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        """Actions [N, dim] for obs [N, ...]; with `explore`, plus Gaussian noise."""
        action = self.pi(self.actor, self.encoder(obs))
        return (action + self._noise(action, self.cfg.noise)).clamp(-1, 1) if explore else action

    @torch.no_grad()
    def smoothed_target(self, batch: Transition, seen: Tensor) -> Tensor:
        """The target y = R + γᵏ(1 - term) min Q'(s', clip(π'(s') + clip(ε, ±c), ±1)), ε ~ N(0, σ̃); [B]."""
        action = self.pi(self.target_actor, seen)
        noise = self._noise(action, self.cfg.target_noise).clamp(-self.cfg.noise_clip, self.cfg.noise_clip)
        q = self.q(self.target_critic, seen, (action + noise).clamp(-1, 1))
        return torch.addcmul(batch.reward, batch.discount, q.amin(0))

    def update(self, batch: Transition) -> Metrics:
        """Update the critics on a batch [B], and every `policy_delay` updates the actor; return metrics."""
        self.critic_opt.lr, self.actor_opt.lr = self.cfg.lr(self.progress), self.actor_lr(self.progress)
        for opt in self.feature_opts:
            opt.lr = self.critic_opt.lr
        self.updates += 1
        metrics = self.learn(batch, int(self.updates) % self.cfg.policy_delay == 0)
        return {**metrics, "train/dead_units": lambda: self.dead_units(batch)}

    def dead_units(self, batch: Transition) -> Tensor:
        """The share of dead units in actor or critics, whichever is larger."""
        obs = self.encoder(batch.obs)
        return dead_units((self.actor, obs), (self.critic, torch.cat([obs, batch.action], 1)))

    def _learn(self, batch: Transition, move_actor: bool) -> dict[str, Tensor]:
        shown = batch.next_obs
        batch = self.encoder.learn(batch)
        seen = batch.next_obs if self.target_encoder is None else self.target_encoder(shown).detach()
        loss = twin_huber if self.cfg.huber else twin_q
        critic_loss = loss(self.q(self.critic, batch.obs, batch.action), self.smoothed_target(batch, seen))
        self.critic_opt.step(critic_loss, *self.feature_opts)
        batch = replace(batch, obs=batch.obs.detach())  # features are learned from the critics' loss alone
        metrics = {"train/critic_loss": critic_loss.detach()}
        if move_actor:
            actor_loss = -self.q(self.critic, batch.obs, self.pi(self.actor, batch.obs), frozen=True)[0].mean()
            self.actor_opt.step(actor_loss)
            lerp_(self.target_actor_flat, self.actor_opt.flat, self.cfg.tau)
            lerp_(self.target_critic_flat, self.critic_opt.flat, self.cfg.tau)
            if self.target_features is not None:
                lerp_(self.target_features, self.feature_opts[0].flat, self.cfg.tau)
            metrics["train/actor_loss"] = actor_loss.detach()
        return metrics
