"""Converts an imported policy to an agent that can be trained, with the same actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cairn.algorithms.a2c import A2C, A2CConfig
from cairn.algorithms.dqn import DQN, DQNConfig
from cairn.algorithms.imported import Imported
from cairn.algorithms.ppo import PPO, PPOConfig
from cairn.algorithms.sac import SAC, SACConfig
from cairn.algorithms.td3 import TD3, TD3Config
from cairn.core.errors import CairnError
from cairn.core.schedules import constant
from cairn.core.state import unpack

Layer = tuple[Tensor, Tensor]  # weight [in, out] and bias [out], as in `nets.mlp`
RELU_ONLY = ("dqn", "td3")
ACTIVATIONS = ("relu", "tanh", "silu")
VARIANCE = 1e-8  # added to variances in `nets.normalizer`


def trainable(agent: Imported, normalise_reward: bool | None = None) -> Any:
    """A ppo, a2c, dqn, sac or td3 agent with the same actions as this policy. Raises CairnError where there is none.

    With `normalise_reward`, a ppo's values stay those of normalised rewards; None decides as the policy was trained.
    Values
    of the others are in true rewards. Target networks begin as copies.
    """
    _check(agent)
    made: Any = BUILDERS[agent.cfg.algorithm](agent, normalise_reward)
    made.settle()
    return made


def _check(agent: Imported) -> None:
    cfg = agent.cfg
    why = ""
    if cfg.algorithm not in BUILDERS:
        why = f"Cairn has no {cfg.algorithm}"
    elif cfg.noise == "features" or cfg.clip_mean:
        why = "its exploration depends on its features (gSDE), which Cairn does not offer"
    elif cfg.algorithm in ("ppo", "a2c") and cfg.squash:
        why = "its actions are squashed, and those of Cairn's ppo and a2c are not"
    elif cfg.images and (cfg.hidden or (cfg.critic_hidden and cfg.algorithm != "dqn")):
        why = "it has hidden layers behind its convolutions, which Cairn's networks have not"
    elif cfg.images:
        pass
    elif not cfg.hidden or (not cfg.critics and cfg.algorithm != "dqn"):
        why = "it has no hidden layer, or no critic"
    elif cfg.algorithm != "dqn" and cfg.hidden != cfg.critic_hidden:
        why = f"its policy has hidden layers {cfg.hidden} and its critics {cfg.critic_hidden}; in Cairn both are equal"
    elif cfg.activation not in (("relu",) if cfg.algorithm in RELU_ONLY else ACTIVATIONS):
        why = f"its activation is {cfg.activation}, and {cfg.algorithm} has {_activations(cfg.algorithm)}"
    elif cfg.algorithm == "td3" and cfg.critics != 2:
        why = f"it has {cfg.critics} critics, and Cairn's td3 has two"
    elif agent.statistics is not None and not bool((agent.statistics.clip == agent.statistics.clip[0]).all()):
        why = "its VecNormalize leaves a part of the observation as it is"
    if why:
        raise CairnError(f"this imported policy cannot be trained: {why}. It can be the expert of an imitation.")


def _activations(algorithm: str) -> str:
    return "relu only" if algorithm in RELU_ONLY else ", ".join(ACTIVATIONS)


def _actor_critic(agent: Imported, normalise_reward: bool | None) -> PPO | A2C:
    cfg, ppo = agent.cfg, agent.cfg.algorithm == "ppo"
    shape: dict[str, Any] = {"gamma": cfg.gamma, **_seen(agent, "normalise_obs")}
    if agent.vision is None:
        shape |= {"hidden": cfg.hidden, "activation": cfg.activation}
    if ppo:
        normalised = cfg.reward_scale != 1.0 if normalise_reward is None else normalise_reward
        made: PPO | A2C = PPO(PPOConfig(**shape, normalise_reward=normalised), agent.spec)
    else:
        normalised, made = False, A2C(A2CConfig(**shape), agent.spec)
    actor, critic = [*_layers(agent.trunk), _layer(agent.head)], _layers(agent.critics[0])
    scale = 1.0 if normalised else cfg.reward_scale
    tensors = _vision(agent, "net.trunk") or _ensemble("net.trunk", [actor[:-1], critic[:-1]])
    tensors |= _named("net.policy_head", actor[-1])
    tensors |= _named("net.value_head", _scaled(critic[-1], scale))
    tensors["net.log_std"] = agent.log_std if not agent.discrete else agent.log_std[:0]
    unpack(made.policy_parts, tensors | _statistics(agent, "net"))
    return made


def _dqn(agent: Imported, _: bool | None) -> DQN:
    cfg = agent.cfg
    settings: dict[str, Any] = {"gamma": cfg.gamma, "epsilon": constant(cfg.epsilon)}
    settings |= {} if cfg.images else {"hidden": cfg.hidden}
    made = DQN(DQNConfig(**settings, **_seen(agent, "normalise")), agent.spec)
    layers = [*_layers(agent.trunk), _scaled(_layer(agent.head), cfg.reward_scale)]
    tensors = _chain("q", layers) | _chain("target", layers)
    if agent.vision is not None:
        tensors = _vision(agent, "q") | _named("q.out", layers[-1])
        tensors |= _vision(agent, "target") | _named("target.out", layers[-1])
    unpack(made.policy_parts, tensors | _statistics(agent, "encoder"))
    return made


def _sac(agent: Imported, _: bool | None) -> SAC:
    """A SAC agent. α is rescaled, so that the entropy bonus keeps its weight relative to true rewards."""
    cfg = agent.cfg
    settings: dict[str, Any] = {"hidden": cfg.hidden, "activation": cfg.activation, "gamma": cfg.gamma}
    settings |= {"ensemble": cfg.critics, "alpha": cfg.alpha * cfg.reward_scale, **_seen(agent, "normalise")}
    made = SAC(SACConfig(**settings), agent.spec)
    (weight, bias), (spread, base) = _layer(agent.head), _layer(agent.spread)
    actor = [*_layers(agent.trunk), (torch.cat([weight, spread], 1), torch.cat([bias, base]))]
    tensors = _chain("actor", actor) | _critics(agent)
    tensors["log_alpha.0"] = torch.tensor(settings["alpha"]).log()
    unpack(made.policy_parts, tensors | _statistics(agent, "encoder"))
    return made


def _td3(agent: Imported, _: bool | None) -> TD3:
    cfg = agent.cfg
    made = TD3(TD3Config(hidden=cfg.hidden, gamma=cfg.gamma, **_seen(agent, "normalise")), agent.spec)
    actor = [*_layers(agent.trunk), _layer(agent.head)]
    tensors = _chain("actor", actor) | _chain("target_actor", actor) | _critics(agent)
    unpack(made.policy_parts, tensors | _statistics(agent, "encoder"))
    return made


BUILDERS: dict[str, Callable[[Imported, bool | None], Any]] = {
    "ppo": _actor_critic,
    "a2c": _actor_critic,
    "dqn": _dqn,
    "sac": _sac,
    "td3": _td3,
}


# -- tensors under the names of Cairn's networks


def _layer(linear: Any) -> Layer:
    return linear.weight.T, linear.bias


def _layers(stack: Any) -> list[Layer]:
    """The linear layers of `imported.stack`, which has activations between them."""
    return [_layer(one) for one in stack if isinstance(one, torch.nn.Linear)]


def _scaled(layer: Layer, factor: float) -> Layer:
    return layer[0] * factor, layer[1] * factor


def _named(name: str, layer: Layer) -> dict[str, Tensor]:
    return {f"{name}.weight": layer[0], f"{name}.bias": layer[1]}


def _chain(name: str, layers: list[Layer]) -> dict[str, Tensor]:
    """The tensors of an MLP."""
    return {key: x for i, layer in enumerate(layers) for key, x in _named(f"{name}.layers.{i}", layer).items()}


def _ensemble(name: str, members: list[list[Layer]]) -> dict[str, Tensor]:
    """The tensors of an MLP with members."""
    joined = [
        (torch.stack([w for w, _ in at]), torch.stack([b[None] for _, b in at])) for at in zip(*members, strict=True)
    ]
    return _chain(name, joined)


def _critics(agent: Imported) -> dict[str, Tensor]:
    """The tensors of Q(s, a) and its target, in true rewards."""
    members = [_layers(critic) for critic in agent.critics]
    members = [[*hidden, _scaled(last, agent.cfg.reward_scale)] for *hidden, last in members]
    return _ensemble("critic", members) | _ensemble("target_critic", members)


def _vision(agent: Imported, name: str) -> dict[str, Tensor]:
    """The tensors of the convolutions, which have Cairn's layout already; {} without images."""
    return {} if agent.vision is None else {f"{name}.{key}": x for key, x in agent.vision.state_dict().items()}


def _seen(agent: Imported, normalise: str) -> dict[str, Any]:
    """The settings for the normalisation of observations."""
    if agent.statistics is None:
        return {}
    return {normalise: True, "clip_obs": float(agent.statistics.clip[0])}


def _statistics(agent: Imported, part: str) -> dict[str, Tensor]:
    """Mean, variance and count for a `Normalizer`."""
    if agent.statistics is None:
        return {}
    seen, name = agent.statistics, f"{part}.normalizer"
    variance = (seen.scale.square() - VARIANCE).clamp(min=0.0)
    count = torch.tensor(agent.cfg.observations, dtype=torch.float64)
    return {f"{name}.mean": seen.mean, f"{name}.var": variance, f"{name}.count": count}
