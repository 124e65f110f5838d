"""CartPole and Pendulum, which every algorithm should solve."""

from __future__ import annotations

from cairn.algorithms import A2CConfig, DQNConfig, PPOConfig, ReinforceConfig, SACConfig, TD3Config
from cairn.core.schedules import constant, linear
from cairn.recipes.recipe import Recipe

RECIPES = {
    "cartpole-dqn": Recipe(
        env="CartPole-v1",
        agent=DQNConfig(
            hidden=(128, 128),
            lr=linear(1e-3, 0.0),
            batch_size=64,
            updates_per_step=0.5,
            learning_starts=1_000,
            epsilon=linear(1.0, 0.04, 0.16),
            n_step=3,
            tau=0.01,
            target_every=1,
        ),
        steps=60_000,
        envs=4,
        target=500,
        hold=3,
        eval_every=5_000,
        eval_episodes=100,
        checkpoint_every=20_000,
        about="each environment explores by itself; truncations store the true last observation",
    ),
    "cartpole-ppo": Recipe(
        env="CartPole-v1",
        agent=PPOConfig(
            horizon=128, batch_size=256, epochs=10, lr=linear(1e-3, 0.0), clip=constant(0.2), gamma=0.98, lam=0.9
        ),
        steps=150_000,
        envs=8,
        target=500,
        hold=3,
        eval_every=10_000,
        eval_episodes=100,
        about="clipped surrogate objective; truncations are bootstrapped",
    ),
    "cartpole-a2c": Recipe(
        env="CartPole-v1",
        agent=A2CConfig(horizon=5, lr=linear(7e-4, 0.0), gamma=0.99, lam=1.0, rmsprop=True),
        steps=400_000,
        envs=8,
        target=500,
        hold=3,
        eval_every=20_000,
        eval_episodes=100,
        about="the paper's short rollouts, n-step returns and RMSprop; normalised advantages made it collapse",
    ),
    "cartpole-reinforce": Recipe(
        env="CartPole-v1",
        agent=ReinforceConfig(lr=linear(5e-3, 0.0), gamma=0.98, baseline="value"),
        steps=400_000,
        envs=16,
        target=500,
        hold=3,
        eval_every=20_000,
        eval_episodes=100,
        about="sixteen whole episodes per update, reward-to-go, a learned baseline",
    ),
    "sac-pendulum": Recipe(
        env="Pendulum-v1",
        agent=SACConfig(hidden=(64, 64), lr=constant(1e-3), batch_size=256, learning_starts=1_000),
        steps=20_000,
        target=-150,
        hold=3,
        eval_every=2_000,
        eval_episodes=100,
        checkpoint_every=5_000,
        about="SAC with an automatic temperature",
    ),
    "td3-pendulum": Recipe(
        env="Pendulum-v1",
        agent=TD3Config(hidden=(64, 64), lr=constant(1e-3), batch_size=256, learning_starts=1_000),
        steps=20_000,
        target=-150,
        hold=3,
        eval_every=2_000,
        eval_episodes=100,
        checkpoint_every=5_000,
        about="twin critics, delayed actor, smoothed targets",
    ),
}
