"""The networks in a zip of Stable-Baselines3, by the tensor names of each algorithm."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from cairn.algorithms.imported import ACTIVATIONS, Algorithm, Noise
from cairn.core.errors import CairnError
from cairn.core.types import ActionSpec, Box, Discrete
from cairn.core.untrusted import shown
from cairn.interop.sb3 import safe_unpickle as inert
from cairn.interop.sb3.archive import FEATURES, Archive, Layer, laid_out_by_sb3

UNUSED = (
    "actor_target.",
    "critic_target.",
    "q_net_target.",
    "sde_features_extractor.",
    "actor.sde_features_extractor.",
    "pi_features_extractor.",  # of ppo and a2c: copies of the shared one
    "vf_features_extractor.",
)


@dataclass(frozen=True)
class Networks:
    """The policy's layers with its head last, the critics' layers, and log σ or the layer that outputs it."""

    activation: str
    policy: list[Layer]
    critics: list[list[Layer]] = field(default_factory=list)
    squash: bool = True
    noise: Noise = "none"
    log_std: Tensor | None = None
    spread: Layer | None = None
    clip_mean: float = 0.0
    vision: dict[str, Tensor] = field(default_factory=dict)

    @property
    def hidden(self) -> tuple[int, ...]:
        """Units of the policy's hidden layers."""
        return tuple(len(bias) for _, bias in self.policy[:-1])

    @property
    def critic_hidden(self) -> tuple[int, ...]:
        """Units of the critics' hidden layers."""
        return tuple(len(bias) for _, bias in self.critics[0][:-1]) if self.critics else ()

    def tensors(self, columns: Tensor, action: ActionSpec) -> dict[str, Tensor]:
        """The tensors by the names in `Imported`, with inputs in the order of `columns`.

        A policy that does not squash acts in the environment's units. Cairn's are 2(a - low)/(high - low) - 1: the
        conversion
        is folded into the last layer and log σ.
        """
        *trunk, head = _reordered(self.policy, columns)
        log_std, spread = self.log_std, self.spread
        if not trunk and spread is not None:  # its features are the observations
            (spread,) = _reordered([spread], columns)
        if not trunk and log_std is not None and self.noise == "features":
            log_std = log_std[columns]
        if isinstance(action, Box) and action.bounded and not self.squash:
            low, high = (torch.tensor(bound, dtype=torch.float64) for bound in (action.low, action.high))
            factor = 2.0 / (high - low)
            head = (head[0] * factor[:, None]).float(), ((head[1] - low) * factor - 1.0).float()
            log_std = None if log_std is None else (log_std + factor.log()).float()
        out = {f"vision.{name}": x for name, x in self.vision.items()}
        out |= {**_named("trunk", trunk), "head.weight": head[0], "head.bias": head[1]}
        for i, critic in enumerate(self.critics):
            out |= _named(f"critics.{i}", _reordered(critic, columns))
        if log_std is not None:
            out["log_std.value"] = log_std
        if spread is not None:
            out |= {"spread.weight": spread[0], "spread.bias": spread[1]}
        return out


def _reordered(layers: list[Layer], columns: Tensor) -> list[Layer]:
    """Layers with their inputs in another order. A critic's further inputs are actions, which stay in place."""
    (weight, bias), *rest = layers
    return [(weight[:, torch.cat([columns, torch.arange(len(columns), weight.shape[1])])], bias), *rest]


def _named(name: str, layers: list[Layer]) -> dict[str, Tensor]:
    named: dict[str, Tensor] = {}
    for i, (weight, bias) in enumerate(layers):
        named |= {f"{name}.{2 * i}.weight": weight, f"{name}.{2 * i}.bias": bias}
    return named


def read_networks(archive: Archive) -> Networks:
    """The networks of a zip. Raises CairnError where a tensor is missing or left over."""
    actions = archive.action.outputs
    with laid_out_by_sb3(archive.path):
        width, vision = sum(archive.parts.values()), dict[str, Tensor]()
        if archive.image is not None:
            name = "q_net.features_extractor" if archive.algorithm == "dqn" else "features_extractor"
            width, vision = FEATURES, archive.vision(name)
        networks = replace(READERS[archive.algorithm](archive, width, actions), vision=vision)
    for name in archive.weights:
        if not name.startswith(UNUSED):
            raise archive.not_an_mlp(repr(name))
    return networks


def _actor_critic(archive: Archive, obs: int, actions: int) -> Networks:
    """For ppo and a2c. Before SB3 1.8 they could share first layers, of which each network gets a copy."""
    pi, vf = _net_arch(archive, [] if archive.image else [64, 64], "vf")
    name = "mlp_extractor.shared_net"
    count = sum(re.fullmatch(rf"{name}\.\d+\.weight", key) is not None for key in archive.weights)
    shared, width = archive.mlp(name, [obs, *pi[:count]]), [obs, *pi[:count]][-1]
    policy = [
        *shared,
        *archive.mlp("mlp_extractor.policy_net", [width, *pi[count:]]),
        archive.linear("action_net", [obs, *pi][-1], actions),
    ]
    value = [
        *shared,
        *archive.mlp("mlp_extractor.value_net", [width, *vf[count:]]),
        archive.linear("value_net", [obs, *vf][-1], 1),
    ]
    activation = _activation(archive, "tanh")
    if isinstance(archive.action, Discrete):
        return Networks(activation, policy, [value], squash=False)
    if not archive.data.get("use_sde"):
        return Networks(activation, policy, [value], False, "constant", archive.take("log_std", actions))
    noise, log_std = _sde(archive, "log_std", [obs, *pi][-1], actions)
    return Networks(activation, policy, [value], bool(archive.settings.get("squash_output")), noise, log_std)


def _sac(archive: Archive, obs: int, actions: int) -> Networks:
    pi, qf = _net_arch(archive, [256, 256], "qf")
    trunk, latent = archive.mlp("actor.latent_pi", [obs, *pi]), [obs, *pi][-1]
    critics, activation = _critics(archive, [obs + actions, *qf, 1]), _activation(archive, "relu")
    if archive.data.get("use_sde"):
        noise, log_std = _sde(archive, "actor.log_std", latent, actions)
        clip = max(float(archive.settings.get("clip_mean", 2.0)), 0.0)
        head = archive.linear("actor.mu.0" if clip else "actor.mu", latent, actions)
        return Networks(activation, [*trunk, head], critics, True, noise, log_std, clip_mean=clip)
    head, spread = (archive.linear(f"actor.{name}", latent, actions) for name in ("mu", "log_std"))
    return Networks(activation, [*trunk, head], critics, True, "state", spread=spread)


def _td3(archive: Archive, obs: int, actions: int) -> Networks:
    pi, qf = _net_arch(archive, [400, 300], "qf")
    critics = _critics(archive, [obs + actions, *qf, 1])
    return Networks(_activation(archive, "relu"), archive.mlp("actor.mu", [obs, *pi, actions]), critics)


def _dqn(archive: Archive, obs: int, actions: int) -> Networks:
    widths, _ = _net_arch(archive, [] if archive.image else [64, 64], "pi")
    return Networks(_activation(archive, "relu"), archive.mlp("q_net.q_net", [obs, *widths, actions]), squash=False)


READERS: dict[Algorithm, Callable[[Archive, int, int], Networks]] = {
    "ppo": _actor_critic,
    "a2c": _actor_critic,
    "sac": _sac,
    "td3": _td3,
    "ddpg": _td3,
    "dqn": _dqn,
}


def _critics(archive: Archive, widths: Sequence[int]) -> list[list[Layer]]:
    return [
        archive.mlp(f"critic.qf{i}", widths)
        for i in range(min(int(archive.settings.get("n_critics", 2)), len(archive.weights) + 1))
    ]


def _net_arch(archive: Archive, default: list[int], critic: str) -> tuple[list[int], list[int]]:
    """Hidden layers of policy and critic, from [64, 64], {pi: [64], vf: [64]} or [64, {pi: [64], vf: [64]}]."""
    told = archive.settings.get("net_arch")
    told = default if told is None else told
    listed = [told] if isinstance(told, dict) else list(told)
    apart = listed.pop() if listed and isinstance(listed[-1], dict) else {}
    both = [[*listed, *(apart.get(key) or [])] for key in ("pi", critic)]
    if not all(type(width) is int and width > 0 for widths in both for width in widths):
        raise CairnError(f"{archive.path}: its net_arch is {shown(told)}, which does not give the widths of layers.")
    return both[0], both[1]


def _activation(archive: Archive, default: str) -> str:
    told = archive.settings.get("activation_fn")
    if told is None:
        return default
    module, _, name = inert.name_of(told).rpartition(".")
    if name.lower() not in ACTIVATIONS or not module.startswith("torch.nn."):
        raise CairnError(
            f"{archive.path} has the activation {shown(name or told)}; Cairn has {', '.join(ACTIVATIONS)}."
        )
    return name.lower()


def _sde(archive: Archive, name: str, latent: int, actions: int) -> tuple[Noise, Tensor | None]:
    """gSDE noise and log σ [latent, actions]. Noise with its own features network is not imported."""
    settings = archive.settings
    if settings.get("sde_net_arch") is not None:
        archive.weights.pop(name, None)
        return "none", None
    log_std = archive.take(name, latent, actions if settings.get("full_std", True) else 1)
    if settings.get("use_expln"):  # σ = 1 + log(1 + x) where x > 0
        log_std = torch.where(log_std > 0, (1 + log_std.clamp(min=0).log1p()).log(), log_std)
    return "features", log_std.expand(latent, actions)
