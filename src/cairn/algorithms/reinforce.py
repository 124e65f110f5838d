"""REINFORCE (Williams 1992): whole episodes, reward-to-go, and a choice of baselines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from cairn.core.agent import BaseAgent, Metrics
from cairn.core.checks import Count, Natural, NonNegative, Positive, Unit, Widths, validated
from cairn.core.errors import CairnError
from cairn.core.losses import policy_gradient
from cairn.core.returns import discounted
from cairn.core.schedules import Rate, constant
from cairn.core.state import Parts
from cairn.core.types import Rollout, Spec
from cairn.nets.heads import Distribution
from cairn.nets.health import critic_diagnostics
from cairn.nets.mlp import Activation
from cairn.nets.optim import Optimizer
from cairn.nets.own import NONE, Own
from cairn.nets.recurrent import MemoryKind, RecurrentMemory, starts
from cairn.nets.remembering import Remembering, actor_critic
from cairn.nets.seeding import seeded


@dataclass(frozen=True)
class ReinforceConfig:
    """Settings of REINFORCE."""

    plain_gradient: ClassVar[bool] = True  # does not clip the policy gradient

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
    memory: MemoryKind = "none"  # remember earlier observations: gru or lstm (sb3-contrib: RecurrentPPO); none: do not
    memory_size: Count = 128  # units of the memory (sb3-contrib: policy_kwargs lstm_hidden_size)


class Reinforce(BaseAgent):
    """∇ log π(aₜ|sₜ)(Gₜ - b(sₜ)) over one episode per environment; every step has the same weight.

    A truncated episode bootstraps from V if V is learned; otherwise its return ends there.
    """

    horizon = 0  # whole episodes

    def __init__(
        self, cfg: ReinforceConfig, spec: Spec, *, seed: int = 0, device: str = "cpu", own: Own = NONE
    ) -> None:
        self.cfg = cfg = validated(cfg, "agent.")
        self.spec, self.progress = spec, 0.0
        if cfg.memory != "none" and cfg.batch_size:
            raise CairnError(
                f"agent.batch_size is {cfg.batch_size}; with agent.memory {cfg.memory} it must be 0, because whole"
                " episodes are learned from."
            )
        self.own = own
        shape: Any = {"own": own, "activation": cfg.activation, "log_std": cfg.log_std, "normalise": cfg.normalise_obs}
        with seeded(seed):
            self.net = actor_critic(spec, cfg.hidden, cfg.memory, cfg.memory_size, **shape).to(device)
        self.core = self.net.core
        self.opt = Optimizer(self.net, lr=cfg.lr(0), max_norm=cfg.max_norm)
        self.generator = torch.Generator(device).manual_seed(seed)
        self.policy_parts: Parts = {"net": self.net}
        self.training_parts: Parts = {"opt": self.opt, "generator": self.generator}

    def act(self, obs: Tensor, *, explore: bool, memory: RecurrentMemory | None = None) -> Tensor:
        """Actions [N] or [N, dim] for obs [N, ...]: samples of the policy, or its mode without `explore`."""
        if memory is None:
            return self.net.act([obs], explore, self.generator)
        return memory.through(self.net.act, obs, explore, self.generator)

    def reward_to_go(self, rollout: Rollout, value: Tensor) -> Tensor:
        """Gₜ [T, N], given V(sₜ) [T, N]."""
        learned = self.cfg.baseline == "value"
        last_value = self.net.next_values(rollout, value) if learned else torch.zeros_like(value)
        ends = rollout.terminated, rollout.truncated
        return discounted(rollout.reward, *ends, last_value, gamma=self.cfg.gamma)

    def update(self, rollout: Rollout) -> Metrics:
        """Learn from a rollout of whole episodes [T, N]; return metrics."""
        obs = self.net.normalise(rollout.obs)
        known = [] if rollout.state is None else [rollout.state.flatten(0, 1)]
        with torch.no_grad():
            value = self.net.value(obs.flatten(0, 1), *known).view_as(rollout.reward)
            target = self.reward_to_go(rollout, value)
        kept, whole = rollout.valid, obs
        obs, action, target, value = obs[kept], rollout.action[kept], target[kept], value[kept]
        baseline = {"none": torch.zeros_like(target), "mean": target.mean(), "value": value}
        advantage = target - baseline[self.cfg.baseline]
        if self.cfg.normalise_advantage:
            advantage = advantage / (advantage.std(correction=0) + 1e-8)
        self.opt.lr = self.cfg.lr(self.progress)
        fields, metrics = [obs, action, target, advantage], dict[str, Tensor]()
        if rollout.state is not None:
            assert isinstance(self.net, Remembering)  # no other network has states
            judged = self.net.unroll(whole, rollout.state[0], starts(rollout), kept)
            metrics = self._improve(judged, action, target, advantage)
        elif self.cfg.batch_size == 0:
            metrics = self._learn(*fields)
        else:
            order = torch.randperm(len(obs), generator=self.generator, device=obs.device)
            for start in range(0, len(order), self.cfg.batch_size):
                part = order[start : start + self.cfg.batch_size]
                metrics = self._learn(*(x[part] for x in fields))
        self.net.observe(rollout)
        return (
            {**metrics, **critic_diagnostics(self.net, obs, value, target)} if self.cfg.baseline == "value" else metrics
        )

    def _learn(self, obs: Tensor, action: Tensor, target: Tensor, advantage: Tensor) -> dict[str, Tensor]:
        """One gradient step."""
        return self._improve(self.net(obs), action, target, advantage)

    def _improve(
        self, judged: tuple[Distribution, Tensor], action: Tensor, target: Tensor, advantage: Tensor
    ) -> dict[str, Tensor]:
        policy, value = judged
        policy_loss = policy_gradient(policy.log_prob(action), advantage)
        value_loss = (value - target).square().mean() if self.cfg.baseline == "value" else torch.zeros(())
        entropy = policy.entropy().mean()
        loss = policy_loss + self.cfg.value_weight * value_loss
        self.opt.step(loss - self.cfg.entropy_weight(self.progress) * entropy)
        told = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
        return {f"train/{name}": x.detach() for name, x in told.items()}
