"""An environment whose close() raises: its work is done, so that is told in one sentence and undoes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from cairn import PPO
from cairn.envs.task import Task
from cairn.vector.checks import warn_once
from cairn.vector.choose import make_vector

ROOT = Path(__file__).parents[2]
MODULE = """
import gymnasium as gym
from gymnasium.envs.classic_control import CartPoleEnv

class Stuck(CartPoleEnv):
    def close(self):
        raise RuntimeError("the port is busy")

gym.register("Stuck-v0", Stuck, max_episode_steps=20)
"""


class Stuck(gym.Env[Any, Any]):
    observation_space, action_space = spaces.Box(-1, 1, (2,)), spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(2, np.float32), 1.0, False, True, {}

    def close(self) -> None:
        raise SystemExit("the port is busy") if self.np_random.random() < 0.5 else RuntimeError("the port is busy")


gym.register("close/Stuck-v0", Stuck)


@pytest.fixture(autouse=True)
def nothing_told() -> None:
    warn_once.cache_clear()


@pytest.mark.parametrize("backend", ["sync", "async", "sb3"])
def test_a_vector_closes_all_the_same(backend: Any, capfd: pytest.CaptureFixture[str]) -> None:
    if backend == "sb3":
        pytest.importorskip("stable_baselines3")
    envs = make_vector(Task("CartPole-v1") if backend == "sb3" else Task("close/Stuck-v0"), 3, backend=backend)
    envs.reset([1, 2, 3])
    envs.send(np.zeros(3, np.int64))  # nobody waits for the answer
    envs.close()
    said = [line for line in capfd.readouterr().err.splitlines() if "cairn:" in line]
    assert backend == "sb3" or said
    assert all("while it was closed" in line and "what was done before stands." in line for line in said)
    assert len(said) == len(set(said)) <= 2  # once for each kind of fault


def test_gymnasiums_and_sb3s_own_vectors(capfd: pytest.CaptureFixture[str]) -> None:
    sb3 = pytest.importorskip("cairn.vector.sb3")
    from cairn.vector.gymnasium import Gymnasium

    for envs in (sb3.of_task(Task("close/Stuck-v0"), 2, processes=False), Gymnasium(gym.vector.SyncVectorEnv([Stuck]))):
        envs.reset(list(range(envs.num_envs)))
        envs.close()
    assert "while it was closed" in capfd.readouterr().err


def test_a_model_is_made_scored_and_kept(capfd: pytest.CaptureFixture[str]) -> None:
    model = PPO("close/Stuck-v0", hidden=8, horizon=8).learn(16, eval_episodes=2)
    assert model.evaluate(2).mean == 1.0
    assert "while it was closed" in capfd.readouterr().err


@pytest.mark.parametrize("vector", ["sync", "async"])
def test_the_result_of_a_run_stands(vector: str, tmp_path: Path) -> None:
    (tmp_path / "stuck.py").write_text(MODULE)
    words = "train --env stuck:Stuck-v0 --agent ppo --agent.hidden 8 --agent.horizon 16 --steps 64 --envs 2"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "cairn", *words.split(), "--vector", vector, "--out", "run"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("raised RuntimeError while it was closed: the port is busy") == 1, done.stderr
    assert "Traceback" not in done.stderr and "run: 64 steps" in done.stdout
