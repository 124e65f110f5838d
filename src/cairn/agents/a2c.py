"""Advantage actor-critic, synchronous (Mnih et al. 2016): one gradient step per short rollout of many environments."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cairn.agents.base import Metrics
from cairn.core.checks import Count, NonNegative, Positive, Unit, Widths, validated
from cairn.core.losses import policy_gradient
from cairn.core.returns import gae
from cairn.core.schedules import Rate, constant
from cairn.core.types import Rollout, Spec
from cairn.nets.actor_critic import ActorCritic
from cairn.nets.cnn import Vision
from cairn.nets.health import insight
from cairn.nets.mlp import Activation
from cairn.nets.optim import Optimizer
from cairn.nets.state import Parts


@dataclass(frozen=True)
class A2CConfig:
    hidden: Widths = (64, 64)  # units of each layer; images have a network of their own
    activation: Activation = "tanh"
    lr: Rate = constant(7e-4)
    horizon: Count = 5  # T: steps of each environment in a rollout
    gamma: Unit = 0.99  # γ
    lam: Unit = 1.0  # λ; 1 is the paper's T-step return
    value_weight: NonNegative = 0.5
    entropy_weight: Rate = constant(0.0)
    max_norm: Positive = 0.5
    rmsprop: bool = True  # the paper's optimiser; else Adam
    normalise_advantage: bool = False
    normalise_obs: bool = False
    log_std: float = 0.0
    cnn: Vision = "nature"  # what reads images
    bf16: bool = False  # convolutions in half precision: faster where the processor knows it


class A2C:
    """∇ log π(a|s) A with A from the critic, and the critic by regression on A + V."""

    def __init__(self, cfg: A2CConfig, spec: Spec, *, seed: int = 0, device: str = "cpu") -> None:
        self.cfg, self.spec, self.progress = validated(cfg, "agent."), spec, 0.0
        self.horizon = cfg.horizon
        torch.manual_seed(seed)
        self.net = ActorCritic(
            spec,
            cfg.hidden,
            activation=cfg.activation,
            log_std=cfg.log_std,
            normalise=cfg.normalise_obs,
            cnn=cfg.cnn,
            bf16=cfg.bf16,
        ).to(device)
        self.opt = Optimizer(self.net, lr=cfg.lr(0), eps=1e-5, max_norm=cfg.max_norm, rmsprop=cfg.rmsprop)
        self.generator = torch.Generator(device).manual_seed(seed)
        self.policy_parts: Parts = {"net": self.net}
        self.training_parts: Parts = {"opt": self.opt, "generator": self.generator}

    @torch.no_grad()
    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        policy = self.net.policy(self.net.normalise(obs))
        return policy.sample(self.generator) if explore else policy.mode()

    def update(self, rollout: Rollout) -> Metrics:
        obs = self.net.normalise(rollout.obs)
        policy, value = self.net(obs.flatten(0, 1))
        known = value.detach().view_as(rollout.reward)
        next_value = self.net.next_values(rollout, known)
        ends = rollout.terminated, rollout.truncated
        advantage = gae(rollout.reward, known, next_value, *ends, gamma=self.cfg.gamma, lam=self.cfg.lam)
        target, advantage = (advantage + known)[rollout.valid], advantage[rollout.valid]
        if self.cfg.normalise_advantage:
            advantage = (advantage - advantage.mean()) / (advantage.std(correction=0) + 1e-8)
        valid = rollout.valid.flatten()
        policy_loss = policy_gradient(policy.log_prob(rollout.action.flatten(0, 1))[valid], advantage)
        value_loss = (value[valid] - target).square().mean()
        entropy = policy.entropy()[valid].mean()
        loss = policy_loss + self.cfg.value_weight * value_loss
        loss = loss - self.cfg.entropy_weight(self.progress) * entropy
        self.opt.lr = self.cfg.lr(self.progress)
        self.opt.step(loss)
        if self.net.normalizer is not None:
            self.net.normalizer.update(rollout.obs[rollout.valid])
        return {
            "train/policy_loss": policy_loss.detach(),
            "train/value_loss": value_loss.detach(),
            "train/entropy": entropy.detach(),
            **insight(self.net, obs.flatten(0, 1), known[rollout.valid], target),
        }
