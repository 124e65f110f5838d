"""Stable-Baselines3's side: the same case with its own classes, no callbacks, nothing printed."""

from __future__ import annotations

import time
from typing import Any

import torch
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv
from torch import nn

from bench.cases import Case, DQNCase, PPOCase, SACCase
from bench.memory import peak_memory_mb
from bench.timing import Timing

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


def _ppo(case: PPOCase, common: dict[str, Any]) -> PPO:
    hidden = list(case.hidden)
    return PPO(
        "MlpPolicy",
        make_vec_env(case.env, case.envs, seed=0, vec_env_cls=VEC_ENVS[case.vec_env]),
        n_steps=case.horizon,
        n_epochs=case.epochs,
        gae_lambda=case.lam,
        clip_range=case.clip,
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
    return DQN(
        "MlpPolicy",
        make_vec_env(case.env, case.envs, seed=0),
        learning_starts=case.learning_starts,
        train_freq=case.train_freq,
        gradient_steps=case.gradient_steps,
        target_update_interval=case.target_steps,
        exploration_fraction=case.epsilon_share,
        exploration_final_eps=case.epsilon_end,
        buffer_size=case.capacity,
        policy_kwargs={"net_arch": list(case.hidden), "activation_fn": nn.ReLU},
        **common,
    )


def silent() -> Logger:
    """What `verbose=0` amounts to, without the empty folder that every call of `learn` would leave behind."""
    return Logger(folder=None, output_formats=[])


def updates_of(model: BaseAlgorithm) -> int:
    """Steps of Adam so far, by its own counter (the critics' for SAC)."""
    opt = model.critic.optimizer if isinstance(model, SAC) else model.policy.optimizer
    states = list(opt.state.values())
    return int(states[0]["step"]) if states else 0
