"""RLlib, by its newer interface, everything in this process: evaluations are its own, on its own seeds."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import ray
import torch
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.connectors.env_to_module import MeanStdFilter
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

from benchmarks.peers.tasks import EVAL_SEED, Judge, Task, asked


def config(task: Task) -> Any:
    kind: Any = {"dqn": DQNConfig, "ppo": PPOConfig}[task.algo]()
    filters = {"env_to_module_connector": lambda *_, **__: MeanStdFilter()} if task.normalise else {}
    made = (
        kind.environment(task.env)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=task.envs, **filters)
        .learners(num_learners=0)
        .evaluation(
            evaluation_interval=None,
            evaluation_num_env_runners=0,
            evaluation_duration=task.episodes,
            evaluation_duration_unit="episodes",
            evaluation_config={"explore": False, "seed": EVAL_SEED},
        )
        .debugging(seed=1, log_level="ERROR")
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=task.train_freq)
    )
    network: Any = {"fcnet_hiddens": list(task.hidden), "fcnet_activation": "tanh" if task.algo == "ppo" else "relu"}
    if task.algo == "ppo":
        made = made.rl_module(model_config=DefaultModelConfig(**network, vf_share_layers=False))
        return made.training(
            lr=task.lr,
            gamma=task.gamma,
            lambda_=task.lam,
            clip_param=task.clip,
            vf_clip_param=float("inf"),
            vf_loss_coeff=0.5,
            use_kl_loss=False,
            grad_clip=0.5,
            train_batch_size_per_learner=task.envs * task.horizon,
            minibatch_size=task.batch_size,
            num_epochs=task.epochs,
        )
    end = task.epsilon_end
    made = made.env_runners(rollout_fragment_length=2)  # an update of one batch every two steps
    made = made.rl_module(model_config=DefaultModelConfig(**network, head_fcnet_hiddens=[]))
    return made.training(
        lr=task.lr,
        gamma=task.gamma,
        train_batch_size_per_learner=task.batch_size,
        training_intensity=task.batch_size * task.gradient_steps / task.train_freq,
        num_steps_sampled_before_learning_starts=task.learning_starts,
        target_network_update_freq=task.train_freq,
        epsilon=[(0, 1.0), (task.epsilon_steps, end)],
        replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": task.capacity},
        double_q=False,
        dueling=False,
        n_step=1,
    )


def main() -> None:
    task, limit = asked()
    ray.init(include_dashboard=False, _node_ip_address="127.0.0.1", log_to_driver=False, num_cpus=2)
    torch.set_num_threads(1 if task.env == "CartPole-v1" else 2)
    algorithm = config(task).build_algo()

    def mean() -> float:
        return float(algorithm.evaluate()["env_runners"]["episode_return_mean"])

    judge, going = Judge(task, limit, None, mean=mean), True
    while going:
        found = algorithm.train()
        going = judge.ask(int(found["num_env_steps_sampled_lifetime"]))
    judge.tell({name: version(name) for name in ("ray", "torch", "gymnasium")})
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
