"""Advantage actor-critic, synchronous (Mnih et al. 2016): one gradient step per short rollout of many environments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cairn.core.agent import BaseAgent, Metrics
from cairn.core.checks import Count, NonNegative, Positive, Unit, Widths, validated
from cairn.core.returns import gae
from cairn.core.schedules import Rate, constant
from cairn.core.state import Parts
from cairn.core.types import Rollout, Spec
from cairn.nets.actor_critic import ActorCritic, following
from cairn.nets.cnn import Vision
from cairn.nets.graphs import graphed
from cairn.nets.health import critic_diagnostics
from cairn.nets.mlp import Activation
from cairn.nets.optim import Optimizer
from cairn.nets.seeding import seeded


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


class A2C(BaseAgent):
    """∇ log π(a|s) A with A from the critic, and the critic by regression on A + V."""

    def __init__(self, cfg: A2CConfig, spec: Spec, *, seed: int = 0, device: str = "cpu") -> None:
        self.cfg = cfg = validated(cfg, "agent.")
        self.spec, self.progress = spec, 0.0
        self.horizon = cfg.horizon
        shape: Any = {"activation": cfg.activation, "log_std": cfg.log_std, "cnn": cfg.cnn, "bf16": cfg.bf16}
        with seeded(seed):
            self.net = ActorCritic(spec, cfg.hidden, normalise=cfg.normalise_obs, **shape).to(device)
        self.opt = Optimizer(self.net, lr=cfg.lr(0), eps=1e-5, max_norm=cfg.max_norm, rmsprop=cfg.rmsprop)
        self.generator = torch.Generator(device).manual_seed(seed)
        self.acting = graphed(self.net.act, self.generator)
        self.learn = graphed(self._learn, self.generator)
        self.policy_parts: Parts = {"net": self.net}
        self.training_parts: Parts = {"opt": self.opt, "generator": self.generator}

    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        return self.acting([obs], explore, self.generator)

    def update(self, rollout: Rollout) -> Metrics:
        self.opt.lr = self.cfg.lr(self.progress)
        given = rollout.obs, rollout.action, rollout.reward, rollout.terminated, rollout.truncated, rollout.valid
        weight = self.opt.knob(self.cfg.entropy_weight(self.progress))
        metrics, value, target = self.learn([*given, *self.net.after(rollout), weight])
        if self.net.normalizer is not None:
            self.net.normalizer.update(rollout.obs[rollout.valid])
        seen = self.net.normalise(rollout.obs).flatten(0, 1)  # fillers too: to leave them out would wait for a GPU
        return {**metrics, **critic_diagnostics(self.net, seen, value, target)}

    def _learn(self, batch: list[Any]) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        """What is told of the step, and V and its target [T, N]."""
        obs, action, reward, terminated, truncated, valid, apart, after, entropy_weight = batch
        policy, value = self.net(self.net.normalise(obs).flatten(0, 1))
        known = value.detach().view_as(reward)
        ends = following(known, apart, after), terminated, truncated
        advantage = gae(reward, known, *ends, gamma=self.cfg.gamma, lam=self.cfg.lam)
        returns = advantage + known
        target, advantage, share = (x.flatten() for x in (returns, advantage, valid / valid.sum()))
        if self.cfg.normalise_advantage:
            centred = advantage - (share * advantage).sum()
            advantage = centred / ((share * centred.square()).sum().sqrt() + 1e-8)
        policy_loss = -(share * policy.log_prob(action.flatten(0, 1)) * advantage).sum()
        value_loss = (share * (value - target).square()).sum()
        entropy = (share * policy.entropy()).sum()
        self.opt.step(policy_loss + self.cfg.value_weight * value_loss - entropy_weight * entropy)
        told = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
        return {f"train/{name}": x.detach() for name, x in told.items()}, known, returns
