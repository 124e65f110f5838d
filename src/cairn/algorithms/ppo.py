"""Proximal policy optimisation (Schulman et al. 2017) with generalised advantages (Schulman et al. 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from cairn.core.agent import BaseAgent, Metrics
from cairn.core.checks import Count, NonNegative, Positive, Unit, Widths, validated
from cairn.core.learners import average_, part_of, standardised
from cairn.core.losses import clipped_surrogate, clipped_value
from cairn.core.returns import gae
from cairn.core.schedules import Rate, constant
from cairn.core.state import Parts
from cairn.core.types import Rollout, Spec
from cairn.nets.cnn import Vision
from cairn.nets.graphs import graphed
from cairn.nets.health import critic_diagnostics
from cairn.nets.mlp import Activation
from cairn.nets.normalizer import ReturnScale
from cairn.nets.optim import Optimizer
from cairn.nets.own import NONE, Own
from cairn.nets.recurrent import MemoryKind, RecurrentMemory
from cairn.nets.remembering import actor_critic
from cairn.nets.seeding import seeded


@dataclass(frozen=True)
class PPOConfig:
    """Settings of PPO."""

    plain_gradient: ClassVar[bool] = False  # clips the policy gradient

    hidden: Widths = (64, 64)  # units per hidden layer; images pass through `cnn` first (SB3: policy_kwargs net_arch)
    activation: Activation = "tanh"  # activation function of the hidden layers (SB3: policy_kwargs activation_fn)
    lr: Rate = constant(3e-4)  # learning rate, a number or a schedule (SB3: learning_rate)
    horizon: Count = 2048  # steps per environment in one rollout (SB3: n_steps)
    epochs: Count = 10  # passes over each rollout (SB3: n_epochs)
    batch_size: Count = 64  # minibatch size in transitions (SB3: batch_size)
    gamma: Unit = 0.99  # discount factor γ (SB3: gamma)
    lam: Unit = 0.95  # λ of generalised advantage estimation (SB3: gae_lambda)
    clip: Rate = constant(0.2)  # clip range ε of the probability ratio, a number or a schedule (SB3: clip_range)
    value_clip: Positive | None = None  # clip range of the value update; None: not clipped (SB3: clip_range_vf)
    value_weight: NonNegative = 0.5  # weight c₁ of the value loss (SB3: vf_coef)
    entropy_weight: Rate = constant(0.0)  # weight c₂ of the entropy bonus, number or schedule (SB3: ent_coef)
    target_kl: Positive | None = None  # end the epochs once KL(old ‖ new) exceeds 1.5 times this (SB3: target_kl)
    max_norm: Positive = 0.5  # largest norm of a gradient; longer ones are scaled down (SB3: max_grad_norm)
    log_std: float = 0.0  # log of the initial std of continuous actions (SB3: policy_kwargs log_std_init)
    normalise_obs: bool = False  # normalise observations by running mean and std (SB3: VecNormalize norm_obs)
    clip_obs: Positive = 10.0  # normalised observations are clipped to ± this (SB3: VecNormalize clip_obs)
    normalise_reward: bool = False  # divide rewards by the running std of the return (SB3: VecNormalize norm_reward)
    cnn: Vision = "nature"  # network that reads images: nature (Mnih et al. 2015) or impala (ResNet)
    bf16: bool = False  # compute convolutions in bfloat16: faster on processors that support it
    memory: MemoryKind = "none"  # remember earlier observations: gru or lstm (sb3-contrib: RecurrentPPO); none: do not
    memory_size: Count = 128  # units of the memory (sb3-contrib: policy_kwargs lstm_hidden_size)
    sequence: Count = 32  # with memory: length in steps of the sequences for truncated backpropagation through time


class PPO(BaseAgent):
    """Maximises E min(ρA, clip(ρ)A) - c₁(V - R)² + c₂H over a few epochs of each rollout."""

    def __init__(self, cfg: PPOConfig, spec: Spec, *, seed: int = 0, device: str = "cpu", own: Own = NONE) -> None:
        self.cfg = cfg = validated(cfg, "agent.")
        self.spec, self.progress, self.horizon = spec, 0.0, cfg.horizon
        self.own, self.length = own, 1 if cfg.memory == "none" else min(cfg.sequence, cfg.horizon)
        shape: Any = {"own": own, "activation": cfg.activation, "log_std": cfg.log_std}
        shape |= {"cnn": cfg.cnn, "bf16": cfg.bf16, "normalise": cfg.normalise_obs, "clip": cfg.clip_obs}
        with seeded(seed):
            self.net = actor_critic(spec, cfg.hidden, cfg.memory, cfg.memory_size, self.length, **shape).to(device)
        self.core = self.net.core
        self.opt = Optimizer(self.net, lr=cfg.lr(0), eps=1e-5, max_norm=cfg.max_norm)
        self.returns = ReturnScale(cfg.gamma).to(device)
        self.generator = torch.Generator(device).manual_seed(seed)
        self.acting, self.learn = graphed(self.net.act, self.generator), graphed(self._learn, self.generator)
        self.policy_parts: Parts = {"net": self.net}
        self.training_parts: Parts = {"opt": self.opt, "returns": self.returns, "generator": self.generator}

    def act(self, obs: Tensor, *, explore: bool, memory: RecurrentMemory | None = None) -> Tensor:
        if memory is None:
            return self.acting([obs], explore, self.generator)
        return memory.through(self.acting, obs, explore, self.generator)

    @torch.no_grad()
    def prepare(self, rollout: Rollout) -> list[Tensor]:
        """The valid steps of a rollout as flat tensors [B, ...]: obs, action, log π_old, A, V_old, R."""
        # One pass after collecting is exact: observation statistics change only after the update.
        obs = self.net.normalise(rollout.obs)
        reward = self.returns(rollout) if self.cfg.normalise_reward else rollout.reward
        known = [] if rollout.state is None else [rollout.state.flatten(0, 1)]
        policy, value = self.net(obs.flatten(0, 1), *known)
        log_prob = policy.log_prob(rollout.action.flatten(0, 1)).view_as(reward)
        value = value.view_as(reward)
        after = self.net.next_values(rollout, value), rollout.terminated, rollout.truncated
        advantage = gae(reward, value, *after, gamma=self.cfg.gamma, lam=self.cfg.lam)
        return [x[rollout.valid] for x in (obs, rollout.action, log_prob, advantage, value, advantage + value)]

    def _learn(self, batch: list[Any]) -> dict[str, Tensor]:
        *rows, clip, entropy_weight = batch
        policy, value, (action, old_log_prob, advantage, old_value, target) = self.net.judge(rows)
        log_ratio = policy.log_prob(action) - old_log_prob
        ratio = log_ratio.exp()
        policy_loss = clipped_surrogate(ratio, standardised(advantage), clip)
        if self.cfg.value_clip is None:
            value_loss = (value - target).square().mean()
        else:
            value_loss = clipped_value(value, old_value, target, self.cfg.value_clip)
        entropy = policy.entropy().mean()
        loss = policy_loss + self.cfg.value_weight * value_loss - entropy_weight * entropy
        self.opt.step(loss)
        kl = (ratio - 1 - log_ratio).detach().mean()  # Schulman's estimator: unbiased and never negative
        told = {"policy_gradient_loss": policy_loss, "value_loss": value_loss, "entropy": entropy, "approx_kl": kl}
        return {f"train/{name}": x.detach() for name, x in told.items()}

    def update(self, rollout: Rollout) -> Metrics:
        fields = self.prepare(rollout)
        self.opt.lr = self.cfg.lr(self.progress)
        drawn = self.net.drawn(fields, rollout)
        count, size, metrics = len(drawn[0]), max(part_of(self.cfg.batch_size) // self.length, 1), dict[str, Tensor]()
        weights = [self.opt.knob(x(self.progress)) for x in (self.cfg.clip, self.cfg.entropy_weight)]
        for _ in range(self.cfg.epochs):
            order = torch.randperm(count, generator=self.generator, device=fields[0].device)
            shuffled = [x[order] for x in drawn]
            for start in range(0, max(count - size // 2, 1), size):
                learn = self.learn if start + size <= count else self._learn  # graphs need full batches
                metrics = learn([*(x[start : start + size] for x in shuffled), *weights])
            if self.cfg.target_kl is not None and average_(metrics["train/approx_kl"]) > 1.5 * self.cfg.target_kl:
                break
        self.net.observe(rollout)
        return {**metrics, **critic_diagnostics(self.net, fields[0], *fields[4:])}
