"""What HIRO's config asks of its replay reaches the levels."""

from dataclasses import replace

import gymnasium as gym
import pytest

from cairn.algorithms.hiro.agent import HIRO, HIROConfig
from cairn.algorithms.td3 import TD3Config
from cairn.recipes.recipe import Recipe
from cairn.runs.train import train

gym.register("toys/PlaneOf20-v0", "tests.envs.toys:Plane", max_episode_steps=20)

LEVEL = TD3Config(hidden=(16,), batch_size=64, learning_starts=100, updates_per_step=0.25)
PLANE = Recipe(
    env="toys/PlaneOf20-v0",
    agent=HIROConfig(LEVEL, LEVEL, subgoal_range=(2.0, 2.0), every=6, low_hindsight=1.0),
    steps=400,
    envs=2,
    eval_every=400,
    eval_episodes=1,
)


@pytest.mark.parametrize(("ahead", "most"), [(1, 1.0), (2, 2.0), (None, 6.0)])
def test_hindsight_of_the_low_level_aims_at_most_so_many_steps_ahead(ahead, most, monkeypatch):
    """A stride is 1 at most along each axis, so a point that was reached k steps later lies within k."""
    away, learn = [], HIRO.update_low

    def update_low(agent, batch):
        away.append(float((batch.target - batch.obs[:, agent.positions]).abs().max()))
        return learn(agent, batch)

    monkeypatch.setattr(HIRO, "update_low", update_low)
    train(replace(PLANE, agent=replace(PLANE.agent, low_ahead=ahead)))
    assert away and most / 2 < max(away) <= most + 1e-5
