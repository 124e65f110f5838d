"""Stable-Baselines3, and SBX, which has its interface: `python -m benchmarks.peers.sb3 TASK LIMIT [sbx]`."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Any

import gymnasium as gym
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from benchmarks.peers.tasks import Judge, Task, asked


class Asking(BaseCallback):
    """Asks the judge after every rollout, which is when the policy has changed."""

    def __init__(self, judge: Judge) -> None:
        super().__init__()
        self.judge, self.on = judge, True

    def _on_rollout_start(self) -> None:
        if self.num_timesteps:
            self.on = self.judge.ask(self.num_timesteps)

    def _on_step(self) -> bool:
        return self.on


def settings(task: Task, sbx: bool) -> dict[str, Any]:
    if sbx:
        import flax.linen as nn

        arch: Any = {"net_arch": list(task.hidden), "activation_fn": nn.tanh if task.algo == "ppo" else nn.relu}
    else:
        arch = {"net_arch": list(task.hidden)}  # tanh for ppo, relu for dqn: its own defaults
    common = {"learning_rate": task.lr, "batch_size": task.batch_size, "gamma": task.gamma, "policy_kwargs": arch}
    if task.algo == "ppo":
        common |= {"n_steps": task.horizon, "n_epochs": task.epochs, "gae_lambda": task.lam, "clip_range": task.clip}
        return common
    return common | {
        "learning_starts": task.learning_starts,
        "train_freq": task.train_freq,
        "gradient_steps": task.gradient_steps,
        "target_update_interval": task.target_steps,
        "exploration_final_eps": task.epsilon_end,
        "exploration_fraction": task.epsilon_steps / task.steps,
        "buffer_size": task.capacity,
    }


def main() -> None:
    task, limit = asked()
    sbx = "sbx" in sys.argv[3:]
    if sbx:
        from sbx import DQN, PPO
    else:
        import torch
        from stable_baselines3 import DQN, PPO  # type: ignore[assignment]

        torch.set_num_threads(1 if task.env == "CartPole-v1" else 2)
    envs: Any = make_vec_env(task.env, n_envs=task.envs, seed=1)
    if task.normalise:
        envs = VecNormalize(envs, gamma=task.gamma)
    more: dict[str, Any] = {} if sbx else {"device": "cpu"}
    kind: Any = {"dqn": DQN, "ppo": PPO}[task.algo]
    model = kind("MlpPolicy", envs, seed=1, **settings(task, sbx), **more)
    seen = envs.normalize_obs if task.normalise else lambda obs: obs
    space = gym.make(task.env).action_space
    judge = Judge(task, limit, lambda obs: _one(model.predict(seen(obs), deterministic=True)[0], space))
    model.learn(task.steps, callback=Asking(judge))
    names = ("sbx-rl", "jax", "gymnasium") if sbx else ("stable-baselines3", "torch", "gymnasium")
    judge.tell({name: version(name) for name in names})


def _one(action: Any, space: Any) -> Any:
    return int(action) if isinstance(space, gym.spaces.Discrete) else action


if __name__ == "__main__":
    main()
