"""Tasks with goals, learned by hindsight: bit flipping, the Fetch arm, the race car."""

from __future__ import annotations

from dataclasses import replace

from cairn.agents import DQNConfig, SACConfig
from cairn.core.schedules import constant
from cairn.train.recipe import Recipe

_ARM = Recipe(  # what pushing, picking and sliding share
    env="FetchPush-v4",
    agent=SACConfig(
        hidden=(128, 128, 128),
        lr=constant(1e-3),
        gamma=0.95,
        tau=0.05,
        batch_size=256,
        capacity=1_000_000,
        learning_starts=5_000,
        updates_per_step=0.5,
        normalise=True,
        relative_goals=True,
    ),
    hindsight="future",
    steps=1_500_000,
    envs=8,
    target=0.98,
    metric="success",
    hold=3,
    eval_every=25_000,
    eval_episodes=50,
    checkpoint_every=50_000,
    log_every=10_000,
    threads=1,
)

RECIPES = {
    "bitflip-dqn-her": Recipe(
        env="cairn/BitFlip-v0",
        env_args={"n": 50},
        agent=DQNConfig(
            hidden=(512,),
            lr=constant(1e-3),
            gamma=0.98,
            batch_size=256,
            capacity=1_000_000,
            learning_starts=1_000,
            updates_per_step=0.25,
            epsilon=constant(0.0),  # one wrong flip in fifty spoils an episode; the goals themselves explore
            tau=0.05,
            target_every=1,
            relative_goals=True,
        ),
        hindsight="future",
        steps=400_000,
        envs=16,
        target=0.99,
        metric="success",
        hold=2,
        eval_every=20_000,
        eval_episodes=200,
        checkpoint_every=100_000,
        about="fifty bits, 2⁵⁰ goals; the same agent without hindsight is lost from fifteen on",
    ),
    "fetch-push-her": replace(_ARM, about="the arm pushes a box along the table to a point"),
    "fetch-pick-her": replace(_ARM, env="FetchPickAndPlace-v4", about="half of the goals are in the air"),
    "fetch-slide-her": replace(
        _ARM, env="FetchSlide-v4", steps=6_000_000, target=0.85, about="a puck to be shot at a point out of reach"
    ),
    "racecar-her": Recipe(
        env="cairn/RaceCar-v0",
        env_args={"goals": "track"},
        eval_args={"goals": "finish"},
        agent=SACConfig(
            hidden=(128, 128),
            lr=constant(7e-4),
            gamma=0.98,
            tau=0.02,
            batch_size=256,
            capacity=300_000,
            learning_starts=2_000,
            updates_per_step=0.5,
            normalise=True,
            relative_goals=True,
        ),
        hindsight="future",
        steps=200_000,
        envs=4,
        target=0.98,
        metric="success",
        hold=3,
        eval_every=10_000,
        eval_episodes=20,
        checkpoint_every=50_000,
        about="an S of walls; trained on goals all along it, judged from the start to the finish without a touch",
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
