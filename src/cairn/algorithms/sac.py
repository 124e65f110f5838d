"""Soft actor-critic (Haarnoja et al. 2018); all critics run in one batched product.

Beyond the paper: with more than two critics the target is the minimum of a random pair, as in REDQ (Chen et al. 2021);
`layer_norm` in the critics, as in later work that raises `updates_per_step`.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from cairn.core.agent import BaseAgent, Metrics, PlainReplay
from cairn.core.checks import Ahead, Count, Natural, Positive, Unit, Widths, validated
from cairn.core.errors import CairnError
from cairn.core.losses import temperature, twin_q
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
from cairn.nets.tanh_gaussian import LOG_STD, TanhGaussian


@dataclass(frozen=True)
class SACConfig(PlainReplay):
    """Settings of SAC."""

    discrete: ClassVar[bool] = False  # acts in continuous action spaces

    hidden: Widths = (256, 256)  # units per hidden layer (SB3: policy_kwargs net_arch)
    activation: Activation = "relu"  # activation function of the hidden layers (SB3: policy_kwargs activation_fn)
    lr: Rate = constant(3e-4)  # learning rate, a number or a schedule (SB3: learning_rate)
    gamma: Unit = 0.99  # discount factor γ (SB3: gamma)
    tau: Unit = 0.005  # soft update coefficient τ of the target critics (SB3: tau)
    batch_size: Count = 256  # minibatch size in transitions (SB3: batch_size)
    capacity: Count = 1_000_000  # size of the replay buffer in transitions (SB3: buffer_size)
    learning_starts: Natural = 1_000  # steps of random actions before the first update (SB3: learning_starts)
    updates_per_step: Positive = 1.0  # gradient steps per environment step (SB3: gradient_steps / train_freq)
    n_step: Ahead = 1  # steps n of the n-step return (SB3: n_steps of off-policy algorithms)
    ensemble: Count = 2  # number of critics; the target is the minimum of a random pair (SB3: n_critics)
    layer_norm: bool = False  # layer normalisation in the critics
    normalise: bool = False  # normalise observations and goals by running mean and std (SB3: VecNormalize)
    clip_obs: Positive = 5.0  # normalised observations are clipped to ± this (SB3: VecNormalize clip_obs)
    relative_goals: bool = False  # observe the goal as its displacement from the achieved goal
    cnn: Vision = "nature"  # network that reads images: nature (Mnih et al. 2015) or impala (ResNet)
    bf16: bool = False  # compute convolutions in bfloat16: faster on processors that support it
    random_shift: Natural = 0  # pixels by which the images of a batch are moved at random (DrQ: 4); 0: none
    alpha: Positive = 1.0  # initial entropy coefficient α (SB3: ent_coef)
    learn_alpha: bool = True  # learn α so that the entropy stays at target_entropy (SB3: ent_coef="auto")
    target_entropy: float | None = None  # entropy in nats; None: minus the action dimensions (SB3: target_entropy)


class SAC(BaseAgent):
    """Maximises E Σ γᵗ(r + αH(π)); actions are tanh-squashed Gaussian samples in (-1, 1)."""

    def __init__(self, cfg: SACConfig, spec: Spec, *, seed: int = 0, device: str = "cpu", own: Own = NONE) -> None:
        if not isinstance(spec.action, Box):
            raise CairnError("SAC acts in continuous action spaces only; use dqn, ppo or a2c for this task.")
        if not spec.action.bounded:
            raise CairnError(
                "SAC needs a bounded action space, and this task's is unbounded; use ppo, or give its Box bounds."
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
        many: Any = {"members": cfg.ensemble, "layer_norm": cfg.layer_norm}
        with seeded(seed):
            self.actor = MLP(obs, cfg.hidden, 2 * dim, activation=cfg.activation).to(device)
            self.critic = MLP(obs + dim, cfg.hidden, 1, activation=cfg.activation, **many).to(device)
        self.target_critic, self.target_encoder = copy.deepcopy(self.critic), self.encoder.target()
        self.log_alpha = nn.ParameterList([torch.tensor(math.log(cfg.alpha), device=device)])
        self.actor_opt = Optimizer(self.actor, lr=cfg.lr(0))
        self.critic_opt = Optimizer(self.critic, lr=cfg.lr(0))
        self.alpha_opt = Optimizer(self.log_alpha, lr=cfg.lr(0))
        self.target_flat = Flat(self.target_critic)
        self.target_features = None if self.target_encoder is None else Flat(self.target_encoder)
        self.target_entropy = float(-dim if cfg.target_entropy is None else cfg.target_entropy)
        self.feature_opts = [] if features is None else [Optimizer(self.encoder, lr=cfg.lr(0))]
        self.learn = graphed(self._learn, self.generator)
        self.policy_parts: Parts = {
            "encoder": self.encoder,
            "actor": self.actor,
            "critic": self.critic,
            "target_critic": self.target_critic,
            "log_alpha": self.log_alpha,
            **({} if self.target_encoder is None else {"target_encoder": self.target_encoder}),
        }
        self.training_parts: Parts = {
            **dict(zip(("feature_opt",), self.feature_opts, strict=False)),
            "actor_opt": self.actor_opt,
            "critic_opt": self.critic_opt,
            "alpha_opt": self.alpha_opt,
            "generator": self.generator,
        }

    def policy(self, obs: Tensor) -> TanhGaussian:
        """π(·|s) for encoded observations [B, width]."""
        mean, log_std = self.actor(obs).chunk(2, -1)
        return TanhGaussian(mean, log_std.clamp(*LOG_STD))

    def q(self, critic: MLP, obs: Tensor, action: Tensor, frozen: bool = False) -> Tensor:
        """Q(s, a) of every critic [E, B], for encoded observations; `frozen` as in `MLP.forward`."""
        out: Tensor = critic(torch.cat([obs, action], 1), frozen)[..., 0]
        return out

    @property
    def alpha(self) -> Tensor:
        """The entropy coefficient α."""
        log_alpha: Tensor = self.log_alpha[0]
        return log_alpha.detach().exp()

    def judges_actions(self) -> bool:
        """True: SAC has Q(s, a)."""
        return True

    def action_value(self, obs: Tensor, action: Tensor) -> Tensor:
        """The minimum of two critics [B], or the mean of more, as the actor's loss uses them."""
        q = self.q(self.critic, self.encoder(obs), action)
        return q.amin(0) if len(q) <= 2 else q.mean(0)

    @torch.no_grad()
    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        """Actions [N, dim] for obs [N, ...]: samples of the policy, or its mode without `explore`."""
        policy = self.policy(self.encoder(obs))
        return policy.sample(self.generator) if explore else policy.mode()

    @torch.no_grad()
    def soft_target(self, batch: Transition, seen: Tensor) -> Tensor:
        """The target y = R + γᵏ(1 - term)(min Q'(s', a') - α log π(a'|s')), a' ~ π; [B]."""
        action, log_prob = self.policy(batch.next_obs).sample_with_log_prob(self.generator)
        q = self.q(self.target_critic, seen, action)
        if len(q) > 2:
            pair = torch.rand(len(q), generator=self.generator, device=q.device).argsort()[:2]
            q = q[pair]
        return batch.reward + batch.discount * (q.amin(0) - self.alpha * log_prob)

    def update(self, batch: Transition) -> Metrics:
        """Update critics, actor, α and target critics on a batch [B]; return metrics."""
        for opt in (self.actor_opt, self.critic_opt, self.alpha_opt, *self.feature_opts):
            opt.lr = self.cfg.lr(self.progress)
        return {**self.learn(batch), "train/dead_units": lambda: self.dead_units(batch)}

    def dead_units(self, batch: Transition) -> Tensor:
        """The share of dead units in actor or critics, whichever is larger."""
        obs = self.encoder(batch.obs)
        return dead_units((self.actor, obs), (self.critic, torch.cat([obs, batch.action], 1)))

    def _learn(self, batch: Transition) -> dict[str, Tensor]:
        shown = batch.next_obs
        batch = self.encoder.learn(batch)
        seen = batch.next_obs if self.target_encoder is None else self.target_encoder(shown).detach()
        critic_loss = twin_q(self.q(self.critic, batch.obs, batch.action), self.soft_target(batch, seen))
        self.critic_opt.step(critic_loss, *self.feature_opts)
        batch = replace(batch, obs=batch.obs.detach())  # features are learned from the critics' loss alone

        action, log_prob = self.policy(batch.obs).sample_with_log_prob(self.generator)
        q = self.q(self.critic, batch.obs, action, frozen=True)
        value = q.amin(0) if len(q) <= 2 else q.mean(0)
        actor_loss = (self.alpha * log_prob - value).mean()
        self.actor_opt.step(actor_loss)

        entropy = -log_prob.detach().mean()
        if self.cfg.learn_alpha:
            self.alpha_opt.step(temperature(self.log_alpha[0], entropy, self.target_entropy))

        lerp_(self.target_flat, self.critic_opt.flat, self.cfg.tau)
        if self.target_features is not None:
            lerp_(self.target_features, self.feature_opts[0].flat, self.cfg.tau)
        return {
            "train/critic_loss": critic_loss.detach(),
            "train/actor_loss": actor_loss.detach(),
            "train/entropy": entropy,
            "train/ent_coef": self.alpha,
        }
