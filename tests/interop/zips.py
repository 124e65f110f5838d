"""Files as Stable-Baselines3 and gym write them, made by hand: neither is needed to write them, nor to read them."""

import base64
import io
import json
import os
import pickle
import sys
import types
import zipfile
from itertools import pairwise
from unittest import mock

import numpy as np
import torch

KINDS = {}


def kind(name):
    """A class that pickles under a foreign name, 'gym.spaces.box.Box'."""
    if name not in KINDS:
        module, _, label = name.rpartition(".")
        KINDS[name] = type(label, (), {"__module__": module})
    return KINDS[name]


def thing(name, **state):
    made = kind(name)()
    made.__dict__.update(state)
    return made


def dumps(value, protocol=4):
    modules = {}
    for name, cls in KINDS.items():
        path = name.split(".")[:-1]
        for depth in range(1, len(path) + 1):
            modules.setdefault(".".join(path[:depth]), types.ModuleType(path[depth - 1]))
        setattr(modules[".".join(path)], cls.__name__, cls)
    with mock.patch.dict(sys.modules, modules):
        return pickle.dumps(value, protocol)


def box(low, high, shape=None):
    low, high = np.asarray(low, np.float32), np.asarray(high, np.float32)
    return thing("gym.spaces.box.Box", dtype=low.dtype, shape=shape or low.shape, low=low, high=high, _np_random=None)


def seen(width):
    return box(np.full(width, -np.inf), np.full(width, np.inf))


def choice(n):
    return thing("gym.spaces.discrete.Discrete", n=n, shape=(), dtype=np.dtype("int64"))


def parted(**parts):
    return thing("gymnasium.spaces.dict.Dict", spaces=parts)


POLICY = {
    "ppo": "stable_baselines3.common.policies.ActorCriticPolicy",
    "a2c": "stable_baselines3.common.policies.ActorCriticPolicy",
    "sac": "stable_baselines3.sac.policies.SACPolicy",
    "td3": "stable_baselines3.td3.policies.TD3Policy",
    "ddpg": "stable_baselines3.td3.policies.TD3Policy",
    "dqn": "stable_baselines3.dqn.policies.DQNPolicy",
}


def packed(value):
    """As their JSON holds what is not JSON."""
    blob = value if isinstance(value, bytes) else dumps(value)
    return {":type:": str(type(value)), ":serialized:": base64.b64encode(blob).decode()}


def write(path, algorithm, tensors, obs, action, settings=None, **data):
    """A zip at `path`. Values of `data` that are not JSON, or that are bytes, are packed as pickles."""
    data = {
        "policy_class": kind(POLICY[algorithm]),
        "observation_space": obs,
        "action_space": action,
        "policy_kwargs": settings or {},
        "gamma": 0.98,
        "lr_schedule": b"never opened",
        **({"clip_range": b"never opened"} if algorithm == "ppo" else {}),
        **({"policy_delay": 1 if algorithm == "ddpg" else 2} if algorithm in ("td3", "ddpg") else {}),
        **data,
    }
    plain = {}
    for key, value in data.items():
        try:
            plain[key] = json.loads(json.dumps(value))
        except TypeError:
            plain[key] = packed(value)
    blob = tensors
    if not isinstance(tensors, bytes):
        file = io.BytesIO()
        torch.save(tensors, file)
        blob = file.getvalue()
    with zipfile.ZipFile(path, "w") as entries:
        entries.writestr("data", json.dumps(plain))
        entries.writestr("policy.pth", blob)
        entries.writestr("_stable_baselines3_version", "1.0")
    return path


def old(tensors):
    """Named tensors as torch wrote them before 1.6."""
    file = io.BytesIO()
    torch.save(tensors, file, _use_new_zipfile_serialization=False)
    return file.getvalue()


class Weights(dict):
    """Named tensors of layers that are about as wide awake as trained ones."""

    def __init__(self, seed=0):
        self.generator = torch.Generator().manual_seed(seed)

    def draw(self, *shape, scale=1.0):
        return scale * torch.randn(shape, generator=self.generator)

    def linear(self, name, fan_in, fan_out):
        self[f"{name}.weight"] = self.draw(fan_out, fan_in, scale=fan_in**-0.5)
        self[f"{name}.bias"] = self.draw(fan_out, scale=0.3)
        return self

    def mlp(self, name, *widths):
        for i, (a, b) in enumerate(pairwise(widths)):
            self.linear(f"{name}.{2 * i}", a, b)
        return self


def actor_critic(obs, actions, pi=(64, 64), vf=(64, 64), log_std=None, seed=0):
    out = Weights(seed).mlp("mlp_extractor.policy_net", obs, *pi).mlp("mlp_extractor.value_net", obs, *vf)
    out.linear("action_net", (obs, *pi)[-1], actions).linear("value_net", (obs, *vf)[-1], 1)
    if log_std is not None:
        out["log_std"] = out.draw(*log_std, scale=0.3) - 1.0
    return out


def off_policy(obs, actions, pi, qf, critics=2, sde=False, mu=None, seed=0):
    """sac's where `mu` names the mean's layer, else td3's."""
    out = Weights(seed)
    if mu is None:
        out.mlp("actor.mu", obs, *pi, actions).mlp("actor_target.mu", obs, *pi, actions)
    else:
        latent = (obs, *pi)[-1]
        out.mlp("actor.latent_pi", obs, *pi).linear(mu, latent, actions)
        if sde:
            out["actor.log_std"] = out.draw(latent, actions, scale=0.3) - 2.0
        else:
            out.linear("actor.log_std", latent, actions)
    for target in ("critic", "critic_target"):
        for i in range(critics):
            out.mlp(f"{target}.qf{i}", obs + actions, *qf, 1)
    return out


def statistics(mean, var, ret_var=4.0, protocol=4, **changes):
    """The pickle of a VecNormalize; mean and var are arrays, or dictionaries of them."""

    def moments(mean, var):
        return thing("stable_baselines3.common.running_mean_std.RunningMeanStd", mean=mean, var=var, count=1e4)

    each = {k: moments(mean[k], var[k]) for k in mean} if isinstance(mean, dict) else moments(mean, var)
    state = {
        "obs_rms": each,
        "ret_rms": moments(np.float64(0.5), np.float64(ret_var)),
        "clip_obs": 2.0,
        "epsilon": 1e-8,
        "norm_obs": True,
        "norm_reward": True,
        "action_space": choice(2),
        "np_random": np.random.RandomState(0),
    }
    return dumps(thing("stable_baselines3.common.vec_env.vec_normalize.VecNormalize", **state | changes), protocol)


class Bomb:
    """Unpickled, it leaves a file at `marker`."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)
