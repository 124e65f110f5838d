"""BipedalWalker by PPO, and by a SAC that serves as expert for imitation."""

from __future__ import annotations

from dataclasses import replace

from cairn.algorithms import PPOConfig, SACConfig
from cairn.core.schedules import constant, linear
from cairn.recipes.recipe import Recipe

_WALK = PPOConfig(
    hidden=(512, 512),
    lr=linear(3e-4, 0.0),
    horizon=64,
    epochs=5,
    batch_size=8192,
    gamma=0.99,
    lam=0.95,
    clip=constant(0.2),
    entropy_weight=linear(0.01, 0.0, 0.8),
    log_std=-0.5,
    normalise_obs=True,
    normalise_reward=True,
)
_HARDCORE = Recipe(
    env="BipedalWalkerHardcore-v3",
    agent=_WALK,
    steps=90_000_000,
    envs=1024,
    vector="envpool",
    history=4,
    target=300,
    hold=3,
    eval_every=10_000_000,
    eval_episodes=25,
    checkpoint_every=10_000_000,
    log_every=200_000,
    threads=0,
)
_SURER = replace(_WALK, gamma=0.997, lr=linear(1e-4, 0.0), entropy_weight=constant(0.0))

RECIPES = {
    "bipedal-ppo": Recipe(
        env="BipedalWalker-v3",
        agent=PPOConfig(
            hidden=(256, 256),
            lr=linear(3e-4, 0.0),
            horizon=2048,
            epochs=10,
            batch_size=512,
            gamma=0.99,
            lam=0.95,
            clip=constant(0.2),
            log_std=-0.5,
            normalise_obs=True,
            normalise_reward=True,
        ),
        steps=6_000_000,
        envs=16,
        vector="async",
        target=305,
        hold=3,
        eval_every=250_000,
        eval_episodes=20,
        checkpoint_every=250_000,
        log_every=10_000,
        threads=2,
        about="normalised observations and returns; the truncation at 1,600 steps is bootstrapped",
    ),
    "bipedal-hardcore-1": replace(
        _HARDCORE,
        reward_floor=-10.0,
        target=None,  # an intermediate stage, which is not stopped early
        about="stage 1: four stacked observations, falls cost a tenth in training, a thousand environments",
    ),
    "bipedal-hardcore-2": replace(
        _HARDCORE,
        agent=_SURER,
        start="bipedal-hardcore-1",
        steps=34_000_000,
        eval_every=4_000_000,
        eval_episodes=50,
        about="stage 2, from the policy of stage 1: the true cost of falls, a larger γ",
    ),
    "bipedal-hardcore": replace(
        _HARDCORE,
        agent=replace(_SURER, lr=linear(5e-5, 0.0), horizon=512, epochs=4),
        start="bipedal-hardcore-2",
        steps=9_000_000,
        envs=64,
        vector="sync",
        hold=6,
        eval_every=1_500_000,
        eval_episodes=100,
        result_episodes=300,  # one episode in twenty is a fall, so the mean of 100 episodes has an error of ± 6
        checkpoint_every=1_500_000,
        about="stage 3, from the policy of stage 2: Gymnasium's environment, falling learning rate",
    ),
    "bipedal-sac": Recipe(
        env="BipedalWalker-v3",
        agent=SACConfig(
            hidden=(256, 256),
            lr=linear(7.3e-4, 1e-5),
            gamma=0.99,
            tau=0.01,
            batch_size=256,
            capacity=500_000,
            learning_starts=10_000,
            updates_per_step=0.5,
            layer_norm=True,
        ),
        steps=700_000,
        envs=8,
        vector="async",
        target=315,
        hold=3,
        eval_every=50_000,
        eval_episodes=20,
        checkpoint_every=50_000,
        threads=2,
        about="the expert of the imitation recipes; its policy and critics are in zoo/",
    ),
}
