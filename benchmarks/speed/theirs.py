"""The peers' side: Stable-Baselines3, and SBX (JAX), which has its interface. No callbacks, nothing printed."""

from __future__ import annotations

import time
from typing import Any

import torch
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv, VecFrameStack
from torch import nn

from benchmarks.speed.cases import SCORE_SEED, Case, DQNCase, PPOCase, SACCase
from benchmarks.speed.memory import peak_memory_mb
from benchmarks.speed.timing import Timing

VEC_ENVS: dict[str, type[DummyVecEnv] | type[SubprocVecEnv]] = {
    "DummyVecEnv": DummyVecEnv,
    "SubprocVecEnv": SubprocVecEnv,
}


def measure(case: Case, steps: int, threads: int, package: str) -> Timing:
    """Time the second of two calls of `learn`: the first is the warm-up, and learning goes on where it stopped."""
    torch.set_num_threads(threads)
    model = model_of(case) if package == "stable-baselines3" else model_of_sbx(case)
    model.set_logger(silent())
    model.learn(case.warm)
    step, updates = model.num_timesteps, updates_of(model)
    start = time.perf_counter()
    model.learn(steps, reset_num_timesteps=False)
    seconds = time.perf_counter() - start
    memory = peak_memory_mb()
    training = model.get_env()
    assert training is not None
    training.close()
    judged = envs_of(case, min(case.episodes, 5), SCORE_SEED)
    score, _ = evaluate_policy(model, judged, case.episodes)
    judged.close()
    return Timing(seconds, model.num_timesteps - step, updates_of(model) - updates, memory, float(score))  # type: ignore[arg-type]


def model_of(case: Case) -> BaseAlgorithm:
    """A model of Stable-Baselines3."""
    kind, settings = settings_of(case)
    if case.env.startswith("ALE/"):
        if isinstance(case, DQNCase):
            settings |= {"optimize_memory_usage": True, "replay_buffer_kwargs": {"handle_timeout_termination": False}}
        return kind("CnnPolicy", envs_of(case, case.envs, 0), device="cpu", **settings)
    hidden = list(case.hidden)
    arch = {"pi": hidden, "vf": hidden} if isinstance(case, PPOCase) else hidden
    layers = {"net_arch": arch, "activation_fn": nn.Tanh if isinstance(case, PPOCase) else nn.ReLU}
    return kind("MlpPolicy", envs_of(case, case.envs, 0), device="cpu", policy_kwargs=layers, **settings)


def model_of_sbx(case: Case) -> BaseAlgorithm:
    """The same as a model of SBX, whose networks are Flax's."""
    import flax.linen
    import sbx

    kind, settings = settings_of(case)
    activation = flax.linen.tanh if isinstance(case, PPOCase) else flax.linen.relu
    layers = {"net_arch": list(case.hidden), "activation_fn": activation}
    model: BaseAlgorithm = getattr(sbx, kind.__name__)(
        "MlpPolicy", envs_of(case, case.envs, 0), policy_kwargs=layers, **settings
    )
    return model


def envs_of(case: Case, count: int, seed: int) -> VecEnv:
    """Environments to train or to be judged in; games with their own preprocessing, the last four frames."""
    kind = VEC_ENVS[case.vec_env if isinstance(case, PPOCase) else "DummyVecEnv"]
    if not case.env.startswith("ALE/"):
        return make_vec_env(case.env, count, seed=seed, vec_env_cls=kind)
    import ale_py
    import gymnasium

    gymnasium.register_envs(ale_py)
    plain = {"frameskip": 1, "repeat_action_probability": 0.0}
    return VecFrameStack(make_atari_env(case.env, count, seed=seed, env_kwargs=plain, vec_env_cls=kind), 4)


def settings_of(case: Case) -> tuple[Any, dict[str, Any]]:
    """The class of Stable-Baselines3, and its arguments but the network's."""
    common: dict[str, Any] = {
        "learning_rate": case.lr,
        "batch_size": case.batch_size,
        "gamma": case.gamma,
        "verbose": 0,
        "seed": 0,
    }
    match case:
        case PPOCase():
            rollout = {"n_steps": case.horizon, "n_epochs": case.epochs}
            return PPO, {**common, **rollout, "gae_lambda": case.lam, "clip_range": case.clip}
        case SACCase():
            return SAC, {
                **common,
                "learning_starts": case.learning_starts,
                "train_freq": 1,
                "gradient_steps": 1,
                "tau": case.tau,
                "buffer_size": case.capacity,
            }
        case DQNCase():
            return DQN, {
                **common,
                "learning_starts": case.learning_starts,
                "train_freq": case.train_freq,
                "gradient_steps": case.gradient_steps,
                "target_update_interval": case.target_steps,
                "exploration_fraction": case.epsilon_share,
                "exploration_final_eps": case.epsilon_end,
                "buffer_size": case.capacity,
            }
    raise TypeError(f"no model of Stable-Baselines3 for {case.name}")


def silent() -> Logger:
    """What `verbose=0` amounts to, without the empty folder that every call of `learn` would leave behind."""
    return Logger(folder=None, output_formats=[])


def updates_of(model: Any) -> int:
    """Steps of Adam so far, by its own counter (the critics' for SAC)."""
    if hasattr(model.policy, "qf_state"):  # SBX: TrainStates of Flax
        return int(model.policy.qf_state.step)
    if hasattr(model.policy, "actor_state"):
        return int(model.policy.actor_state.step)
    opt = model.critic.optimizer if isinstance(model, SAC) else model.policy.optimizer
    states = list(opt.state.values())
    return int(states[0]["step"]) if states else 0
