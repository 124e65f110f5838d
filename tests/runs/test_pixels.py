"""Runs on images resume to the bit, frames stored once among what they resume from."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from cairn.algorithms import DQNConfig, PPOConfig
from cairn.core.errors import CairnError
from cairn.recipes.recipe import Recipe
from cairn.runs.policy_files import checkpoints
from cairn.runs.train import train
from tests.processes import Forked
from tests.runs.test_resume import assert_same_run, kill

DQN = DQNConfig(learning_starts=100, batch_size=16, n_step=3, capacity=200, updates_per_step=0.1, target_every=20)
EVERY = {"checkpoint_every": 300, "eval_every": 300, "log_every": 200, "eval_episodes": 2}
RECIPES = {
    "frames": Recipe(
        env="cairn/PixelCartPole-v0", env_args={"size": 36}, agent=DQN, steps=600, envs=2, seed=7, **EVERY
    ),
    "prioritised-packed": Recipe(
        env="cairn/PixelCartPole-v0",
        env_args={"size": 36},
        agent=replace(DQN, priority=0.5, quantiles=4, frame_bytes=400),
        steps=600,
        envs=2,
        seed=7,
        **EVERY,
    ),
    "atari-dqn": Recipe(
        env="ALE/Breakout-v5",
        env_args={"size": 36},
        agent=DQN,
        steps=600,
        envs=3,
        seed=7,
        vector="atari",
        time_limit=100,
        **EVERY,
    ),
    "atari-ppo": Recipe(
        env="ALE/Breakout-v5",
        env_args={"size": 36},
        agent=PPOConfig(horizon=50, batch_size=50, epochs=2),
        steps=600,
        envs=3,
        seed=7,
        vector="atari",
        time_limit=100,
        **EVERY,
    ),
}


def run(name: str, folder: str) -> None:
    train(RECIPES[name], Path(folder))


@pytest.mark.parametrize("name", RECIPES)
def test_six_hundred_steps_equal_three_hundred_a_kill_and_the_rest(name, tmp_path):
    """Only it resumes replays of frames, compressed ones too, and games by the emulator's own vector."""
    if name.startswith("atari"):
        pytest.importorskip("ale_py")
    train(RECIPES[name], tmp_path / "alone")
    process = Forked("tests.runs.test_pixels", "run", name, str(tmp_path / "killed"))
    while not checkpoints(tmp_path / "killed" / "checkpoints"):
        assert process.poll() is None, process.said()
        time.sleep(0.004)
    kill(process)
    train(RECIPES[name], tmp_path / "killed", resume=True)
    assert_same_run(tmp_path / "alone", tmp_path / "killed")


@pytest.mark.parametrize(
    ("judged", "words"), [({"size": 40}, "other observation or action spaces than in training"), ({"sise": 40}, "sise")]
)
def test_what_a_policy_is_judged_on_is_looked_at_before_it_learns(tmp_path, judged, words):
    recipe = replace(RECIPES["frames"], eval_args=judged, steps=10**9)
    with pytest.raises(CairnError, match=words):
        train(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()
