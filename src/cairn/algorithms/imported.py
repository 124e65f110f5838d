"""A policy that another library trained: it acts and judges, and is not trained any further.

Networks are plain stacks of linear layers with one activation. Actions are in Cairn's units, as everywhere: whoever
imports a policy that spoke in the environment's units folds the change of units into its last layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NoReturn

import torch
from torch import Tensor, nn

from cairn.core.agent import BaseAgent
from cairn.core.checks import Layers, Natural, NonNegative, Positive, Unit, validated
from cairn.core.errors import CairnError
from cairn.core.state import Part
from cairn.core.types import Discrete, Spec
from cairn.nets.heads import Categorical, Distribution, Gaussian, TanhGaussian
from cairn.nets.mlp import flat
from cairn.nets.seeding import seeded

Algorithm = Literal["ppo", "a2c", "sac", "td3", "ddpg", "dqn"]
Noise = Literal["none", "constant", "state", "features"]

UNTRAINED = "an imported policy cannot be trained; use it as the expert of bc, dagger, aggrevate or aggrevated."
LOG_STD = (-20.0, 2.0)  # where it depends on the state
ACTIVATIONS: dict[str, type[nn.Module]] = {
    kind.__name__.lower(): kind
    for kind in (
        *(nn.Tanh, nn.ReLU, nn.ELU, nn.LeakyReLU, nn.GELU, nn.SiLU, nn.SELU, nn.CELU, nn.Mish, nn.Sigmoid, nn.Softplus),
        *(nn.Softsign, nn.ReLU6, nn.Hardtanh, nn.Hardswish, nn.Hardsigmoid, nn.LogSigmoid, nn.Tanhshrink, nn.Identity),
    )
}


@dataclass(frozen=True)
class ImportedConfig:
    algorithm: Algorithm = "ppo"  # Stable-Baselines3 algorithm that trained the policy
    hidden: Layers = (64, 64)  # units per hidden layer of the policy; () is linear
    activation: str = "tanh"  # activation function of the hidden layers
    noise: Noise = "constant"  # form of log σ: none, constant, a network output, or weights of squared features (gSDE)
    squash: bool = False  # actions pass through tanh (SB3: squash_output)
    clip_mean: NonNegative = 0.0  # the mean is clipped to ± this before tanh; 0: not clipped (SB3: clip_mean)
    epsilon: Unit = 0.0  # probability ε of a random action while a dqn explores
    critic_hidden: Layers = (64, 64)  # units per hidden layer of the critics
    critics: Natural = 1  # number of value networks: V(s) for ppo and a2c, Q(s, a) for sac, td3 and ddpg
    gamma: Unit = 0.99  # discount factor γ of its value networks
    reward_scale: Positive = 1.0  # factor by which rewards were divided when its critics were trained
    normalise: bool = False  # normalise observations by the imported statistics (SB3: VecNormalize)


class Statistics(nn.Module):
    """clip((obs - mean) / scale, ±clip), in double precision as where they were gathered."""

    mean: Tensor
    scale: Tensor
    clip: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        for name, value in (("mean", 0.0), ("scale", 1.0), ("clip", 10.0)):
            self.register_buffer(name, torch.full((width,), value, dtype=torch.float64))

    def forward(self, obs: Tensor) -> Tensor:
        x = (obs.double() - self.mean) / self.scale
        return x.clamp(-self.clip, self.clip).float()


class Imported(BaseAgent):
    """π(·|s), and Q(s, a) and V(s) where it brought critics along. Values are in the task's own rewards."""

    def __init__(self, cfg: ImportedConfig, spec: Spec, *, seed: int = 0, device: str = "cpu") -> None:
        self.cfg = cfg = validated(cfg, "agent.")
        self.spec, self.progress = spec, 0.0
        if cfg.activation not in ACTIVATIONS:
            raise CairnError(f"agent.activation is {cfg.activation!r}; it must be one of {', '.join(ACTIVATIONS)}.")
        self.discrete = isinstance(spec.action, Discrete)
        actions = spec.action.n if isinstance(spec.action, Discrete) else spec.action.dim
        obs = torch.Size(spec.obs_shape).numel()
        latent = (obs, *cfg.hidden)[-1]
        judges_actions = cfg.algorithm in ("sac", "td3", "ddpg")
        self.statistics = Statistics(obs).to(device) if cfg.normalise else None
        self.log_std = torch.zeros((latent, actions) if cfg.noise == "features" else actions, device=device)
        widths = (obs + actions if judges_actions else obs, *cfg.critic_hidden)
        with seeded(seed):
            self.trunk = stack((obs, *cfg.hidden), cfg.activation).to(device)
            self.head = nn.Linear(latent, actions).to(device)
            self.spread = nn.Linear(latent, actions).to(device) if cfg.noise == "state" else None
            self.critics = nn.ModuleList(
                nn.Sequential(*stack(widths, cfg.activation), nn.Linear(widths[-1], 1)) for _ in range(cfg.critics)
            ).to(device)
        for part in (self.trunk, self.head, self.spread, self.critics):
            if part is not None:
                part.requires_grad_(False)
        self.generator = torch.Generator(device).manual_seed(seed)
        self.policy_parts: dict[str, Part] = {"trunk": self.trunk, "head": self.head, "critics": self.critics}
        if self.spread is not None:
            self.policy_parts["spread"] = self.spread
        if cfg.noise in ("constant", "features"):
            self.policy_parts["log_std"] = self.log_std
        if self.statistics is not None:
            self.policy_parts["statistics"] = self.statistics
        self.training_parts: dict[str, Part] = {"generator": self.generator}

    def encode(self, obs: Tensor) -> Tensor:
        """[B, ...] -> [B, width], normalised where it was trained so."""
        return flat(obs) if self.statistics is None else self.statistics(flat(obs))

    def policy(self, obs: Tensor) -> Distribution:
        """π(·|s). A dqn is greedy but for ε; td3 and ddpg put everything on one action.

        Noise by features (gSDE) is drawn anew at every step here, where its authors keep it for an episode.
        """
        features = self.trunk(self.encode(obs))
        out: Tensor = self.head(features)
        if self.cfg.algorithm == "dqn":
            greedy = nn.functional.one_hot(out.argmax(-1), out.shape[-1])
            return Categorical((self.cfg.epsilon / out.shape[-1] + (1 - self.cfg.epsilon) * greedy).log())
        if self.discrete:
            return Categorical(out)
        if self.spread is not None:
            log_std = self.spread(features).clamp(*LOG_STD)
        elif self.cfg.noise == "features":
            variance = features.square() @ (2 * self.log_std).exp()
            log_std = 0.5 * (variance + 1e-6).log()
        else:
            log_std = self.log_std if self.cfg.noise == "constant" else torch.full_like(out, -torch.inf)
        if self.cfg.clip_mean:
            out = out.clamp(-self.cfg.clip_mean, self.cfg.clip_mean)
        return TanhGaussian(out, log_std) if self.cfg.squash else Gaussian(out, log_std)

    @torch.no_grad()
    def act(self, obs: Tensor, *, explore: bool) -> Tensor:
        policy = self.policy(obs)
        return policy.sample(self.generator) if explore else policy.mode()

    def judges_actions(self) -> bool:
        critics = self.cfg.algorithm in ("sac", "td3", "ddpg") and len(self.critics) > 0
        return critics or self.cfg.algorithm == "dqn"

    def action_value(self, obs: Tensor, action: Tensor) -> Tensor:
        return self.q(obs, action)

    def q(self, obs: Tensor, action: Tensor) -> Tensor:
        """Q(s, a) [B], the least of its critics; sac's counts the entropy bonus in. CairnError where it has none."""
        if self.cfg.algorithm == "dqn":
            return self._all_q(obs).gather(1, action[:, None])[:, 0]
        if self.cfg.algorithm in ("ppo", "a2c") or not self.critics:
            raise CairnError(f"a policy of {self.cfg.algorithm} has no Q function, only a value of states.")
        return self._least(torch.cat([self.encode(obs), action], 1))

    def value(self, obs: Tensor) -> Tensor:
        """V(s) [B]: its value network's, the best action's of a dqn, and else Q of the action it would take."""
        if self.cfg.algorithm == "dqn":
            return self._all_q(obs).amax(-1)
        if self.cfg.algorithm in ("ppo", "a2c") and self.critics:
            return self._least(self.encode(obs))
        return self.q(obs, self.act(obs, explore=False))

    def _all_q(self, obs: Tensor) -> Tensor:
        out: Tensor = self.head(self.trunk(self.encode(obs)))
        return out * self.cfg.reward_scale

    def _least(self, x: Tensor) -> Tensor:
        return torch.cat([critic(x) for critic in self.critics], 1).amin(1) * self.cfg.reward_scale

    @property
    def horizon(self) -> NoReturn:
        raise CairnError(UNTRAINED)

    def update(self, batch: object) -> NoReturn:
        raise CairnError(UNTRAINED)


def stack(widths: Sequence[int], activation: str) -> nn.Sequential:
    """Linear layers from width to width, each with the activation behind it."""
    layers = [(nn.Linear(a, b), ACTIVATIONS[activation]()) for a, b in pairwise(widths)]
    return nn.Sequential(*(module for pair in layers for module in pair))
