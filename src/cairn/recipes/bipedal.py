"""BipedalWalker, by PPO and by the SAC that teaches imitators."""

from __future__ import annotations

from cairn.agents import PPOConfig, SACConfig
from cairn.core.schedules import constant, linear
from cairn.train.recipe import Recipe

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
        about="normalised observations and returns; truncation at 1,600 steps bootstraps",
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
        about="the expert for imitation: its policy and its critics are in zoo/",
    ),
}
