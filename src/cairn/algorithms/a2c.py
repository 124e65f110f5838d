"""Synchronous advantage actor-critic (Mnih et al. 2016): one gradient step per short rollout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cairn.core.agent import BaseAgent, Metrics
from cairn.core.checks import Count, NonNegative, Positive, Unit, Widths, validated
from cairn.core.learners import average_
from cairn.core.returns import gae
from cairn.core.schedules import Rate, constant
from cairn.core.state import Parts
from cairn.core.types import Rollout, Spec
from cairn.nets.actor_critic import following
from cairn.nets.cnn import Vision
from cairn.nets.graphs import graphed
from cairn.nets.health import critic_diagnostics
from cairn.nets.mlp import Activation
from cairn.nets.optim import Optimizer
from cairn.nets.own import NONE, Own
from cairn.nets.recurrent import MemoryKind, RecurrentMemory, starts
from cairn.nets.remembering import Remembering, actor_critic
from cairn.nets.seeding import seeded


@dataclass(frozen=True)
class A2CConfig:
    """Settings of A2C."""

    hidden: Widths = (64, 64)  # units per hidden layer; images pass through `cnn` first (SB3: policy_kwargs net_arch)
    activation: Activation = "tanh"  # activation function of the hidden layers (SB3: policy_kwargs activation_fn)
    lr: Rate = constant(7e-4)  # learning rate, a number or a schedule (SB3: learning_rate)
    horizon: Count = 5  # steps per environment in one rollout (SB3: n_steps)
    gamma: Unit = 0.99  # discount factor γ (SB3: gamma)
    lam: Unit = 1.0  # λ of generalised advantage estimation; 1: the paper's T-step return (SB3: gae_lambda)
    value_weight: NonNegative = 0.5  # weight of the value loss (SB3: vf_coef)
    entropy_weight: Rate = constant(0.0)  # weight of the entropy bonus, a number or a schedule (SB3: ent_coef)
    max_norm: Positive = 0.5  # largest norm of a gradient; longer ones are scaled down (SB3: max_grad_norm)
    rmsprop: bool = True  # use RMSprop as in the paper instead of Adam (SB3: use_rms_prop)
    normalise_advantage: bool = False  # scale the advantages of a batch to mean 0 and std 1 (SB3: normalize_advantage)
    normalise_obs: bool = False  # normalise observations by running mean and std (SB3: VecNormalize norm_obs)
    clip_obs: Positive = 10.0  # normalised observations are clipped to ± this (SB3: VecNormalize clip_obs)
    log_std: float = 0.0  # log of the initial std of continuous actions (SB3: policy_kwargs log_std_init)
    cnn: Vision = "nature"  # network that reads images: nature (Mnih et al. 2015) or impala (ResNet)
    bf16: bool = False  # compute convolutions in bfloat16: faster on processors that support it
    memory: MemoryKind = "none"  # remember earlier observations: gru or lstm (sb3-contrib: RecurrentPPO); none: do not
    memory_size: Count = 128  # units of the memory (sb3-contrib: policy_kwargs lstm_hidden_size)


class A2C(BaseAgent):
    """Policy gradient ∇ log π(a|s) A, where the critic gives A; the critic is fitted to A + V."""

    def __init__(self, cfg: A2CConfig, spec: Spec, *, seed: int = 0, device: str = "cpu", own: Own = NONE) -> None:
        self.cfg = cfg = validated(cfg, "agent.")
        self.spec, self.progress = spec, 0.0
        self.horizon = cfg.horizon
        self.own = own
        shape: Any = {"own": own, "activation": cfg.activation, "log_std": cfg.log_std}
        shape |= {"cnn": cfg.cnn, "bf16": cfg.bf16, "normalise": cfg.normalise_obs, "clip": cfg.clip_obs}
        with seeded(seed):
            self.net = actor_critic(spec, cfg.hidden, cfg.memory, cfg.memory_size, **shape).to(device)
        self.core = self.net.core
        self.opt = Optimizer(self.net, lr=cfg.lr(0), eps=1e-5, max_norm=cfg.max_norm, rmsprop=cfg.rmsprop)
        self.generator = torch.Generator(device).manual_seed(seed)
        self.acting = graphed(self.net.act, self.generator)
        self.learn = graphed(self._learn, self.generator)
        self.policy_parts: Parts = {"net": self.net}
        self.training_parts: Parts = {"opt": self.opt, "generator": self.generator}

    def act(self, obs: Tensor, *, explore: bool, memory: RecurrentMemory | None = None) -> Tensor:
        """Actions [N] or [N, dim] for obs [N, ...]: samples of the policy, or its mode without `explore`."""
        if memory is None:
            return self.acting([obs], explore, self.generator)
        return memory.through(self.acting, obs, explore, self.generator)

    def update(self, rollout: Rollout) -> Metrics:
        """Take one gradient step on a rollout [T, N]; return metrics."""
        self.opt.lr = self.cfg.lr(self.progress)
        given = rollout.obs, rollout.action, rollout.reward, rollout.terminated, rollout.truncated, rollout.valid
        weight = self.opt.knob(self.cfg.entropy_weight(self.progress))
        memory = [] if rollout.state is None else [rollout.state[0], starts(rollout)]
        metrics, value, target = self.learn([*given, *self.net.after(rollout), *memory, weight])
        self.net.observe(rollout)
        seen = self.net.normalise(rollout.obs).flatten(0, 1)  # invalid steps too: a mask would have to wait for the GPU
        return {**metrics, **critic_diagnostics(self.net, seen, value, target)}

    def _learn(self, batch: list[Any]) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        """Metrics of the step, V [T, N] and its target [T, N]."""
        obs, action, reward, terminated, truncated, valid, apart, after, *memory, entropy_weight = batch
        seen = self.net.normalise(obs)
        if memory:
            assert isinstance(self.net, Remembering)  # no other network has states
            policy, value = self.net.unroll(seen, *memory)
        else:
            policy, value = self.net(seen.flatten(0, 1))
        known = value.detach().view_as(reward)
        ends = following(known, apart, after), terminated, truncated
        advantage = gae(reward, known, *ends, gamma=self.cfg.gamma, lam=self.cfg.lam)
        returns = advantage + known
        target, advantage, share = (x.flatten() for x in (returns, advantage, valid / valid.sum()))
        if self.cfg.normalise_advantage:
            centred = advantage - average_((share * advantage).sum())
            advantage = centred / (average_((share * centred.square()).sum()).sqrt() + 1e-8)
        policy_loss = -(share * policy.log_prob(action.flatten(0, 1)) * advantage).sum()
        value_loss = (share * (value - target).square()).sum()
        entropy = (share * policy.entropy()).sum()
        self.opt.step(policy_loss + self.cfg.value_weight * value_loss - entropy_weight * entropy)
        told = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
        return {f"train/{name}": x.detach() for name, x in told.items()}, known, returns
