"""AggreVaTe (Ross and Bagnell 2014): learn from the expert's values of actions, not only from its actions.

Expert and learner share the trajectories as in DAgger. In the visited states a random action is evaluated,
A*(s, a) = Q*(s, a) - V*(s), and the policy is fitted to the evaluations of all iterations. It takes the action with the
highest estimate. So errors that cost nothing are not penalised, and the policy can surpass the expert.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from cairn.core.agent import BaseAgent, Metrics
from cairn.core.checks import Count, Positive, Unit, Widths, validated
from cairn.core.errors import CairnError
from cairn.core.losses import huber_td
from cairn.core.schedules import Mixing, Rate, linear, mixing
from cairn.core.state import Parts
from cairn.core.types import Discrete, Spec
from cairn.nets.cnn import no_images
from cairn.nets.encoder import Encoder
from cairn.nets.mlp import MLP, Activation
from cairn.nets.optim import Optimizer
from cairn.nets.seeding import seeded


@dataclass(frozen=True)
class AggreVaTeConfig:
    """Settings of AggreVaTe."""

    near: ClassVar[float] = 0.0  # critics are trusted for every action

    hidden: Widths = (128, 128)  # units per hidden layer (SB3: policy_kwargs net_arch)
    activation: Activation = "relu"  # activation function of the hidden layers (SB3: policy_kwargs activation_fn)
    lr: Rate = linear(1e-3, 0.0)  # learning rate, a number or a schedule (SB3: learning_rate)
    batch_size: Count = 256  # minibatch size in states (SB3: batch_size)
    updates_per_step: Positive = 0.5  # gradient steps per environment step (SB3: gradient_steps / train_freq)
    max_norm: Positive = 10.0  # largest norm of a gradient; longer ones are scaled down (SB3: max_grad_norm)
    normalise: bool = True  # normalise observations and goals by running mean and std (SB3: VecNormalize)
    relative_goals: bool = False  # observe the goal as its displacement from the achieved goal
    values: Literal["critics", "rollouts"] = "critics"  # source of Q*: its critics, or rollouts
    judged: Count = 128  # states per iteration evaluated by rollouts, where values is rollouts
    gamma: Unit = 0.99  # discount factor γ of those rollouts
    mixing: Mixing = "exponential"  # share αₙ of expert episodes in iteration n: α₀dⁿ, α₀/(n+1), α₀ max(0, 1 - n(1-d))
    alpha_start: Unit = 1.0  # initial share α₀ of episodes played by the expert
    alpha_decay: Unit = 0.9  # decay d of the share of expert episodes, per iteration


class AggreVaTe(BaseAgent):
    """Â(s, ·), fitted to every A*(s, a) so far; π(s) = argmax Â(s, ·)."""

    def __init__(self, cfg: AggreVaTeConfig, spec: Spec, *, seed: int = 0, device: str = "cpu") -> None:
        if not isinstance(spec.action, Discrete):
            raise CairnError("AggreVaTe acts in discrete action spaces only; use aggrevated for this task.")
        no_images(spec, "AggreVaTe")
        self.cfg = cfg = validated(cfg, "agent.")
        self.spec, self.progress = spec, 0.0
        self.encoder = Encoder(spec, normalise=cfg.normalise, relative_goals=cfg.relative_goals).to(device)
        with seeded(seed):
            self.net = MLP(self.encoder.width, cfg.hidden, spec.action.n, activation=cfg.activation).to(device)
        self.opt = Optimizer(self.net, lr=cfg.lr(0), max_norm=cfg.max_norm)
        self.generator = torch.Generator(device).manual_seed(seed)
        self.counts = torch.zeros(2, dtype=torch.int64)  # iterations, queries to the expert
        self.policy_parts: Parts = {"encoder": self.encoder, "net": self.net}
        self.training_parts: Parts = {"opt": self.opt, "generator": self.generator, "counts": self.counts}

    @property
    def alpha(self) -> float:
        """αₙ, the expert's share of trajectories in this iteration."""
        cfg = self.cfg
        return mixing(cfg.mixing, int(self.counts[0]), start=cfg.alpha_start, decay=cfg.alpha_decay)

    @torch.no_grad()
    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        """The actions argmax Â(s, ·) [N] for obs [N, ...]; the policy is deterministic, also with `explore`."""
        best: Tensor = self.net(self.encoder(obs)).argmax(-1)
        return best

    def drawn(self, obs: Tensor) -> Tensor:
        """Uniformly random actions [B] for obs [B, ...], to be evaluated."""
        count = int(self.net.stack[-1][1].numel())
        return torch.randint(count, (len(obs),), generator=self.generator, device=obs.device)

    def update(self, obs: Tensor, action: Tensor, advantage: Tensor) -> Metrics:
        """Take one gradient step: obs [B, ...], action [B], A* [B]. Return metrics."""
        guess = self.net(self.encoder.learn_obs(obs)).gather(1, action[:, None])[:, 0]
        loss = huber_td(guess, advantage)
        self.opt.lr = self.cfg.lr(self.progress)
        self.opt.step(loss)
        return {"train/loss": loss.detach()}
