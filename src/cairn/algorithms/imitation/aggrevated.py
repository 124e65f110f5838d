"""Deeply AggreVaTeD (Sun et al. 2017): a policy gradient with the expert's values as its critic.

In each iteration the expert plays each trajectory with probability αₙ, otherwise the learner does. In the visited
states
the loss is ℓₙ(θ) = -E_{a~π(·|s)} A*(s, a), with A* = Q* - V* by the expert's values. Its gradient is a policy gradient
in
which each state is an episode of one step with reward A*. So the learner is plain REINFORCE or PPO on such episodes.
Actions are drawn from the learner, also where the expert played, so probability ratios are those of the learner. Data
of
earlier iterations is discarded, because its states are not those of the current policy.

If any action can be evaluated, the learner is updated many times per iteration, each time with new actions of the
current policy. This takes no environment steps.

The learner can begin with behaviour cloning on the expert's first trajectories (α₀ = 1). A* is the advantage of one
action after which the expert continues. A learner far from the expert can have A* ≈ 0 in all of the expert's states and
still fail; without cloning it has to visit its own states first.

The natural gradient solves (F + εI)x = g by conjugate gradients, where F is the policy's Fisher information in the
visited states, and steps by √(2δ/xᵀFx) x, which changes the policy by a KL divergence of δ.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from cairn.algorithms.ppo import PPO, PPOConfig
from cairn.algorithms.reinforce import Reinforce, ReinforceConfig
from cairn.core.agent import BaseAgent, Metrics
from cairn.core.checks import Count, Natural, NonNegative, Positive, Unit, validated
from cairn.core.errors import CairnError
from cairn.core.losses import policy_gradient
from cairn.core.schedules import Mixing, mixing
from cairn.core.state import Parts
from cairn.core.types import Discrete, Rollout, Spec
from cairn.nets.heads import Categorical, Distribution, Gaussian
from cairn.nets.optim import Flat, lerp_
from cairn.nets.remembering import no_memory

LOG_STD = (-10.0, 1.0)
Judge = Callable[[Tensor, Tensor], Tensor]  # Q*(s, a) [B] of obs [B, ...] and action [B] or [B, dim]


@dataclass(frozen=True)
class AggreVaTeDConfig:
    """Settings of AggreVaTeD."""

    learner: ReinforceConfig | PPOConfig = ReinforceConfig()  # reinforce or ppo; its γ, λ, horizon are unused
    gradient: Literal["plain", "natural"] = "plain"  # plain gradient, or natural gradient (reinforce only)
    updates: Count = 1  # updates of the learner per iteration; more than one needs values critics
    batch_size: Count = 1024  # minibatch size in states, where updates is above 1
    clone: Natural = 0  # gradient steps of behaviour cloning on the first expert episodes; 0: none
    clone_lr: Positive = 1e-3  # initial learning rate of the cloning; decays linearly to 0
    clone_batch: Count = 256  # minibatch size of the cloning in states
    clone_judged: bool = True  # also learn from A* in the states used for cloning
    average: Unit = 0.0  # weight of each update in an averaged policy, which is evaluated and saved; 0: none
    noise: NonNegative = 0.0  # std of Gaussian noise on actions the expert executes; the labels stay without noise
    max_kl: Positive = 0.01  # largest KL divergence δ of one natural gradient step
    damping: Positive = 0.1  # damping added to the Fisher matrix of a natural gradient step
    cg_steps: Count = 10  # conjugate gradient iterations per natural gradient step
    # source of Q*: the expert's critics, V* fitted to its returns, or Monte Carlo rollouts
    values: Literal["critics", "fitted", "rollouts"] = "critics"
    # baseline of A*: V*(s) of the expert, or Q* of the learner's own mode (needs updates above 1)
    against: Literal["expert", "own"] = "expert"
    mirrored: bool = False  # also evaluate each continuous action mirrored about the mode (needs updates above 1)
    near: NonNegative = 0.0  # penalty on critics' Q* per squared distance of an action from the expert's
    cut: Natural = 0  # largest episode length in steps, drawn uniformly from 1 to this for each episode; 0: no limit
    judged: Count = 128  # states per iteration evaluated by rollouts, where values is rollouts
    fit_episodes: Count = 20  # expert episodes that V* is fitted to, where no demonstrations are given
    gamma: Unit = 0.99  # discount factor γ of values that are fitted or rolled out
    mixing: Mixing = "exponential"  # share αₙ of expert episodes in iteration n: α₀dⁿ, α₀/(n+1), α₀ max(0, 1 - n(1-d))
    alpha_start: Unit = 1.0  # initial share α₀ of episodes played by the expert
    alpha_decay: Unit = 0.9  # decay d of the share of expert episodes, per iteration
    mistaken_minmax: bool = False  # reproduce a known mistake: use Q* scaled to [0, 1] without a baseline, not A*
    mistaken_log_std: bool = False  # reproduce a known mistake: hold log σ at 2


class AggreVaTeD(BaseAgent):
    """A REINFORCE or PPO learner whose rewards are the expert's advantages."""

    horizon = 0  # whole trajectories

    def __init__(self, cfg: AggreVaTeDConfig, spec: Spec, *, seed: int = 0, device: str = "cpu") -> None:
        self.cfg = cfg = validated(cfg, "agent.")
        self.spec = spec
        if cfg.gradient == "natural" and not cfg.learner.plain_gradient:
            raise CairnError("agent.gradient is natural, which works with reinforce only; with ppo set it to plain.")
        if cfg.updates > 1 and cfg.values != "critics":
            raise CairnError(f"agent.updates is {cfg.updates}; with agent.values {cfg.values} it must be 1.")
        if cfg.against == "own" and cfg.updates == 1:
            raise CairnError("agent.against is own, which needs agent.updates above 1.")
        if cfg.mirrored and (cfg.updates == 1 or isinstance(spec.action, Discrete)):
            raise CairnError("agent.mirrored needs continuous actions and agent.updates above 1.")
        if cfg.noise and isinstance(spec.action, Discrete):
            raise CairnError("agent.noise is for continuous actions, and this task's are discrete: set it to 0.")
        no_memory(cfg.learner.memory, "aggrevated", "agent.learner.memory")
        made: dict[type, Callable[..., PPO | Reinforce]] = {PPOConfig: PPO, ReinforceConfig: Reinforce}
        mistaken = cfg.mistaken_minmax and cfg.learner.plain_gradient
        plain: dict[str, Any] = {"baseline": "none", "normalise_advantage": False} if mistaken else {}
        settings = replace(cfg.learner, **plain)
        learner = made[type(settings)](settings, spec, seed=seed, device=device)
        self.learner, self.net, self.generator = learner, learner.net, learner.generator
        self.counts = torch.zeros(2, dtype=torch.int64)  # iterations, queries to the expert
        self.policy_parts: Parts = learner.policy_parts
        self.training_parts: Parts = {**learner.training_parts, "counts": self.counts}
        if cfg.average:
            self.mean = copy.deepcopy(self.net)
            self.mean_flat = Flat(self.mean)
            self.policy_parts = {"net": self.mean}
            self.training_parts |= {"learner": self.net}
        self._hold_log_std()

    @property
    def progress(self) -> float:
        """The finished share of the run, in [0, 1]; setting it sets the learner's."""
        return self.learner.progress

    @progress.setter
    def progress(self, share: float) -> None:
        self.learner.progress = share

    def settle(self) -> None:
        """Start the learner from the saved policy, which is the average."""
        if self.cfg.average:
            self.net.load_state_dict(self.mean.state_dict())

    @property
    def alpha(self) -> float:
        """αₙ, the expert's share of trajectories in this iteration."""
        cfg = self.cfg
        return mixing(cfg.mixing, int(self.counts[0]), start=cfg.alpha_start, decay=cfg.alpha_decay)

    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        """Actions [N] or [N, dim] for obs [N, ...]; without `explore`, those of the averaged policy if there is one."""
        if self.cfg.average and not explore:
            return self.mean.act([obs], explore, self.generator)
        return self.learner.act(obs, explore=explore)

    def clone(self, obs: Tensor, action: Tensor) -> None:
        """Behaviour cloning: gradient steps on log π(a*|s) for B states, with σ fixed."""
        net, opt = self.net, self.learner.opt
        self._first_sight(obs)
        for i in range(self.cfg.clone):
            some = torch.randint(len(obs), (self.cfg.clone_batch,), generator=self.generator, device=obs.device)
            policy = net.policy(net.normalise(obs[some]))
            if isinstance(policy, Gaussian):
                policy = replace(policy, log_std=policy.log_std.detach())
            opt.lr = self.cfg.clone_lr * (1 - i / self.cfg.clone)
            opt.step(-policy.log_prob(action[some]).mean())
        self._average(1.0)

    @torch.no_grad()
    def _average(self, share: float) -> None:
        """Move the averaged policy towards the learner. Observation statistics are copied."""
        if self.cfg.average:
            lerp_(self.mean_flat, self.learner.opt.flat, share)
            for mean, own in zip(self.mean.buffers(), self.net.buffers(), strict=True):
                mean.copy_(own)

    def signal(self, q: Tensor, v: Tensor) -> Tensor:
        """A* = Q* - V* [B]; with `mistaken_minmax` (Q* - min)/(max - min), which is never negative."""
        if self.cfg.mistaken_minmax:
            return (q - q.min()) / (q.max() - q.min() + 1e-8)
        return q - v

    def update(self, obs: Tensor, action: Tensor, q: Tensor, v: Tensor, judge: Judge | None = None) -> Metrics:
        """Learn from B visited states and return metrics.

        Args:
            obs: The states [B, ...].
            action: Actions drawn there [B] or [B, dim].
            q: Their values Q*(s, a) [B].
            v: The values V*(s) [B].
            judge: Evaluates any action; needed for more than one update, each of which draws its own states and
                actions.
        """
        self._first_sight(obs)
        if self.cfg.updates == 1:
            metrics = self._step(obs, action, self.signal(q, v))
        else:
            self._begin_anew()
        for _ in range(self.cfg.updates if self.cfg.updates > 1 else 0):
            assert judge is not None  # checked by the constructor
            some = torch.randint(len(obs), (self.cfg.batch_size,), generator=self.generator, device=obs.device)
            drawn, mode = (self.learner.act(obs[some], explore=explore) for explore in (True, False))
            if self.cfg.mirrored:
                some, drawn, mode = some.repeat(2), torch.cat([drawn, 2 * mode - drawn]), mode.repeat(2, 1)
            beside = v[some] if self.cfg.against == "expert" else judge(obs[some], mode)
            metrics = self._step(obs[some], drawn, self.signal(judge(obs[some], drawn), beside))
            self.counts[1] += len(some)
        return {**metrics, "imitation/q": q.mean(), "imitation/advantage": (q - v).mean()}

    def _step(self, obs: Tensor, action: Tensor, paid: Tensor) -> Metrics:
        """One update of the learner on episodes of one step, or a natural gradient step."""
        seen = [] if self.net.normalizer is None else [x.clone() for x in self.net.normalizer.buffers()]
        if self.cfg.gradient == "natural":
            metrics = self._natural(obs, action, paid)
        else:
            metrics = self.learner.update(one_step(obs, action, paid))
        self._hold_log_std()
        self._average(self.cfg.average)
        if self.net.normalizer is not None:  # see `_first_sight`
            for now, before in zip(self.net.normalizer.buffers(), seen, strict=True):
                now.copy_(before)
        return metrics

    def _begin_anew(self) -> None:
        """Reset the optimiser, because ℓₙ is a new loss.

        Adam's moments from the states of the last iteration would make the first steps far too long.
        """
        for moment in (self.learner.opt.first, self.learner.opt.second, self.learner.opt.count):
            moment.zero_()

    def _first_sight(self, obs: Tensor) -> None:
        """Set the observation statistics from the first states, once.

        States of the expert and of a failing learner differ much. Updated statistics would change the inputs of a
        learner that
        is nearly right.
        """
        if self.net.normalizer is not None and self.net.normalizer.count == 0:
            self.net.normalizer.update(obs)

    @torch.no_grad()
    def _hold_log_std(self) -> None:
        low, high = (2.0, 2.0) if self.cfg.mistaken_log_std else LOG_STD
        self.net.log_std.clamp_(low, high)

    def _natural(self, obs: Tensor, action: Tensor, paid: Tensor) -> Metrics:
        """Take a natural gradient step: θ ← θ + √(2δ/xᵀFx) x with (F + εI)x = g."""
        net, params = self.net, list(self.net.parameters())
        seen = net.normalise(obs)
        policy = net.policy(seen)
        loss = policy_gradient(policy.log_prob(action), paid)
        entropy = policy.entropy().mean()
        gain = self.learner.cfg.entropy_weight(self.progress) * entropy - loss
        g = flat(torch.autograd.grad(gain, params, retain_graph=True, materialize_grads=True))
        kl = divergence(frozen(policy), policy).mean()
        slope = flat(torch.autograd.grad(kl, params, create_graph=True, materialize_grads=True))

        def fisher(x: Tensor) -> Tensor:
            return flat(torch.autograd.grad(slope @ x, params, retain_graph=True, materialize_grads=True)).detach()

        x = conjugate_gradient(lambda x: fisher(x) + self.cfg.damping * x, g, self.cfg.cg_steps)
        length = (2 * self.cfg.max_kl / (x @ fisher(x)).clamp(min=1e-12)).sqrt()
        with torch.no_grad():
            self.learner.opt.flat.data.add_(length * x)
            moved = divergence(frozen(policy), net.policy(seen)).mean()
        return {"train/policy_loss": loss.detach(), "train/entropy": entropy.detach(), "train/kl": moved}


def one_step(obs: Tensor, action: Tensor, paid: Tensor) -> Rollout:
    """B episodes of one step as a rollout [1, B], with `paid` [B] as their rewards."""
    ends = torch.ones(1, len(obs), dtype=torch.bool, device=obs.device)
    return Rollout(obs[None], action[None], paid[None], obs[None], ends, torch.zeros_like(ends), ends)


def flat(tensors: Sequence[Tensor]) -> Tensor:
    """All tensors as one vector."""
    return torch.cat([x.flatten() for x in tensors])


def frozen(policy: Distribution) -> Distribution:
    """The same distribution without gradient."""
    if isinstance(policy, Categorical):
        return Categorical(policy.logits.detach())
    assert isinstance(policy, Gaussian)
    return Gaussian(policy.mean.detach(), policy.log_std.detach())


def divergence(old: Distribution, new: Distribution) -> Tensor:
    """KL(old ‖ new) [B]."""
    if isinstance(old, Categorical) and isinstance(new, Categorical):
        before, after = old.logits.log_softmax(-1), new.logits.log_softmax(-1)
        return (before.exp() * (before - after)).sum(-1)
    assert isinstance(old, Gaussian) and isinstance(new, Gaussian)
    apart = (old.mean - new.mean).square() + (2 * old.log_std).exp()
    return (new.log_std - old.log_std + 0.5 * apart * (-2 * new.log_std).exp() - 0.5).sum(-1)


@torch.no_grad()
def conjugate_gradient(product: Callable[[Tensor], Tensor], b: Tensor, steps: int) -> Tensor:
    """Solve Ax ≈ b in at most `steps` iterations, for symmetric positive A given as `product`: x -> Ax."""
    x, r = torch.zeros_like(b), b.clone()
    p, rr = r.clone(), r @ r
    for _ in range(steps):
        if rr <= 1e-10 * (b @ b):
            break
        with torch.enable_grad():
            ap = product(p)
        step = rr / (p @ ap)
        x, r = x + step * p, r - step * ap
        before, rr = rr, r @ r
        p = r + rr / before * p
    return x
