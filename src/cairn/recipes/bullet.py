"""Balancing in PyBullet: a pole on a cart, and a ball on a plate."""

from __future__ import annotations

from cairn.algorithms import DQNConfig, ReinforceConfig
from cairn.core.schedules import constant, linear
from cairn.recipes.recipe import Recipe

RECIPES = {
    "bullet-cartpole-reinforce": Recipe(
        env="cairn/BulletCartPole-v0",
        agent=ReinforceConfig(lr=constant(5e-3), gamma=0.98, baseline="value", normalise_obs=True),
        steps=800_000,
        envs=8,
        target=500,
        hold=3,
        eval_every=20_000,
        eval_episodes=100,
        about="CartPole in PyBullet with a force of 50 N at 20 Hz: two wrong pushes end an episode",
    ),
    "balancing-plate-dqn": Recipe(
        env="cairn/BalancingPlate-v0",
        env_args={"frame_skip": 5, "rates": True},
        time_limit=400,  # actions of five physics steps: 2,000 steps
        agent=DQNConfig(
            hidden=(128, 128),
            lr=linear(1e-3, 0.0),
            gamma=0.98,
            batch_size=128,
            updates_per_step=0.5,
            learning_starts=2_000,
            epsilon=linear(1.0, 0.02, 0.2),
            n_step=3,
            tau=0.01,
            target_every=1,
            normalise=True,
        ),
        steps=60_000,
        envs=4,
        target=0.95,
        metric="success",
        hold=3,
        eval_every=5_000,
        eval_episodes=100,
        checkpoint_every=20_000,
        about="keep a ball on a tilting plate for 20 s; the plate's rates are observed, because damping needs them",
    ),
}
