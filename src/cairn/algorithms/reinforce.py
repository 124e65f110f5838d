"""REINFORCE (Williams 1992): whole episodes, reward-to-go, a baseline of choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from cairn.core.agent import BaseAgent, Metrics
from cairn.core.checks import Natural, NonNegative, Positive, Unit, Widths, validated
from cairn.core.losses import policy_gradient
from cairn.core.returns import discounted
from cairn.core.schedules import Rate, constant
from cairn.core.state import Parts
from cairn.core.types import Rollout, Spec
from cairn.nets.actor_critic import ActorCritic
from cairn.nets.health import critic_diagnostics
from cairn.nets.mlp import Activation
from cairn.nets.optim import Optimizer
from cairn.nets.seeding import seeded


@dataclass(frozen=True)
class ReinforceConfig:
    plain_gradient: ClassVar[bool] = True  # of log π(a|s) A, without clipping

    hidden: Widths = (64, 64)  # units per hidden layer (SB3: policy_kwargs net_arch)
    activation: Activation = "tanh"  # activation function of the hidden layers (SB3: policy_kwargs activation_fn)
    lr: Rate = constant(1e-3)  # learning rate, a number or a schedule (SB3: learning_rate)
    gamma: Unit = 0.99  # discount factor γ (SB3: gamma)
    batch_size: Natural = 0  # minibatch size in steps, one pass; 0: the whole rollout in one gradient step
    baseline: Literal["none", "mean", "value"] = "value"  # b(s): none, mean return of the batch, learned V(s)
    normalise_advantage: bool = True  # scale the advantages of a batch to mean 0 and std 1 (SB3: normalize_advantage)
    value_weight: NonNegative = 0.5  # weight of the value loss (SB3: vf_coef)
    entropy_weight: Rate = constant(0.0)  # weight of the entropy bonus, a number or a schedule (SB3: ent_coef)
    max_norm: Positive = 0.5  # largest norm of a gradient; longer ones are scaled down (SB3: max_grad_norm)
    log_std: float = 0.0  # log of the initial std of continuous actions (SB3: policy_kwargs log_std_init)
    normalise_obs: bool = False  # normalise observations by running mean and std (SB3: VecNormalize norm_obs)


class Reinforce(BaseAgent):
    """∇ log π(aₜ|sₜ)(Gₜ - b(sₜ)) over a batch of episodes, one an environment, each step of which counts once.

    Where V is learned an episode cut by its time limit bootstraps from it; without V its return ends there.
    """

    horizon = 0  # whole episodes

    def __init__(self, cfg: ReinforceConfig, spec: Spec, *, seed: int = 0, device: str = "cpu") -> None:
        self.cfg = cfg = validated(cfg, "agent.")
        self.spec, self.progress = spec, 0.0
        shape: Any = {"activation": cfg.activation, "log_std": cfg.log_std, "normalise": cfg.normalise_obs}
        with seeded(seed):
            self.net = ActorCritic(spec, cfg.hidden, **shape).to(device)
        self.opt = Optimizer(self.net, lr=cfg.lr(0), max_norm=cfg.max_norm)
        self.generator = torch.Generator(device).manual_seed(seed)
        self.policy_parts: Parts = {"net": self.net}
        self.training_parts: Parts = {"opt": self.opt, "generator": self.generator}

    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        return self.net.act([obs], explore, self.generator)

    def reward_to_go(self, rollout: Rollout, value: Tensor) -> Tensor:
        """Gₜ [T, N]."""
        learned = self.cfg.baseline == "value"
        last_value = self.net.next_values(rollout, value) if learned else torch.zeros_like(value)
        ends = rollout.terminated, rollout.truncated
        return discounted(rollout.reward, *ends, last_value, gamma=self.cfg.gamma)

    def update(self, rollout: Rollout) -> Metrics:
        obs = self.net.normalise(rollout.obs)
        with torch.no_grad():
            value = self.net.value(obs.flatten(0, 1)).view_as(rollout.reward)
            target = self.reward_to_go(rollout, value)
        kept = rollout.valid
        obs, action, target, value = obs[kept], rollout.action[kept], target[kept], value[kept]
        baseline = {"none": torch.zeros_like(target), "mean": target.mean(), "value": value}
        advantage = target - baseline[self.cfg.baseline]
        if self.cfg.normalise_advantage:
            advantage = advantage / (advantage.std(correction=0) + 1e-8)
        self.opt.lr = self.cfg.lr(self.progress)
        fields, metrics = [obs, action, target, advantage], dict[str, Tensor]()
        if self.cfg.batch_size == 0:
            metrics = self._learn(*fields)
        else:
            order = torch.randperm(len(obs), generator=self.generator, device=obs.device)
            for start in range(0, len(order), self.cfg.batch_size):
                part = order[start : start + self.cfg.batch_size]
                metrics = self._learn(*(x[part] for x in fields))
        if self.net.normalizer is not None:
            self.net.normalizer.update(rollout.obs[rollout.valid])
        return (
            {**metrics, **critic_diagnostics(self.net, obs, value, target)} if self.cfg.baseline == "value" else metrics
        )

    def _learn(self, obs: Tensor, action: Tensor, target: Tensor, advantage: Tensor) -> dict[str, Tensor]:
        """One step of the gradient."""
        policy, value = self.net(obs)
        policy_loss = policy_gradient(policy.log_prob(action), advantage)
        value_loss = (value - target).square().mean() if self.cfg.baseline == "value" else torch.zeros(())
        entropy = policy.entropy().mean()
        loss = policy_loss + self.cfg.value_weight * value_loss
        self.opt.step(loss - self.cfg.entropy_weight(self.progress) * entropy)
        told = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
        return {f"train/{name}": x.detach() for name, x in told.items()}
