"""Goal tasks that the low level of a hierarchy must solve, in order of difficulty."""

from __future__ import annotations

from dataclasses import replace

from cairn.algorithms import SACConfig, TD3Config
from cairn.core.schedules import constant, linear
from cairn.recipes.recipe import Recipe

_SAC = SACConfig(
    hidden=(64, 64),
    lr=constant(1e-3),
    gamma=0.95,
    tau=0.05,
    batch_size=256,
    capacity=100_000,
    learning_starts=500,
    normalise=True,
    relative_goals=True,
)
_RUNG = Recipe(  # common to all: arm, observations and, except for the fifth, the agent
    env="cairn/FetchReachFar-v0",
    agent=_SAC,
    hindsight="future",
    steps=20_000,
    target=1.0,
    metric="success",
    hold=3,
    eval_every=1_000,
    eval_episodes=50,
    checkpoint_every=10_000,
    log_every=500,
)
_SHORT = replace(_RUNG, time_limit=20)  # the steps between two subgoals


def _task(recipe: Recipe, about: str, goals: str, starts: str = "home") -> Recipe:
    return replace(recipe, env_args={"goals": goals, "starts": starts}, about=about)


RECIPES = {
    "reach-ladder-1": _task(_RUNG, "one goal, 0.22 m from the start", "one"),
    "reach-ladder-2": _task(_RUNG, "many goals, within 0.15 m of the start on each axis", "near"),
    "reach-ladder-3": _task(_SHORT, "one goal within 20 steps, the time of one subgoal", "one"),
    "reach-ladder-4": _task(_SHORT, "many goals within 20 steps", "near"),
    "reach-ladder-5": _task(
        replace(
            _RUNG,
            agent=TD3Config(
                hidden=(64, 64),
                lr=constant(1e-3),
                gamma=0.95,
                tau=0.05,
                batch_size=256,
                capacity=100_000,
                learning_starts=500,
                noise=0.2,
                normalise=True,
                relative_goals=True,
            ),
        ),
        "one goal with another algorithm, TD3 instead of SAC",
        "one",
    ),
    "reach-ladder-6": _task(
        _SHORT,
        "the same displacement from any start, set only where the arm can make it",
        "displacement",
        "anywhere",
    ),
    "reach-ladder-7": _task(_SHORT, "the five waypoints of a line, each from the previous one", "line", "waypoint"),
    "reach-ladder-8": _task(_SHORT, "the waypoints of twenty lines, each from the previous one", "lines", "waypoint"),
    "reach-low": _task(
        _SHORT,
        "any point within 0.2 m, from any start, in 20 steps: the low level of a hierarchy",
        "nearby",
        "anywhere",
    ),
    "ant-walk": Recipe(
        env="cairn/AntWalk-v0",
        eval_args={"far": 2.5, "anywhere": 0.0},
        agent=SACConfig(
            hidden=(256, 256),
            lr=linear(5e-4, 5e-5),
            gamma=0.98,
            tau=0.01,
            alpha=0.02,
            batch_size=256,
            capacity=1_000_000,
            learning_starts=5_000,
            updates_per_step=0.25,
            normalise=True,
            relative_goals=True,
        ),
        hindsight="future",
        hindsight_k=1,
        steps=800_000,
        envs=16,
        target=0.95,
        metric="success",
        hold=100,
        eval_every=50_000,
        eval_episodes=100,
        checkpoint_every=100_000,
        log_every=10_000,
        about="an ant walks to any point near it: the low level of the ants' hierarchies",
    ),
}
