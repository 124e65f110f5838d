"""Tasks whose worlds remember earlier episodes (Box2D) resume exactly too: a reset from seeds makes them anew."""

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch

from cairn.algorithms import PPOConfig, SACConfig
from cairn.core.errors import EnvError
from cairn.recipes.recipe import Recipe
from cairn.runs.train import train
from tests.runs.test_resume import assert_same_run, weights

AGENTS = {
    "ppo": PPOConfig(hidden=(16, 16), horizon=100, batch_size=100, epochs=2),
    "sac": SACConfig(hidden=(16, 16), learning_starts=200, batch_size=16, capacity=1000, updates_per_step=0.25),
}


class Cut(Exception):
    pass


def interrupted(monkeypatch, recipe: Recipe, folder: Path, at: int) -> None:
    """A run that ends at the first step from `at` on as if it was killed: nothing is saved."""
    from cairn.runs.run import Run

    before = Run.advance

    def advance(self, step, counted):
        before(self, step, counted)
        if self.step >= at:
            raise Cut

    monkeypatch.setattr(Run, "advance", advance)
    with pytest.raises(Cut):
        train(recipe, folder)
    monkeypatch.setattr(Run, "advance", before)


@pytest.mark.parametrize(
    ("agent", "vector"), [("ppo", "sync"), ("sac", "sync"), ("ppo", "async"), ("sac", "async"), ("sac", "envpool")]
)
def test_bipedal_walker_resumes_to_the_bit(agent, vector, tmp_path, monkeypatch):
    pytest.importorskip("Box2D")
    if vector == "envpool":
        pytest.importorskip("envpool")
    every = {"checkpoint_every": 400, "eval_every": 900, "log_every": 200, "eval_episodes": 2, "time_limit": 120}
    recipe = Recipe(
        env="BipedalWalker-v3", agent=AGENTS[agent], steps=1200, envs=2, seed=3, vector=vector, workers=2, **every
    )
    train(recipe, tmp_path / "alone")
    interrupted(monkeypatch, recipe, tmp_path / "killed", at=900)
    train(recipe, tmp_path / "killed", resume=True)
    assert_same_run(tmp_path / "alone", tmp_path / "killed")


@pytest.mark.parametrize("agent", AGENTS)
def test_with_rays_samplers_too(agent, tmp_path, monkeypatch):
    """Only it resumes worlds that remember in samplers of Ray's."""
    pytest.importorskip("ray")
    pytest.importorskip("Box2D")
    every = {"checkpoint_every": 300, "eval_every": 5000, "log_every": 5000, "eval_episodes": 1, "time_limit": 60}
    recipe = Recipe(
        env="BipedalWalker-v3", agent=AGENTS[agent], steps=1000, envs=2, seed=3, vector="ray", workers=2, **every
    )
    train(recipe, tmp_path / "alone")
    interrupted(monkeypatch, recipe, tmp_path / "killed", at=700)
    train(recipe, tmp_path / "killed", resume=True)
    left, right = weights(tmp_path / "alone"), weights(tmp_path / "killed")
    assert left.keys() == right.keys()
    assert [key for key in left if not torch.equal(left[key], right[key])] == []


class Seat(gym.Env):
    """A world that remembers; there is one seat for it, and after `left` of them were made there is none."""

    observation_space, action_space = gym.spaces.Box(-1e6, 1e6, (2,)), gym.spaces.Discrete(2)
    open = made = 0

    def __init__(self, left=10**6, seats=1):
        if Seat.open >= seats or Seat.made >= left:
            raise OSError("no seat left")
        Seat.open, Seat.made, self.age = Seat.open + 1, Seat.made + 1, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.age = 0, self.age + 1
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.array([self.t, self.age], np.float32), 1.0, False, self.t >= 10, {}

    def close(self):
        Seat.open -= 1


def seated(**given):
    gym.register("test/Seat-v0", Seat)
    every = {"checkpoint_every": 200, "eval_every": 10**6, "log_every": 200, "eval_episodes": 1}
    return Recipe(env="test/Seat-v0", agent=AGENTS["ppo"], steps=600, envs=1, vector="sync", **every, **given)


@pytest.fixture
def seats(monkeypatch):
    monkeypatch.setattr(Seat, "open", 0)
    monkeypatch.setattr(Seat, "made", 0)
    yield
    del gym.registry["test/Seat-v0"]


def test_a_task_that_owns_a_port_goes_on_after_a_checkpoint(tmp_path, seats):
    assert train(seated(eval_args={"seats": 2}), tmp_path / "run").step == 600


def test_a_world_that_cannot_be_made_anew_tells_step_and_checkpoint(tmp_path, seats):
    words = r"environment 0 could not be made again: .*no seat left, at step 200 of test/Seat-v0; .*0000000200"
    with pytest.raises(EnvError, match=words):
        train(seated(env_args={"seats": 2, "left": 2}), tmp_path / "run")
