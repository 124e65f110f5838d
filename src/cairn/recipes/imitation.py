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

_CLONE = BCConfig(hidden=(256, 256), lr=linear(1e-3, 0.0), batch_size=256, updates_per_step=0.5, noise=0.2, cut=800)
_WALKER = Recipe(
    env="BipedalWalker-v3",
    expert="bipedal-sac",
    agent=_CLONE,
    steps=100_000,
    envs=100,
    target=317.5,
    hold=2,
    eval_every=100_000,
    eval_episodes=100,
    checkpoint_every=100_000,
)
_REINFORCE = ReinforceConfig(
    hidden=(256, 256),
    activation="relu",
    lr=linear(1e-4, 0.0),
    baseline="none",
    max_norm=1.0,
    log_std=-2.3,
    normalise_obs=True,
)
_JUDGED = AggreVaTeDConfig(  # a clone first, then what the expert's critics say, never far from what it would do
    clone=25_000, noise=0.2, cut=800, against="own", mirrored=True, near=5.0, alpha_decay=0.0
)
_WEAK = Recipe(env="CartPole-v1", agent=DQNConfig(), steps=100_000, hold=1, eval_every=500, eval_episodes=20)
_SMALL = AggreVaTeDConfig(
    learner=PPOConfig(hidden=(64, 64), lr=linear(1e-3, 0.0), batch_size=64, epochs=10),
    values="rollouts",
    judged=128,
    gamma=0.99,
    alpha_decay=0.8,
)
_FOLLOW = DAggerConfig(learner=BCConfig(hidden=(64, 64), lr=linear(1e-3, 0.0)), alpha_decay=0.5)
_FOLLOWED = "DAgger beside it, with the same expert: what it learns is what the expert does"

RECIPES = {
    "bipedal-bc": replace(
        _WALKER,
        about="an expert's actions, learned from its own trajectories only, where it is disturbed a little as it plays",
    ),
    "bipedal-dagger": replace(
        _WALKER,
        agent=DAggerConfig(learner=_CLONE, alpha_decay=0.5),
        envs=16,
        about="an expert's actions where the learner went; whole trajectories are mixed",
    ),
    "bipedal-aggrevated-reinforce": replace(
        _WALKER,
        agent=replace(_JUDGED, learner=replace(_REINFORCE, log_std=-3.0), updates=600),
        steps=75_000,
        envs=90,
        eval_every=15_000,
        target=324,
        about="A* = Q* - V* of the expert's critics; actions drawn afresh for every gradient step; log σ kept below 1",
    ),
    "bipedal-aggrevated-ppo": replace(
        _WALKER,
        agent=replace(
            _JUDGED,
            learner=PPOConfig(
                hidden=(256, 256),
                activation="relu",
                lr=linear(1e-4, 0.0),
                epochs=4,
                batch_size=512,
                clip=constant(0.2),
                max_norm=1.0,
                log_std=-3.0,
                normalise_obs=True,
            ),
            updates=20,
            batch_size=2048,
        ),
        steps=150_000,
        envs=90,
        eval_every=40_000,
        target=324,
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
    "cartpole-dagger": Recipe(
        env="CartPole-v1",
        expert="cartpole-weak",
        agent=_FOLLOW,
        steps=10_000,
        envs=8,
        target=475,
        eval_every=5_000,
        eval_episodes=50,
        about=_FOLLOWED,
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
    "acrobot-dagger": Recipe(
        env="Acrobot-v1",
        expert="acrobot-weak",
        agent=_FOLLOW,
        steps=10_000,
        envs=8,
        target=-125,
        eval_every=5_000,
        eval_episodes=50,
        about=_FOLLOWED,
    ),
    "hopper-weak": replace(
        _WEAK,
        env="Hopper-v5",
        agent=SACConfig(hidden=(64, 64), lr=constant(1e-3), updates_per_step=0.5, learning_starts=5_000),
        steps=300_000,
        envs=4,
        target=1000,
        eval_every=5_000,
        about="a deliberately imperfect expert: training stops at the first evaluation past 1,000",
    ),
    "hopper-aggrevated": Recipe(
        env="Hopper-v5",
        expert="hopper-weak",
        agent=AggreVaTeDConfig(
            learner=replace(_REINFORCE, lr=linear(1e-4, 0.0), log_std=-2.0),
            updates=200,
            clone=10_000,
            against="own",
            mirrored=True,
            near=1.0,
            alpha_decay=0.0,
        ),
        steps=120_000,
        envs=8,
        target=1200,
        hold=2,
        eval_every=8_000,
        eval_episodes=50,
        checkpoint_every=50_000,
        about="a half-trained SAC and its critics: one step of improvement over it",
    ),
    "hopper-dagger": Recipe(
        env="Hopper-v5",
        expert="hopper-weak",
        agent=_FOLLOW,
        steps=10_000,
        envs=8,
        target=1200,
        eval_every=5_000,
        eval_episodes=20,
        about=_FOLLOWED,
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
