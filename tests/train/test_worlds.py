"""Tasks whose worlds remember earlier episodes (Box2D) resume exactly too: a reset from seeds makes them anew."""

from pathlib import Path

import pytest
import torch

from cairn.agents import PPOConfig, SACConfig
from cairn.train.recipe import Recipe
from cairn.train.trainer import train
from tests.train.test_resume import assert_same_run, weights

AGENTS = {
    "ppo": PPOConfig(hidden=(16, 16), horizon=100, batch_size=100, epochs=2),
    "sac": SACConfig(hidden=(16, 16), learning_starts=200, batch_size=16, capacity=1000, updates_per_step=0.25),
}


class Cut(Exception):
    pass


def interrupted(monkeypatch, recipe: Recipe, folder: Path, at: int) -> None:
    """A run that ends at the first step from `at` on as if it was killed: nothing is saved."""
    from cairn.train.run import Run

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
