"""Cairn agents as models of Stable-Baselines3, which can save them. `runs.serving` writes the files."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from cairn.algorithms.registry import agent_name
from cairn.algorithms.settings import as_trainable
from cairn.core.errors import CairnError
from cairn.core.types import Box, Composite, Discrete, MultiDiscrete
from cairn.nets.cnn import sees_images

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "silu": nn.SiLU}
SHARED = ("features_extractor", "pi_features_extractor", "vf_features_extractor")  # one network, saved three times
PARTS = ("observation", "achieved_goal", "desired_goal")  # the order of a row in Cairn

Named = dict[str, Tensor]
Layer = tuple[Tensor, Tensor]  # weight [out, in] and bias [out], as in torch


def as_sb3(agent: Any, task: gym.Env[Any, Any]) -> tuple[Any, Any]:
    """The model of Stable-Baselines3 with the same actions, and its VecNormalize; None if it needs none.

    Raises CairnError where Stable-Baselines3 is not installed or has no such network.
    """
    if importlib.util.find_spec("stable_baselines3") is None:
        raise CairnError("files of Stable-Baselines3 need an extra: pip install 'cairn-rl[sb3]'.")
    agent = as_trainable(agent)
    kind, space = agent_name(agent.cfg), task.observation_space
    _check(agent, kind)
    from stable_baselines3.common.vec_env import DummyVecEnv

    envs = DummyVecEnv([lambda: _Spaces(space, task.action_space)])
    policy = "MultiInputPolicy" if isinstance(space, spaces.Dict) else "MlpPolicy"
    policy = "CnnPolicy" if sees_images(agent.spec) else policy
    model, tensors = WRITERS[kind](agent, policy, envs, _columns(space, agent.spec.goal))
    missing, unknown = model.policy.load_state_dict(tensors, strict=False)
    if missing or unknown:
        raise CairnError(f"this Stable-Baselines3 names its tensors otherwise ({[*missing, *unknown][0]}).")
    return model, _normalizer(agent, envs)


class _Spaces(gym.Env[Any, Any]):
    """An environment that only has spaces."""

    def __init__(self, observations: Any, actions: Any) -> None:
        self.observation_space, self.action_space = observations, actions


def _check(agent: Any, kind: str) -> None:
    spec = agent.spec
    why = ""
    if kind not in WRITERS:
        why = f"{kind} has no counterpart there; {', '.join(WRITERS)} have one"
    elif sees_images(spec) and agent.cfg.cnn != "nature":
        why = f"images are read by agent.cnn {agent.cfg.cnn}, and there by nature"
    elif spec.masked:
        why = "it was trained with action masks, which are read by sb3-contrib and not there"
    elif agent.own is not None and agent.own.names():
        why = "its networks are your own"
    elif agent.core is not None:
        why = f"it remembers earlier observations by agent.memory {agent.cfg.memory}, and there is none"
    elif spec.parts:
        why = f"its observation has several parts ({', '.join(part.name for part in spec.parts)})"
    elif isinstance(spec.action, (Composite, MultiDiscrete)):
        why = "its actions consist of several choices"
    elif isinstance(spec.action, Discrete) and spec.action.start:
        why = f"its actions begin at {spec.action.start}, and there they begin at 0"
    elif isinstance(spec.action, Box) and spec.action.whole:
        why = "its actions are whole numbers in a Box"
    else:
        for name in ("dueling", "quantiles", "layer_norm", "relative_goals"):
            if vars(agent.cfg).get(name):
                why = f"it was trained with agent.{name}, which is not offered there"
    if why:
        raise CairnError(f"this policy cannot be written for Stable-Baselines3: {why}.")


def _columns(space: Any, goal: Any) -> Tensor | None:
    """For each input of their networks its column in Cairn's row; None if the order is the same."""
    if not isinstance(space, spaces.Dict):
        return None
    ends = np.cumsum([spaces.flatdim(space[key]) for key in PARTS])
    places = {key: np.arange(end - spaces.flatdim(space[key]), end) for key, end in zip(PARTS, ends, strict=True)}
    return torch.from_numpy(np.concatenate([places[key] for key in space.spaces]))


# -- the algorithms


def _actor_critic(agent: Any, policy: str, envs: Any, columns: Tensor | None) -> tuple[Any, Named]:
    """For ppo and a2c. SB3 acts in the environment's units: the last layer and log σ include the conversion."""
    import stable_baselines3

    cfg, net = agent.cfg, agent.net
    hidden = [] if net.images else list(cfg.hidden)
    settings: dict[str, Any] = {"n_steps": cfg.horizon, "gae_lambda": cfg.lam, "vf_coef": cfg.value_weight}
    settings |= {"ent_coef": cfg.entropy_weight(1.0), "max_grad_norm": cfg.max_norm}
    cls: Any = stable_baselines3.A2C
    if agent_name(cfg) == "ppo":
        cls = stable_baselines3.PPO
        settings |= {"n_epochs": cfg.epochs, "batch_size": min(cfg.batch_size, cfg.horizon), "target_kl": cfg.target_kl}
        settings |= {"clip_range": cfg.clip(1.0), "clip_range_vf": cfg.value_clip}
        settings["n_steps"] = max(cfg.horizon, 2)
    else:
        settings |= {"use_rms_prop": cfg.rmsprop, "normalize_advantage": cfg.normalise_advantage}
    shape = {"net_arch": {"pi": hidden, "vf": hidden}, "activation_fn": ACTIVATIONS[cfg.activation]}
    model = cls(policy, envs, **_common(cfg), **settings, policy_kwargs=shape)
    actor, critic = ([], []) if net.images else _members(net.trunk)
    head, log_std = _layer(net.policy_head), net.log_std.detach()
    space = agent.spec.action
    if isinstance(space, Box) and space.bounded:
        low, high = torch.tensor(space.low), torch.tensor(space.high)
        half = 0.5 * (high - low)
        head = head[0] * half[:, None], (head[1] + 1.0) * half + low
        log_std = log_std + torch.where(half > 0, half, 1.0).log()
    tensors: Named = {}
    for name in SHARED if net.images else ():
        tensors |= _vision(name, net.trunk)
    tensors |= _sequence("mlp_extractor.policy_net", _reordered(actor, columns))
    tensors |= _sequence("mlp_extractor.value_net", _reordered(critic, columns))
    tensors |= _named("action_net", head) | _named("value_net", _layer(net.value_head))
    return model, tensors | ({"log_std": log_std} if isinstance(space, Box) else {})


def _dqn(agent: Any, policy: str, envs: Any, columns: Tensor | None) -> tuple[Any, Named]:
    import stable_baselines3

    cfg, left, images = agent.cfg, agent.cfg.epsilon(1.0), sees_images(agent.spec)
    settings = {**_off_policy(cfg), "exploration_final_eps": left, "max_grad_norm": cfg.max_norm}
    shape = {"net_arch": [] if images else list(cfg.hidden), "activation_fn": nn.ReLU}
    model = stable_baselines3.DQN(policy, envs, **_common(cfg), **settings, policy_kwargs=shape)
    model.buffer_size, model.exploration_rate = cfg.capacity, left
    tensors: Named = {}
    for name, net in (("q_net", agent.q), ("q_net_target", agent.target)):
        if images:
            tensors |= _vision(f"{name}.features_extractor", net)
        layers = [_layer(net.out)] if images else _reordered(_layers(net), columns)
        tensors |= _sequence(f"{name}.q_net", layers)
    return model, tensors


def _sac(agent: Any, policy: str, envs: Any, columns: Tensor | None) -> tuple[Any, Named]:
    import stable_baselines3

    cfg, hidden, alpha = agent.cfg, list(agent.cfg.hidden), float(agent.alpha)
    settings = {**_off_policy(cfg), "ent_coef": f"auto_{alpha}" if cfg.learn_alpha else alpha}
    settings["target_entropy"] = agent.target_entropy
    shape = {"net_arch": hidden, "activation_fn": ACTIVATIONS[cfg.activation], "n_critics": cfg.ensemble}
    model = stable_baselines3.SAC(policy, envs, **_common(cfg), **settings, policy_kwargs=shape)
    model.buffer_size = cfg.capacity
    *trunk, (weight, bias) = _reordered(_layers(agent.actor), columns)
    (mean, spread), (middle, base) = weight.chunk(2), bias.chunk(2)
    tensors = _sequence("actor.latent_pi", trunk)
    tensors |= _named("actor.mu", (mean, middle)) | _named("actor.log_std", (spread, base))
    return model, tensors | _critics(agent, columns)


def _td3(agent: Any, policy: str, envs: Any, columns: Tensor | None) -> tuple[Any, Named]:
    import stable_baselines3

    cfg = agent.cfg
    settings = {**_off_policy(cfg), "policy_delay": cfg.policy_delay, "target_policy_noise": cfg.target_noise}
    settings["target_noise_clip"] = cfg.noise_clip
    shape = {"net_arch": list(cfg.hidden), "activation_fn": nn.ReLU}
    model = stable_baselines3.TD3(policy, envs, **_common(cfg), **settings, policy_kwargs=shape)
    model.buffer_size = cfg.capacity
    tensors = _sequence("actor.mu", _reordered(_layers(agent.actor), columns))
    tensors |= _sequence("actor_target.mu", _reordered(_layers(agent.target_actor), columns))
    return model, tensors | _critics(agent, columns)


WRITERS: dict[str, Callable[[Any, str, Any, Tensor | None], tuple[Any, Named]]] = {
    "ppo": _actor_critic,
    "a2c": _actor_critic,
    "dqn": _dqn,
    "sac": _sac,
    "td3": _td3,
}


def _common(cfg: Any) -> dict[str, Any]:
    """Common settings. Schedules are taken at their ends; a learning rate that fell to 0 at its start."""
    return {"learning_rate": cfg.lr(1.0) or cfg.lr(0.0), "gamma": cfg.gamma, "device": "cpu"}


def _off_policy(cfg: Any) -> dict[str, Any]:
    """Common settings with a minimal replay buffer; its size is set after the model is made."""
    settings = {"tau": cfg.tau, "batch_size": cfg.batch_size, "learning_starts": cfg.learning_starts}
    return {**settings, "buffer_size": 1}


# -- layers by their names


def _layer(linear: Any) -> Layer:
    return linear.weight.detach().T, linear.bias.detach()


def _layers(mlp: Any) -> list[Layer]:
    return [_layer(one) for one in mlp.layers]


def _vision(name: str, cnn: Any) -> Named:
    """Convolutions and dense layer under the names of SB3."""
    convolutions = [(one.weight.detach(), one.bias.detach()) for one in cnn.convolutions]
    return _sequence(f"{name}.cnn", convolutions) | _named(f"{name}.linear.0", _layer(cnn.dense))


def _members(mlp: Any) -> list[list[Layer]]:
    """The layers of each member of an ensemble."""
    pairs = [(one.weight.detach(), one.bias.detach()) for one in mlp.layers]
    return [[(weight[i].T, bias[i, 0]) for weight, bias in pairs] for i in range(len(pairs[0][0]))]


def _reordered(layers: list[Layer], columns: Tensor | None) -> list[Layer]:
    """Layers with their inputs in another order. A critic's further inputs are actions, which stay in place."""
    if columns is None:
        return layers
    (weight, bias), *rest = layers
    return [(weight[:, torch.cat([columns, torch.arange(len(columns), weight.shape[1])])], bias), *rest]


def _named(name: str, layer: Layer) -> Named:
    return {f"{name}.weight": layer[0], f"{name}.bias": layer[1]}


def _sequence(name: str, layers: list[Layer]) -> Named:
    """Layers name.0, name.2, ...; the numbers between are activations."""
    return {key: x for i, layer in enumerate(layers) for key, x in _named(f"{name}.{2 * i}", layer).items()}


def _critics(agent: Any, columns: Tensor | None) -> Named:
    tensors: Named = {}
    for name, critic in (("critic", agent.critic), ("critic_target", agent.target_critic)):
        for i, layers in enumerate(_members(critic)):
            tensors |= _sequence(f"{name}.qf{i}", _reordered(layers, columns))
    return tensors


def _normalizer(agent: Any, envs: Any) -> Any:
    """A VecNormalize with the agent's observation statistics; None if it has none."""
    from stable_baselines3.common.vec_env import VecNormalize

    parts = (
        module for part in agent.policy_parts.values() for name, module in part.named_modules() if name == "normalizer"
    )
    found: Any = next(parts, None)
    if found is None:
        return None
    made = VecNormalize(envs, norm_reward=bool(vars(agent.cfg).get("normalise_reward")), clip_obs=found.clip)
    made.gamma = agent.cfg.gamma
    mean, var, count = (x.numpy().copy() for x in (found.mean, found.var, found.count))
    if isinstance(made.obs_rms, dict):
        ends = np.cumsum([spaces.flatdim(envs.observation_space[key]) for key in PARTS])
        for key, end in zip(PARTS, ends, strict=True):
            rms = made.obs_rms[key]
            part = slice(end - rms.mean.size, end)
            rms.mean, rms.var, rms.count = (
                mean[part].reshape(rms.mean.shape),
                var[part].reshape(rms.var.shape),
                float(count),
            )
    else:
        shape = made.obs_rms.mean.shape
        made.obs_rms.mean, made.obs_rms.var, made.obs_rms.count = mean.reshape(shape), var.reshape(shape), float(count)
    if made.norm_reward:
        made.ret_rms.var, made.ret_rms.count = agent.returns.scale.var.numpy().copy(), float(agent.returns.scale.count)
    return made
