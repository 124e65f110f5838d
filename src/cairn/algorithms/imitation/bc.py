"""Behavioural cloning: supervised learning of an expert's actions.

With `noise` the training data is that of DART (Laskey et al. 2017): the expert executes its actions with noise, and the
actions without noise are learned. So the data shows how to recover from small mistakes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cairn.core.agent import BaseAgent, Metrics
from cairn.core.checks import Count, Natural, NonNegative, Positive, Widths, validated
from cairn.core.composite_actions import discrete_or_box
from cairn.core.errors import CairnError
from cairn.core.schedules import Rate, linear
from cairn.core.state import Parts
from cairn.core.types import Box, Discrete, Spec
from cairn.nets.cnn import NatureCNN, no_parts, sees_images
from cairn.nets.encoder import Encoder
from cairn.nets.heads import Categorical
from cairn.nets.mlp import MLP, Activation
from cairn.nets.optim import Optimizer
from cairn.nets.seeding import seeded


@dataclass(frozen=True)
class BCConfig:
    """Settings of behavioural cloning."""

    hidden: Widths = (256, 256)  # units per hidden layer (SB3: policy_kwargs net_arch)
    activation: Activation = "relu"  # activation function of the hidden layers (SB3: policy_kwargs activation_fn)
    lr: Rate = linear(1e-3, 0.0)  # learning rate, a number or a schedule (SB3: learning_rate)
    batch_size: Count = 256  # minibatch size in state-action pairs (SB3: batch_size)
    updates_per_step: Positive = 1.0  # gradient steps per expert step; with demos alone one step is one gradient step
    noise: NonNegative = 0.0  # std of Gaussian noise on actions the expert executes; the labels stay without noise
    cut: Natural = 0  # largest episode length in steps, drawn uniformly from 1 to this for each episode; 0: no limit
    max_norm: Positive = 1.0  # largest norm of a gradient; longer ones are scaled down (SB3: max_grad_norm)
    normalise: bool = True  # normalise observations and goals by running mean and std (SB3: VecNormalize)
    relative_goals: bool = False  # observe the goal as its displacement from the achieved goal


class BC(BaseAgent):
    """Least squares ½‖a* - π(s)‖² with π(s) = tanh f(s), or -log π(a*|s) for discrete actions.

    For continuous actions the policy is deterministic. Unbounded actions are learned without the tanh.
    """

    def __init__(self, cfg: BCConfig, spec: Spec, *, seed: int = 0, device: str = "cpu") -> None:
        self.cfg = cfg = validated(cfg, "agent.")
        self.spec, self.progress, self.cloning = spec, 0.0, cfg
        no_parts(spec, "bc")
        action = discrete_or_box(spec.action, "bc")
        self.discrete = isinstance(action, Discrete)
        if cfg.noise and self.discrete:
            raise CairnError("agent.noise is for continuous actions, and this task's are discrete: set it to 0.")
        self.bounded = isinstance(action, Box) and action.bounded
        width = action.outputs
        images = sees_images(spec)
        seen: Any = {"normalise": cfg.normalise and not images, "relative_goals": cfg.relative_goals}
        self.encoder = Encoder(spec, raw=images, **seen).to(device)
        seen_width, kind = self.encoder.width, cfg.activation
        with seeded(seed):
            actor = NatureCNN(spec, width) if images else MLP(seen_width, cfg.hidden, width, activation=kind)
        self.actor: nn.Module = actor.to(device)
        self.opt = Optimizer(self.actor, lr=cfg.lr(0), max_norm=cfg.max_norm)
        self.generator = torch.Generator(device).manual_seed(seed)
        self.counts = torch.zeros(2, dtype=torch.int64)  # iterations, queries to the expert
        self.policy_parts: Parts = {"encoder": self.encoder, "actor": self.actor}
        self.training_parts: Parts = {"opt": self.opt, "generator": self.generator, "counts": self.counts}

    @property
    def alpha(self) -> float:
        """1: the expert plays every trajectory."""
        return 1.0

    def out(self, encoded: Tensor) -> Tensor:
        """Logits [B, n], or the action [B, dim]."""
        out: Tensor = self.actor(encoded)
        return out.tanh() if self.bounded else out

    @torch.no_grad()
    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        """Actions [N] or [N, dim] for obs [N, ...]; `explore` samples discrete ones."""
        out = self.out(self.encoder(obs))
        if not self.discrete:
            return out
        return Categorical(out).sample(self.generator) if explore else out.argmax(-1)

    def update(self, obs: Tensor, action: Tensor) -> Metrics:
        """Take one gradient step towards the expert's actions: obs [B, ...], action [B] or [B, dim]. Return metrics."""
        out = self.out(self.encoder.learn_obs(obs))
        loss = F.cross_entropy(out, action) if self.discrete else 0.5 * (out - action).square().sum(-1).mean()
        self.opt.lr = self.cfg.lr(self.progress)
        self.opt.step(loss)
        return {"train/loss": loss.detach()}
