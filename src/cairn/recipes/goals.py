"""Tasks with goals, learned by hindsight: bit flipping, the Fetch arm, the race car."""

from __future__ import annotations

from dataclasses import replace

from cairn.agents import DQNConfig, SACConfig
from cairn.core.schedules import constant, linear
from cairn.train.recipe import Recipe

_ARM = Recipe(  # what pushing, picking and sliding share
    env="FetchPush-v4",
    agent=SACConfig(
        hidden=(256, 256, 256),
        lr=constant(1e-3),
        gamma=0.98,
        tau=0.05,
        batch_size=1024,
        capacity=1_000_000,
        learning_starts=10_000,
        updates_per_step=0.25,
        normalise=True,
        relative_goals=True,
    ),
    hindsight="future",
    steps=2_000_000,
    envs=16,
    vector="async",
    target=0.98,
    metric="success",
    hold=3,
    eval_every=50_000,
    eval_episodes=100,
    checkpoint_every=100_000,
    log_every=10_000,
    threads=2,
)

RECIPES = {
    "bitflip-dqn-her": Recipe(
        env="cairn/BitFlip-v0",
        env_args={"n": 50},
        agent=DQNConfig(
            hidden=(256,),
            lr=constant(1e-3),
            gamma=0.98,
            batch_size=128,
            capacity=1_000_000,
            learning_starts=1_000,
            updates_per_step=0.1,
            epsilon=linear(0.2, 0.02, 0.5),
            tau=0.05,
            target_every=1,
            relative_goals=True,
        ),
        hindsight="future",
        steps=1_000_000,
        envs=16,
        target=0.99,
        metric="success",
        hold=2,
        eval_every=20_000,
        eval_episodes=100,
        checkpoint_every=200_000,
        about="fifty bits, 2⁵⁰ goals; the same agent without hindsight is lost from fifteen on",
    ),
    "fetch-push-her": replace(_ARM, about="the arm pushes a box along the table to a point"),
    "fetch-pick-her": replace(_ARM, env="FetchPickAndPlace-v4", about="half of the goals are in the air"),
    "fetch-slide-her": replace(
        _ARM, env="FetchSlide-v4", steps=6_000_000, target=0.85, about="a puck to be shot at a point out of reach"
    ),
    "fetch-reach-her": Recipe(
        env="FetchReach-v4",
        agent=SACConfig(
            hidden=(64, 64),
            lr=constant(1e-3),
            gamma=0.95,
            tau=0.05,
            batch_size=256,
            capacity=100_000,
            learning_starts=500,
            normalise=True,
            relative_goals=True,
        ),
        hindsight="future",
        steps=20_000,
        target=1.0,
        metric="success",
        hold=3,
        eval_every=1_000,
        eval_episodes=50,
        checkpoint_every=10_000,
        log_every=500,
        about="the arm reaches a point; goals are seen as displacements, so small networks do",
    ),
}
