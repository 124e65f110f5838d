"""Deep Q-learning (Mnih et al. 2015) with double Q-learning (van Hasselt et al. 2016) and n-step returns.

Options, each with its paper: dueling streams (Wang et al. 2016) and quantiles of the return (Dabney et al. 2018), both
in `nets/values.py`; prioritised replay (Schaul et al. 2016; `replay/prioritised.py`); an ε for each environment, so
that some explore more than others (Horgan et al. 2018); and memory of earlier observations, learned from sequences
with stored states and burn-in (R2D2, Kapturowski et al. 2019; `replay/sequences.py`, `nets/recurrent_values.py`).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from cairn.core.agent import BaseAgent, Metrics
from cairn.core.checks import Ahead, Count, Natural, NonNegative, Positive, Unit, Widths, validated
from cairn.core.errors import CairnError
from cairn.core.losses import huber_td, importance, quantile_huber
from cairn.core.schedules import Rate, Share, constant, linear
from cairn.core.state import Parts
from cairn.core.types import Sequences, Spec, Transition, WeightedTransition
from cairn.nets.cnn import Vision, sees_images
from cairn.nets.encoder import Encoder
from cairn.nets.features import feature_net, share_statistics
from cairn.nets.graphs import graphed
from cairn.nets.health import dead_units
from cairn.nets.mlp import Activation
from cairn.nets.optim import Flat, Optimizer, lerp_
from cairn.nets.own import NONE, Own, OwnNet, not_normalised
from cairn.nets.recurrent import MemoryKind, RecurrentMemory
from cairn.nets.recurrent_values import RecurrentValues
from cairn.nets.seeding import seeded
from cairn.nets.values import After, ReturnHead, q_net

MOST_ACTIONS = 4096


@dataclass(frozen=True)
class DQNConfig:
    """Settings of DQN."""

    discrete: ClassVar[bool] = True  # acts in discrete action spaces

    hidden: Widths = (256, 256)  # units per hidden layer; images pass through `cnn` first (SB3: policy_kwargs net_arch)
    lr: Rate = constant(1e-3)  # learning rate, a number or a schedule (SB3: learning_rate)
    gamma: Unit = 0.99  # discount factor γ (SB3: gamma)
    batch_size: Count = 64  # minibatch size in transitions (SB3: batch_size)
    capacity: Count = 100_000  # size of the replay buffer in transitions (SB3: buffer_size)
    frame_bytes: Natural = 0  # compress stacked frames and reserve this many bytes for each; 0: no compression
    learning_starts: Natural = 1_000  # steps of random actions before the first update (SB3: learning_starts)
    updates_per_step: Positive = 0.5  # gradient steps per environment step (SB3: gradient_steps / train_freq)
    n_step: Ahead = 1  # steps n of the n-step return (SB3: n_steps of off-policy algorithms)
    double: bool = True  # double DQN: the online network chooses the action, the target network evaluates it
    dueling: bool = False  # dueling network: Q = V + A - mean A
    quantiles: Natural = 0  # number of quantiles of the return (QR-DQN: n_quantiles); 0: only the mean
    priority: Unit = 0.0  # exponent α of prioritised replay, P ∝ |δ|^α; 0: uniform sampling
    priority_beta: Share = linear(0.4, 1.0)  # exponent β of its importance weights, number or schedule
    # probability ε of a random action, a number or a schedule (SB3: exploration_initial_eps, _final_eps, _fraction)
    epsilon: Share = linear(1.0, 0.05, 0.2)
    epsilon_spread: NonNegative = 0.0  # x: environment i of N explores with ε^(1 + x i / (N - 1)); 0: all with ε
    tau: Unit = 1.0  # soft update coefficient τ of the target network; 1: a full copy (SB3: tau)
    target_every: Count = 250  # gradient steps between target network updates (SB3: target_update_interval, in steps)
    max_norm: Positive = 10.0  # largest norm of a gradient; longer ones are scaled down (SB3: max_grad_norm)
    adam_eps: Positive = 1e-8  # epsilon of Adam; larger values shorten the steps of small gradients
    # smallest and largest possible return; targets are clipped to them; None: no clipping
    q_range: tuple[float, ...] | None = None
    normalise: bool = False  # normalise observations and goals by running mean and std (SB3: VecNormalize)
    clip_obs: Positive = 5.0  # normalised observations are clipped to ± this (SB3: VecNormalize clip_obs)
    activation: Activation = "relu"  # activation function of the hidden layers (SB3: policy_kwargs activation_fn)
    layer_norm: bool = False  # layer normalisation after each layer (Gallici et al. 2025)
    relative_goals: bool = False  # observe the goal as its displacement from the achieved goal
    cnn: Vision = "nature"  # network that reads images: nature (Mnih et al. 2015) or impala (ResNet)
    bf16: bool = False  # compute convolutions in bfloat16: faster on processors that support it
    memory: MemoryKind = "none"  # remember earlier observations: gru or lstm (R2D2); none: do not
    memory_size: Count = 128  # units of the memory
    sequence: Count = 16  # with memory: steps of a training sequence, through which gradients flow back
    burn_in: Natural = 8  # with memory: steps before a training sequence that only bring its state up to date


class DQN(BaseAgent):
    """Q(s, ·), fitted to y = r + γⁿ Q'(s', argmax Q(s', ·)); acts ε-greedily."""

    def __init__(self, cfg: DQNConfig, spec: Spec, *, seed: int = 0, device: str = "cpu", own: Own = NONE) -> None:
        self.choices = spec.action.choices
        if spec.action.outputs != sum(self.choices):
            raise CairnError("DQN acts in discrete action spaces only; use sac, td3 or ppo for this task.")
        self.cfg = cfg = validated(cfg, "agent.")
        self.spec, self.progress, self.own = spec, 0.0, own
        if cfg.q_range is not None and (len(cfg.q_range) != 2 or not cfg.q_range[0] < cfg.q_range[1]):
            raise CairnError(f"agent.q_range is {cfg.q_range}; it must be two numbers, the smaller first.")
        self.actions = math.prod(self.choices)
        if self.actions > MOST_ACTIONS:
            raise CairnError(
                f"DQN has a value for each action, and this task has {self.actions:,} combinations of choices; the"
                f" most is {MOST_ACTIONS:,}: use ppo or a2c."
            )
        shape: Any = {"quantiles": cfg.quantiles, "dueling": cfg.dueling, "layer_norm": cfg.layer_norm}
        shape["activation"] = cfg.activation
        shape |= {"cnn": cfg.cnn, "bf16": cfg.bf16, "memory": cfg.memory, "memory_size": cfg.memory_size}
        read: Any = {"cnn": cfg.cnn, "bf16": cfg.bf16, "normalise": cfg.normalise, "images": cfg.memory != "none"}
        read["clip"] = cfg.clip_obs
        not_normalised(own, cfg.normalise, "normalise")
        _check_memory(cfg, own)
        with seeded(seed):
            before = feature_net(spec, own.network, orthogonal=False, **read)
            raw = sees_images(spec) or before is not None or own.critic is not None
            seen: Any = {"normalise": cfg.normalise, "relative_goals": cfg.relative_goals, "clip": cfg.clip_obs}
            self.encoder = Encoder(spec, raw=raw, **seen).to(device)
            q = (
                OwnNet("critic", own.critic, spec, self.actions)
                if own.critic is not None
                else q_net(spec, self.encoder.width, cfg.hidden, self.actions, before=before, **shape)
            )
        self.q: nn.Module = q.to(device)
        self.before = before
        self.target = copy.deepcopy(self.q)
        share_statistics(self.q, self.target)
        self.core = self.q.core if isinstance(self.q, RecurrentValues) else None
        self.opt = Optimizer(self.q, lr=cfg.lr(0), eps=cfg.adam_eps, max_norm=cfg.max_norm)
        self.target_flat = Flat(self.target)
        # obs -> [N, actions] bool; None: all actions
        self.allowed: Callable[[Tensor], Tensor] | None = self._masks if spec.masked else None
        self.generator = torch.Generator(device).manual_seed(seed)
        self.updates = torch.zeros((), dtype=torch.int64)
        self.learn, self.toss = graphed(self._learn, self.generator), graphed(self._toss, self.generator)
        self.policy_parts: Parts = {"encoder": self.encoder, "q": self.q, "target": self.target}
        self.training_parts: Parts = {"opt": self.opt, "generator": self.generator, "updates": self.updates}

    def judges_actions(self) -> bool:
        """Whether Q(s, a) depends on s and a only: not with memory."""
        return self.core is None

    def action_value(self, obs: Tensor, action: Tensor) -> Tensor:
        """Q(s, a) [B] for obs [B, ...] and action [B]."""
        q: Tensor = self.q(self.encoder(obs))
        return q.gather(1, self.index(action)[:, None])[:, 0]

    def act(self, obs: Tensor, *, explore: bool, memory: RecurrentMemory | None = None) -> Tensor:
        """Actions [N], or [N, k] of k choices, for obs [N, ...]; with `explore`, each is random with probability ε."""
        if memory is None:
            return self._action(self._chosen([obs], explore))
        return self._action(memory.through(self._chosen, obs, explore))

    def _chosen(self, given: list[Tensor], explore: bool) -> Any:
        """Actions as numbers [N] for [obs]; for [obs, states] these and the next states."""
        if not explore:
            return self._greedy(*given)
        obs = given[0]
        epsilon: Any = self.cfg.epsilon(self.progress)
        spread = self.cfg.epsilon_spread and len(obs) > 1
        if spread or obs.is_cuda:  # a number is cheaper, but a CUDA graph would keep it
            epsilon = torch.scalar_tensor(epsilon, device=obs.device)
        if spread:
            epsilon = epsilon ** (1 + self.cfg.epsilon_spread * torch.linspace(0, 1, len(obs), device=obs.device))
        return self.toss([obs, epsilon, *given[1:]])

    @torch.no_grad()
    def _greedy(self, obs: Tensor, state: Tensor | None = None) -> Any:
        if state is None:
            return self._best(self.q(self.encoder(obs)), obs)
        assert isinstance(self.q, RecurrentValues)  # no other network has states
        q, after = self.q.step(self.encoder(obs), state)
        return self._best(q, obs), after

    def index(self, action: Tensor) -> Tensor:
        """Actions [B], or [B, k] of k choices, as numbers of their combinations [B]."""
        if action.dim() == 1:
            return action
        index = torch.zeros(len(action), dtype=torch.int64, device=action.device)
        for options, chosen in zip(self.choices, action.unbind(1), strict=True):
            index = index * options + chosen
        return index

    def _action(self, index: Tensor) -> Tensor:
        """The inverse of `index`."""
        if not self.spec.action_shape:
            return index
        chosen = []
        for options in reversed(self.choices):
            chosen.append(index % options)
            index = index.div(options, rounding_mode="floor")
        return torch.stack(chosen[::-1], 1)

    def _masks(self, obs: Tensor) -> Tensor:
        """Which combinations [N, actions] bool the masks of the choices allow."""
        parts = torch.split(obs[:, -self.spec.masked :] != 0, list(self.choices), 1)
        found = parts[0]
        for part in parts[1:]:
            found = (found[:, :, None] & part[:, None]).flatten(1)
        return found

    def _toss(self, given: list[Tensor]) -> Any:
        """As `_chosen`, ε-greedily, for [obs, ε] or [obs, ε, states]."""
        obs, epsilon, *state = given
        random = torch.rand(len(obs), generator=self.generator, device=obs.device) < epsilon
        dice, best = self.dice(obs), self._greedy(obs, *state)
        return (torch.where(random, dice, best[0]), best[1]) if state else torch.where(random, dice, best)

    def dice(self, obs: Tensor) -> Tensor:
        """Random actions [N], uniform over the allowed ones."""
        if self.allowed is None:
            return torch.randint(self.actions, (len(obs),), generator=self.generator, device=obs.device)
        return torch.multinomial(self.allowed(obs).float(), 1, generator=self.generator)[:, 0]

    def _best(self, q: Tensor, obs: Tensor) -> Tensor:
        """The allowed action with the highest q [N, actions]. A forbidden action has an untrained value."""
        return (q if self.allowed is None else q.masked_fill(~self.allowed(obs), -torch.inf)).argmax(-1)

    def _judge(self, net: nn.Module, obs: Tensor) -> Tensor:
        """Q(s, ·) [B, actions], or quantiles of the return [B, actions, K] if the network has them."""
        if self.cfg.quantiles:
            assert isinstance(net, (ReturnHead, After))  # q_net returns one if there are quantiles
            return net.quantiles(obs)
        out: Tensor = net(obs)
        return out

    @torch.no_grad()
    def td_target(self, batch: Transition, seen: Tensor, read: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """y = R + γᵏ(1 - term) Q'(s', a*), with a* from Q if `double`, else from Q'; [B], or quantiles [B, K].

        The batch is encoded; `seen` are its next observations before encoding. With memory, `read` is what the heads of
        Q and Q' read of them.
        """
        mine, theirs = read or (batch.next_obs, batch.next_obs)
        judged = self._judge(_head(self.target), theirs)
        mean = judged.mean(-1) if self.cfg.quantiles else judged
        best = self._best(_head(self.q)(mine) if self.cfg.double else mean, seen)
        reward, discount = (x[:, None] if self.cfg.quantiles else x for x in (batch.reward, batch.discount))
        target = torch.addcmul(reward, discount, _of(judged, best))
        return target if self.cfg.q_range is None else target.clamp(*self.cfg.q_range)

    def update(self, batch: Transition) -> Metrics:
        """Take one gradient step on a batch [B]; return metrics."""
        self.opt.lr = self.cfg.lr(self.progress)
        self.updates += 1
        if isinstance(batch, WeightedTransition):
            batch = replace(batch, weight=importance(batch.weight, self.cfg.priority_beta(self.progress)))
        metrics = self.learn(batch, int(self.updates) % self.cfg.target_every == 0)
        rows = batch.obs if self.core is None else batch.obs.flatten(0, 1)
        return {**metrics, "train/dead_units": lambda: dead_units((self.q, self.encoder(rows)))}

    def _learn(self, batch: Transition, move_target: bool) -> dict[str, Tensor]:
        seen, read = batch.next_obs, None
        if isinstance(batch, Sequences):
            batch, read = self._unrolled(batch)
        else:
            if self.before is not None:
                self.before.observe(batch.obs)
            batch = self.encoder.learn(batch)
        q = _of(self._judge(_head(self.q), batch.obs), self.index(batch.action))
        target = self.td_target(batch, seen, read)
        distance = quantile_huber if self.cfg.quantiles else huber_td
        weight = batch.weight if isinstance(batch, (WeightedTransition, Sequences)) else None
        loss = distance(q, target, weight)
        self.opt.step(loss)
        if move_target:
            lerp_(self.target_flat, self.opt.flat, self.cfg.tau)
        metrics = {"train/loss": loss.detach(), "train/q_mean": q.detach()}
        if isinstance(batch, WeightedTransition):
            metrics["train/td_error"] = (target - q.detach()).view(len(q), -1).mean(-1).abs()
        return metrics

    def _unrolled(self, batch: Sequences) -> tuple[Sequences, tuple[Tensor, Tensor]]:
        """The steps to learn from with what is known at each as `obs` [L · B, ...]; what Q and Q' know afterwards."""
        assert isinstance(self.q, RecurrentValues) and isinstance(self.target, RecurrentValues)
        rows = batch.obs.flatten(0, 1)
        if self.before is not None:
            self.before.observe(rows)
        obs = self.encoder.learn_obs(rows).unflatten(0, batch.begins.shape)
        batch = replace(batch, obs=obs, next_obs=self.encoder(batch.next_obs))
        known, mine = self.q.unroll(batch, self.cfg.burn_in)
        with torch.no_grad():
            _, theirs = self.target.unroll(batch, self.cfg.burn_in)
        return replace(batch, obs=known), (mine, theirs)


def _head(net: nn.Module) -> nn.Module:
    """What gives values of encoded observations or, with memory, of what is known."""
    return net.head if isinstance(net, RecurrentValues) else net


def _of(judged: Tensor, action: Tensor) -> Tensor:
    """Select one action each from [B, actions] or [B, actions, K]: [B] or [B, K]."""
    at = action[:, None] if judged.dim() == 2 else action[:, None, None].expand(-1, -1, judged.shape[2])
    return judged.gather(1, at)[:, 0]


def _check_memory(cfg: DQNConfig, own: Own) -> None:
    """Raise CairnError where memory is combined with what it does not work with."""
    if cfg.memory == "none":
        return
    if cfg.priority:
        raise CairnError(f"agent.priority is {cfg.priority:g}; with agent.memory {cfg.memory} it must be 0.")
    if own.critic is not None:
        raise CairnError(f"agent.memory is {cfg.memory}; it works with a network of your own, not with critic.")
