"""Tianshou, by its procedural interface: collect, update, and again."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from tianshou.algorithm import DQN, PPO
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch, Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, VectorEnvNormObs
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic
from tianshou.utils.torch_utils import policy_within_training_step
from torch import nn
from torch.distributions import Categorical, Independent, Normal

from benchmarks.peers.tasks import Judge, Task, asked


def ppo(task: Task, env: gym.Env[Any, Any]) -> PPO:
    def body() -> Net:
        return Net(state_shape=env.observation_space.shape, hidden_sizes=list(task.hidden), activation=nn.Tanh)

    discrete = isinstance(env.action_space, gym.spaces.Discrete)
    if discrete:
        actor: Any = DiscreteActor(preprocess_net=body(), action_shape=env.action_space.n, softmax_output=False)
        critic: Any = DiscreteCritic(preprocess_net=body())
    else:
        actor = ContinuousActorProbabilistic(preprocess_net=body(), action_shape=env.action_space.shape, unbounded=True)
        critic = ContinuousCritic(preprocess_net=body())
    for module in [*actor.modules(), *critic.modules()]:
        if isinstance(module, nn.Linear):
            nn.init.orthogonal_(module.weight, 2**0.5)
            nn.init.zeros_(module.bias)
    policy = ProbabilisticActorPolicy(
        actor=actor,
        dist_fn=(lambda logits: Categorical(logits=logits)) if discrete else _normal,
        deterministic_eval=True,
        action_space=env.action_space,
        action_scaling=not discrete,
        action_bound_method=None if discrete else "clip",
    )
    return PPO(
        policy=policy,
        critic=critic,
        optim=AdamOptimizerFactory(lr=task.lr, eps=1e-5),
        eps_clip=task.clip,
        ent_coef=0.0,
        vf_coef=0.5,
        max_grad_norm=0.5,
        gae_lambda=task.lam,
        gamma=task.gamma,
        max_batchsize=4096,
        return_scaling=task.normalise,
    )


def _normal(loc_scale: tuple[torch.Tensor, torch.Tensor]) -> Independent:
    return Independent(Normal(*loc_scale), 1)


def dqn(task: Task, env: gym.Env[Any, Any]) -> DQN:
    shape: Any = {"state_shape": env.observation_space.shape, "action_shape": env.action_space.n}
    policy = DiscreteQLearningPolicy(
        model=Net(**shape, hidden_sizes=list(task.hidden)), action_space=env.action_space, eps_training=1.0
    )
    return DQN(
        policy=policy,
        optim=AdamOptimizerFactory(lr=task.lr),
        gamma=task.gamma,
        target_update_freq=task.gradient_steps,
        is_double=False,
        huber_loss_delta=1.0,
    )


def main() -> None:
    task, limit = asked()
    torch.manual_seed(1)
    torch.set_num_threads(1 if task.env == "CartPole-v1" else 2)
    one = gym.make(task.env)
    envs: Any = DummyVectorEnv([lambda: gym.make(task.env) for _ in range(task.envs)])
    if task.normalise:
        envs = VectorEnvNormObs(envs)
    envs.seed(1)
    algorithm: Any = ppo(task, one) if task.algo == "ppo" else dqn(task, one)
    policy = algorithm.policy
    size = task.horizon * task.envs if task.algo == "ppo" else task.capacity
    collector = Collector(algorithm, envs, VectorReplayBuffer(size, task.envs), exploration_noise=task.algo == "dqn")
    collector.reset()

    def act(obs: Any) -> Any:
        seen = (obs - envs.get_obs_rms().mean) / (envs.get_obs_rms().var + 1e-8) ** 0.5 if task.normalise else obs
        with torch.no_grad():
            action = policy(Batch(obs=seen[None], info={})).act
        return policy.map_action(np.asarray(action))[0]

    judge, steps, going = Judge(task, limit, act), 0, True
    while going:
        if task.algo == "ppo":
            with policy_within_training_step(policy):
                steps += collector.collect(n_step=size).n_collected_steps
                algorithm.update(buffer=collector.buffer, batch_size=task.batch_size, repeat=task.epochs)
            collector.reset_buffer(keep_statistics=True)
        else:
            left = max(1 - steps / task.epsilon_steps, 0.0)
            policy.set_eps_training(task.epsilon_end + left * (1 - task.epsilon_end))
            with policy_within_training_step(policy):
                steps += collector.collect(
                    n_step=task.train_freq, random=steps < task.learning_starts
                ).n_collected_steps
                if steps >= task.learning_starts:
                    for _ in range(task.gradient_steps):
                        algorithm.update(buffer=collector.buffer, sample_size=task.batch_size)
        going = judge.ask(steps)
    judge.tell({name: version(name) for name in ("tianshou", "torch", "gymnasium")})


if __name__ == "__main__":
    main()
