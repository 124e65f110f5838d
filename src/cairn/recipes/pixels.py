"""Tasks with image observations: Atari games and CartPole."""

from __future__ import annotations

from dataclasses import replace

from cairn.algorithms import A2CConfig, DQNConfig, PPOConfig
from cairn.core.schedules import constant, linear
from cairn.recipes.recipe import Recipe

_PPO = PPOConfig(
    horizon=128,
    batch_size=256,
    epochs=4,
    lr=linear(2.5e-4, 0.0),
    clip=linear(0.1, 0.0),
    value_weight=0.5,
    entropy_weight=constant(0.01),
)
_GAME = Recipe(  # common settings of Atari games; 10 million steps are 40 million frames
    env="ALE/Pong-v5",
    agent=_PPO,
    steps=10_000_000,
    envs=8,
    vector="atari",
    hold=2,
    eval_every=250_000,
    eval_episodes=15,
    result_episodes=30,
    checkpoint_every=500_000,
    log_every=10_000,
    threads=0,
)
_DQN = DQNConfig(
    quantiles=50,
    n_step=3,
    layer_norm=True,  # without it two thirds of the dense layer's units die
    lr=linear(2e-4, 1e-5),
    adam_eps=0.01 / 32,  # as Dabney et al. 2018
    batch_size=128,
    capacity=400_000,
    learning_starts=50_000,
    updates_per_step=1 / 16,  # with batches of 128, as many transitions per step as 32 every fourth step
    epsilon=linear(1.0, 0.01, 0.15),
    target_every=500,  # 8,000 environment steps
)
_BREAKOUT = replace(
    _GAME,
    env="ALE/Breakout-v5",
    agent=_DQN,
    steps=5_200_000,
    envs=64,
    eval_every=500_000,
    eval_episodes=20,
    checkpoint_every=100_000,
    about="stage 1 of breakout-dqn: quantiles, three-step returns, layer normalisation",
)

_SUMS_DQN = DQNConfig(lr=constant(3e-4), layer_norm=True, batch_size=64, target_every=250)
_SUMS = Recipe(
    env="cairn/BasicMath-v0",
    agent=_SUMS_DQN,
    steps=20_000,
    envs=8,
    eval_episodes=20,
    checkpoint_every=50_000,
)
_MANY_GAMES = replace(
    _GAME,
    agent=replace(_PPO, horizon=64, batch_size=512, lr=linear(4e-4, 0.0), bf16=True),
    envs=64,
    hold=100,  # never stop early: evaluations repeat only a few different games
    eval_every=500_000,
)

RECIPES = {
    "pong-ppo": replace(
        _MANY_GAMES,
        steps=4_000_000,
        target=20,
        about="frame skip, 64 games at once, correct termination flags",
    ),
    "pong-a2c": replace(
        _GAME,
        agent=A2CConfig(
            horizon=5, lr=linear(7e-4, 0.0), rmsprop=True, value_weight=0.25, entropy_weight=constant(0.01)
        ),
        steps=6_000_000,
        envs=16,
        target=18,
        about="five steps of sixteen games per update",
    ),
    "breakout-dqn-1": _BREAKOUT,
    "breakout-dqn": replace(
        _BREAKOUT,
        agent=replace(_DQN, lr=linear(5e-5, 1e-6), epsilon=constant(0.01), learning_starts=10_000),
        start="breakout-dqn-1",
        steps=1_250_000,
        target=350,
        eval_every=400_000,
        about="stage 2, from the policy of breakout-dqn-1: a quarter of its learning rate",
    ),
    "breakout-ppo": replace(
        _MANY_GAMES, env="ALE/Breakout-v5", steps=5_000_000, target=390, about="the settings of pong-ppo on Breakout"
    ),
    "pixel-cartpole": Recipe(
        env="cairn/PixelCartPole-v0",
        agent=replace(_PPO, clip=constant(0.1), lr=linear(5e-4, 0.0), gamma=0.98, entropy_weight=constant(0.001)),
        steps=1_500_000,
        envs=16,
        target=490,
        hold=3,
        eval_every=50_000,
        eval_episodes=50,
        checkpoint_every=250_000,
        log_every=5_000,
        threads=0,
        about="a decision at each physics step; a window around the cart above a band of the whole track",
    ),
    "basicmath": replace(
        _SUMS,
        env_args={"by": "button", "apart": True},
        eval_args={"apart": False},
        agent=replace(
            _SUMS_DQN,
            gamma=0.9,
            n_step=3,
            priority=0.6,
            capacity=200_000,
            learning_starts=3_000,
            updates_per_step=0.2,
            epsilon=linear(1.0, 0.9, 0.1),
            epsilon_spread=15.0,
        ),
        steps=300_000,
        target=5,
        hold=3,
        eval_every=20_000,
        about="sums typed button by button, only the last is rewarded; environments explore with different ε",
    ),
    "basicmath-answers": replace(
        _SUMS,
        env_args={"by": "answer"},
        agent=replace(
            _SUMS_DQN,
            gamma=0.0,
            capacity=20_000,
            learning_starts=1_000,
            updates_per_step=0.5,
            epsilon=linear(1.0, 0.02, 0.5),
        ),
        steps=20_000,
        target=9.5,
        eval_every=2_000,
        about="one decision per answer: read two digits and add them",
    ),
}
