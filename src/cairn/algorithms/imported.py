"""A policy that another library trained: it acts and has values. `trainable` makes an agent of it that can be trained.

Networks are plain stacks of linear layers with one activation. Actions are in Cairn's units: the importer folds the
conversion from the environment's units into the last layer.
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
from cairn.nets.cnn import image_net, sees_images
from cairn.nets.heads import Categorical, Distribution, Gaussian
from cairn.nets.mlp import flat
from cairn.nets.seeding import seeded
from cairn.nets.tanh_gaussian import TanhGaussian

Algorithm = Literal["ppo", "a2c", "sac", "td3", "ddpg", "dqn"]
Noise = Literal["none", "constant", "state", "features"]

UNTRAINED = "an imported agent cannot be trained itself; start a ppo, a2c, dqn, sac or td3 from its folder."
LOG_STD = (-20.0, 2.0)  # bounds where it depends on the state
ACTIVATIONS: dict[str, type[nn.Module]] = {
    kind.__name__.lower(): kind
    for kind in (
        *(nn.Tanh, nn.ReLU, nn.ELU, nn.LeakyReLU, nn.GELU, nn.SiLU, nn.SELU, nn.CELU, nn.Mish, nn.Sigmoid, nn.Softplus),
        *(nn.Softsign, nn.ReLU6, nn.Hardtanh, nn.Hardswish, nn.Hardsigmoid, nn.LogSigmoid, nn.Tanhshrink, nn.Identity),
    )
}


@dataclass(frozen=True)
class ImportedConfig:
    """The form of an imported policy."""

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
    observations: Positive = 1e6  # number of observations that these statistics count as, where training goes on
    images: bool = False  # images are read by the convolutions of SB3's CnnPolicy (NatureCNN); hidden layers follow
    alpha: Positive = 1.0  # entropy coefficient α at which sac stopped (SB3: ent_coef)


class Statistics(nn.Module):
    """clip((obs - mean) / scale, ±clip), in double precision like the statistics themselves."""

    mean: Tensor
    scale: Tensor
    clip: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        for name, value in (("mean", 0.0), ("scale", 1.0), ("clip", 10.0)):
            self.register_buffer(name, torch.full((width,), value, dtype=torch.float64))

    def forward(self, obs: Tensor) -> Tensor:
        """Normalise obs [B, width]."""
        x = (obs.double() - self.mean) / self.scale
        return x.clamp(-self.clip, self.clip).float()


class Imported(BaseAgent):
    """π(·|s), and Q(s, a) or V(s) if critics were imported. Values are in the task's own rewards."""

    def __init__(self, cfg: ImportedConfig, spec: Spec, *, seed: int = 0, device: str = "cpu") -> None:
        self.cfg = cfg = validated(cfg, "agent.")
        self.spec, self.progress = spec, 0.0
        if cfg.activation not in ACTIVATIONS:
            raise CairnError(f"agent.activation is {cfg.activation!r}; it must be one of {', '.join(ACTIVATIONS)}.")
        self.discrete = isinstance(spec.action, Discrete)
        actions = spec.action.outputs
        if cfg.images and not sees_images(spec):
            raise CairnError(f"agent.images needs image observations; this task's have shape {spec.obs_shape}.")
        self.vision = image_net("nature", spec).to(device) if cfg.images else None
        obs = torch.Size(spec.obs_shape).numel() if self.vision is None else self.vision.features
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
        for part in (self.vision, self.trunk, self.head, self.spread, self.critics):
            if part is not None:
                part.requires_grad_(False)
        self.generator = torch.Generator(device).manual_seed(seed)
        self.policy_parts: dict[str, Part] = {"trunk": self.trunk, "head": self.head, "critics": self.critics}
        if self.vision is not None:
            self.policy_parts["vision"] = self.vision
        if self.spread is not None:
            self.policy_parts["spread"] = self.spread
        if cfg.noise in ("constant", "features"):
            self.policy_parts["log_std"] = self.log_std
        if self.statistics is not None:
            self.policy_parts["statistics"] = self.statistics
        self.training_parts: dict[str, Part] = {"generator": self.generator}

    def encode(self, obs: Tensor) -> Tensor:
        """[B, ...] -> [B, width]: features of images, or numbers, normalised if the policy was trained so."""
        if self.vision is not None:
            features: Tensor = self.vision(obs)
            return features
        return flat(obs) if self.statistics is None else self.statistics(flat(obs))

    def policy(self, obs: Tensor) -> Distribution:
        """π(·|s) for obs [B, ...]: ε-greedy for dqn, a single action for td3 and ddpg.

        gSDE noise is drawn at every step, whereas Stable-Baselines3 keeps it for several steps.
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
        """Actions [N] or [N, dim] for obs [N, ...]: samples of the policy, or its mode without `explore`."""
        policy = self.policy(obs)
        return policy.sample(self.generator) if explore else policy.mode()

    def judges_actions(self) -> bool:
        """Whether Q(s, a) was imported."""
        critics = self.cfg.algorithm in ("sac", "td3", "ddpg") and len(self.critics) > 0
        return critics or self.cfg.algorithm == "dqn"

    def action_value(self, obs: Tensor, action: Tensor) -> Tensor:
        """Q(s, a) [B]; see `q`."""
        return self.q(obs, action)

    def q(self, obs: Tensor, action: Tensor) -> Tensor:
        """Q(s, a) [B], the minimum of the critics; sac's includes the entropy bonus. Raises CairnError without one."""
        if self.cfg.algorithm == "dqn":
            return self._all_q(obs).gather(1, action[:, None])[:, 0]
        if self.cfg.algorithm in ("ppo", "a2c") or not self.critics:
            raise CairnError(f"a policy of {self.cfg.algorithm} has no Q function, only a value of states.")
        return self._least(torch.cat([self.encode(obs), action], 1))

    def value(self, obs: Tensor) -> Tensor:
        """V(s) [B] of ppo and a2c, max Q(s, ·) of dqn, else Q(s, a) of the policy's own action."""
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
        """Raises CairnError: an imported policy cannot be trained."""
        raise CairnError(UNTRAINED)

    def update(self, batch: object) -> NoReturn:
        """Raise CairnError: an imported policy cannot be trained."""
        raise CairnError(UNTRAINED)


def stack(widths: Sequence[int], activation: str) -> nn.Sequential:
    """Linear layers of these widths, each followed by the activation."""
    layers = [(nn.Linear(a, b), ACTIVATIONS[activation]()) for a, b in pairwise(widths)]
    return nn.Sequential(*(module for pair in layers for module in pair))
