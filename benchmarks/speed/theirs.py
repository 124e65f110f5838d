"""Stable-Baselines3's side: the same case with its own classes, no callbacks, nothing printed."""

from __future__ import annotations

import time
from typing import Any

import ale_py
import gymnasium
import torch
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack
from torch import nn

from benchmarks.speed.cases import Case, DQNCase, PPOCase, SACCase
from benchmarks.speed.memory import peak_memory_mb
from benchmarks.speed.timing import Timing

gymnasium.register_envs(ale_py)
VEC_ENVS: dict[str, type[DummyVecEnv] | type[SubprocVecEnv]] = {
    "DummyVecEnv": DummyVecEnv,
    "SubprocVecEnv": SubprocVecEnv,
}


def measure(case: Case, steps: int, threads: int) -> Timing:
    """Time the second of two calls of `learn`: the first is the warm-up, and learning goes on where it stopped."""
    torch.set_num_threads(threads)
    model = model_of(case)
    model.set_logger(silent())
    model.learn(case.warm)
    step, updates = model.num_timesteps, updates_of(model)
    start = time.perf_counter()
    model.learn(steps, reset_num_timesteps=False)
    seconds = time.perf_counter() - start
    timing = Timing(seconds, model.num_timesteps - step, updates_of(model) - updates, peak_memory_mb())
    model.get_env().close()  # type: ignore[union-attr]
    return timing


def model_of(case: Case) -> BaseAlgorithm:
    common: dict[str, Any] = {
        "learning_rate": case.lr,
        "batch_size": case.batch_size,
        "gamma": case.gamma,
        "device": "cpu",
        "verbose": 0,
        "seed": 0,
    }
    match case:
        case PPOCase():
            return _ppo(case, common)
        case SACCase():
            return _sac(case, common)
        case DQNCase():
            return _dqn(case, common)
    raise TypeError(f"no Stable-Baselines3 model for {case.name}")


def games(case: Case, kind: type[DummyVecEnv] | type[SubprocVecEnv]) -> VecFrameStack:
    """Their own preprocessing over the emulator without its skip and its sticky actions, the last four frames."""
    plain = {"frameskip": 1, "repeat_action_probability": 0.0}
    return VecFrameStack(make_atari_env(case.env, case.envs, seed=0, env_kwargs=plain, vec_env_cls=kind), 4)


def _ppo(case: PPOCase, common: dict[str, Any]) -> PPO:
    hidden = list(case.hidden)
    rollout: dict[str, Any] = {"n_steps": case.horizon, "n_epochs": case.epochs}
    rollout |= {"gae_lambda": case.lam, "clip_range": case.clip}
    if case.env.startswith("ALE/"):
        return PPO("CnnPolicy", games(case, VEC_ENVS[case.vec_env]), **rollout, **common)
    return PPO(
        "MlpPolicy",
        make_vec_env(case.env, case.envs, seed=0, vec_env_cls=VEC_ENVS[case.vec_env]),
        **rollout,
        policy_kwargs={"net_arch": {"pi": hidden, "vf": hidden}, "activation_fn": nn.Tanh},
        **common,
    )


def _sac(case: SACCase, common: dict[str, Any]) -> SAC:
    return SAC(
        "MlpPolicy",
        make_vec_env(case.env, case.envs, seed=0),
        learning_starts=case.learning_starts,
        train_freq=1,
        gradient_steps=1,
        tau=case.tau,
        buffer_size=case.capacity,
        policy_kwargs={"net_arch": list(case.hidden), "activation_fn": nn.ReLU},
        **common,
    )


def _dqn(case: DQNCase, common: dict[str, Any]) -> DQN:
    options: dict[str, Any] = {
        "learning_starts": case.learning_starts,
        "train_freq": case.train_freq,
        "gradient_steps": case.gradient_steps,
        "target_update_interval": case.target_steps,
        "exploration_fraction": case.epsilon_share,
        "exploration_final_eps": case.epsilon_end,
        "buffer_size": case.capacity,
        **common,
    }
    if case.env.startswith("ALE/"):
        once = {"optimize_memory_usage": True, "replay_buffer_kwargs": {"handle_timeout_termination": False}}
        return DQN("CnnPolicy", games(case, DummyVecEnv), **once, **options)
    layers = {"net_arch": list(case.hidden), "activation_fn": nn.ReLU}
    return DQN("MlpPolicy", make_vec_env(case.env, case.envs, seed=0), policy_kwargs=layers, **options)


def silent() -> Logger:
    """What `verbose=0` amounts to, without the empty folder that every call of `learn` would leave behind."""
    return Logger(folder=None, output_formats=[])


def updates_of(model: BaseAlgorithm) -> int:
    """Steps of Adam so far, by its own counter (the critics' for SAC)."""
    opt = model.critic.optimizer if isinstance(model, SAC) else model.policy.optimizer
    states = list(opt.state.values())
    return int(states[0]["step"]) if states else 0
