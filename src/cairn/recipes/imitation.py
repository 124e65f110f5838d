"""Learners with an expert: clones of a walker, and those that come to outdo a weak one. And a walker without any."""

from __future__ import annotations

from dataclasses import replace

from cairn.agents import (
    AggreVaTeDConfig,
    BCConfig,
    DAggerConfig,
    DQNConfig,
    PPOConfig,
    ReinforceConfig,
    SACConfig,
)
from cairn.core.schedules import constant, linear
from cairn.train.recipe import Recipe

_CLONE = BCConfig(hidden=(256, 256), lr=linear(1e-3, 1e-5), batch_size=256, updates_per_step=1.0)
_WALKER = Recipe(
    env="BipedalWalker-v3",
    expert="bipedal-sac",
    agent=_CLONE,
    steps=100_000,
    envs=4,
    target=318,
    hold=2,
    eval_every=10_000,
    eval_episodes=20,
    checkpoint_every=50_000,
)
_REINFORCE = ReinforceConfig(
    hidden=(256, 256),
    lr=linear(1e-3, 1e-5),
    baseline="value",
    max_norm=1.0,
    log_std=-1.0,
    normalise_obs=True,
)
_WEAK = Recipe(env="CartPole-v1", agent=DQNConfig(), steps=100_000, hold=1, eval_every=500, eval_episodes=20)
_SMALL = AggreVaTeDConfig(
    learner=PPOConfig(hidden=(64, 64), lr=linear(1e-3, 0.0), batch_size=64, epochs=10),
    values="rollouts",
    judged=128,
    gamma=0.99,
    alpha_decay=0.8,
)

RECIPES = {
    "bipedal-bc": replace(_WALKER, about="an expert's actions, learned from its own trajectories only"),
    "bipedal-dagger": replace(
        _WALKER,
        agent=DAggerConfig(learner=_CLONE, alpha_decay=0.5),
        about="an expert's actions where the learner went; whole trajectories are mixed",
    ),
    "bipedal-aggrevated-reinforce": replace(
        _WALKER,
        agent=AggreVaTeDConfig(learner=_REINFORCE, updates=1000, batch_size=1024, alpha_decay=0.8),
        target=324.1,
        about="A* = Q* - V* of the expert's critics; actions drawn afresh for every gradient step; log σ kept below 1",
    ),
    "bipedal-aggrevated-ppo": replace(
        _WALKER,
        agent=AggreVaTeDConfig(
            learner=PPOConfig(
                hidden=(256, 256),
                lr=linear(5e-4, 1e-5),
                epochs=4,
                batch_size=256,
                clip=constant(0.2),
                max_norm=1.0,
                log_std=-1.0,
                normalise_obs=True,
            ),
            updates=10,
            batch_size=4096,
            alpha_decay=0.8,
        ),
        steps=200_000,
        envs=8,
        target=324.1,
        about="the same under the clipped surrogate: ratios against the learner that drew the action",
    ),
    "cartpole-weak": replace(
        _WEAK,
        agent=ReinforceConfig(hidden=(32,), lr=constant(1e-3)),
        envs=4,
        target=100,
        about="a deliberately imperfect expert: training stops at the first evaluation past 100",
    ),
    "cartpole-aggrevated": Recipe(
        env="CartPole-v1",
        expert="cartpole-weak",
        agent=_SMALL,
        steps=1_000_000,
        envs=8,
        target=475,
        hold=2,
        eval_every=50_000,
        eval_episodes=50,
        checkpoint_every=100_000,
        about="a weak expert plays on from the states met: its judgement is of what follows, and can be outdone",
    ),
    "acrobot-weak": replace(
        _WEAK,
        env="Acrobot-v1",
        agent=DQNConfig(hidden=(64, 64), epsilon=linear(1.0, 0.05, 0.1)),
        target=-180,
        about="a deliberately imperfect expert: training stops at the first evaluation past -180",
    ),
    "acrobot-aggrevated": Recipe(
        env="Acrobot-v1",
        expert="acrobot-weak",
        agent=AggreVaTeDConfig(
            learner=PPOConfig(hidden=(64, 64), lr=linear(5e-4, 0.0), batch_size=64, epochs=2),
            updates=10,
            batch_size=512,
            alpha_decay=0.8,
        ),
        steps=100_000,
        envs=8,
        target=-125,
        hold=3,
        eval_every=8_000,
        eval_episodes=50,
        checkpoint_every=50_000,
        about="a half-trained DQN and its critic: its trajectories are long, and playing on from them would cost more",
    ),
    "hopper-weak": replace(
        _WEAK,
        env="Hopper-v5",
        agent=SACConfig(hidden=(256, 256), lr=constant(1e-3), updates_per_step=0.5, learning_starts=5_000),
        steps=300_000,
        envs=4,
        target=1000,
        eval_every=5_000,
        about="a deliberately imperfect expert: training stops at the first evaluation past 1,000",
    ),
    "hopper-aggrevated": Recipe(
        env="Hopper-v5",
        expert="hopper-weak",
        agent=AggreVaTeDConfig(learner=_REINFORCE, updates=500, batch_size=1024, alpha_decay=0.9),
        steps=300_000,
        envs=8,
        target=1200,
        hold=2,
        eval_every=20_000,
        eval_episodes=20,
        checkpoint_every=50_000,
        about="a half-trained SAC and its critics: one step of improvement over it",
    ),
    "bipedal-reinforce": Recipe(
        env="BipedalWalker-v3",
        agent=ReinforceConfig(
            hidden=(256, 256),
            lr=linear(1e-3, 1e-4),
            gamma=0.99,
            baseline="value",
            max_norm=0.5,
            log_std=-0.5,
            normalise_obs=True,
        ),
        steps=50_000_000,
        envs=32,
        vector="async",
        target=200,
        hold=2,
        eval_every=500_000,
        eval_episodes=20,
        checkpoint_every=1_000_000,
        log_every=50_000,
        threads=2,
        about="no expert: whole episodes and one step for each batch of them",
    ),
}
