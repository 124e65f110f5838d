"""Resuming is exact: killed and resumed runs end with the weights of a run left alone, to the last bit."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from cairn.agents import (
    A2CConfig,
    AggreVaTeConfig,
    AggreVaTeDConfig,
    BCConfig,
    DAggerConfig,
    DQNConfig,
    HIROConfig,
    PPOConfig,
    ReinforceConfig,
    SACConfig,
    TD3Config,
)
from cairn.core.errors import CairnError
from cairn.train.checkpoint import checkpoints, load_policy
from cairn.train.recipe import Recipe
from cairn.train.trainer import train

SMALL = {"hidden": (16, 16)}
AGENTS = {
    "dqn": ("CartPole-v1", DQNConfig(**SMALL, learning_starts=100, batch_size=16, n_step=3, capacity=700)),
    "dqn-all": (
        "CartPole-v1",
        DQNConfig(
            **SMALL, learning_starts=100, batch_size=16, capacity=700, dueling=True, quantiles=4, priority=0.6, n_step=2
        ),
    ),
    "sac": ("Pendulum-v1", SACConfig(**SMALL, learning_starts=100, batch_size=16, capacity=700)),
    "td3": ("Pendulum-v1", TD3Config(**SMALL, learning_starts=100, batch_size=16)),
    "dqn-her": (
        "cairn/BitFlip-v0",
        DQNConfig(**SMALL, learning_starts=100, batch_size=16, n_step=2, capacity=700, normalise=True),
    ),
    "hiro": (
        "Pendulum-v1",
        HIROConfig(
            high=SACConfig(**SMALL, learning_starts=200, batch_size=16, updates_per_step=0.2, capacity=60),
            low=TD3Config(**SMALL, learning_starts=100, batch_size=16, capacity=700, normalise=True),
            subgoal=(0, 2),
            subgoal_range=(0.5, 0.5),
            every=7,
            low_hindsight=0.3,
        ),
    ),
    "ppo": (
        "Pendulum-v1",
        PPOConfig(**SMALL, horizon=50, batch_size=50, epochs=2, normalise_obs=True, normalise_reward=True),
    ),
    "a2c": ("CartPole-v1", A2CConfig(**SMALL, normalise_obs=True)),
    "reinforce": ("CartPole-v1", ReinforceConfig(**SMALL)),
    "bc": ("CartPole-v1", BCConfig(**SMALL, batch_size=16)),
    "dagger": ("CartPole-v1", DAggerConfig(BCConfig(**SMALL, batch_size=16), alpha_decay=0.9)),
    "aggrevate": (
        "CartPole-v1",
        AggreVaTeConfig(**SMALL, batch_size=16, values="rollouts", judged=2, gamma=0.5, alpha_start=0.0),
    ),
    "aggrevated": (
        "CartPole-v1",
        AggreVaTeDConfig(PPOConfig(**SMALL, epochs=2, normalise_obs=True), values="fitted", fit_episodes=1),
    ),
    "aggrevated-natural": (
        "CartPole-v1",
        AggreVaTeDConfig(ReinforceConfig(**SMALL), gradient="natural", values="fitted", fit_episodes=1),
    ),
}


def leans(obs):
    """An expert of CartPole: push the way the pole falls."""
    return int(obs[2] + 0.3 * obs[3] > 0)


def taught(name: str) -> dict:
    return {"expert": leans} if name.startswith(("bc", "dagger", "aggre")) else {}


def recipe(name: str, vector="sync") -> Recipe:
    env, agent = AGENTS[name]
    every = {"checkpoint_every": 1000, "eval_every": 500, "log_every": 200, "eval_episodes": 2}
    her = "episode" if name.endswith("-her") else "off"
    return Recipe(env=env, agent=agent, hindsight=her, steps=2000, envs=2, seed=7, name=name, vector=vector, **every)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """Everything a finished run knows: networks, optimisers, generators."""
    last = checkpoints(folder / "checkpoints")[-1]
    out = {}
    for file in ("policy.safetensors", "training.safetensors"):
        out |= {f"{file}:{k}": v for k, v in safetensors.torch.load_file(last / file).items()}
    return out


def assert_same_run(a: Path, b: Path) -> None:
    left, right = weights(a), weights(b)
    assert left.keys() == right.keys()
    for key in left:
        assert torch.equal(left[key], right[key]), key
    assert checkpoints(a / "checkpoints")[-1].name == checkpoints(b / "checkpoints")[-1].name

    def without_clock(folder):  # step, name, value of every line but those of time
        lines = (folder / "metrics.csv").read_text().splitlines()[1:]
        return [(line.split(",")[0], *line.split(",")[2:]) for line in lines if "time/" not in line]

    assert without_clock(a) == without_clock(b)
    with np.load(a / "evaluations.npz") as x, np.load(b / "evaluations.npz") as y:
        for key in ("timesteps", "results", "ep_lengths"):
            np.testing.assert_array_equal(x[key], y[key])
    count = [len((f / "monitor.csv").read_text().splitlines()) for f in (a, b)]
    assert count[0] == count[1]


RUNNER = """
import sys, json
from pathlib import Path
from tests.train.test_resume import recipe, taught
from cairn.train.trainer import train
name, folder, vector = sys.argv[1:4]
folder = Path(folder)
train(recipe(name, vector), folder, resume=(folder / "config.json").exists(), **taught(name))
"""


def start(name: str, folder: Path, vector="sync") -> subprocess.Popen:
    root = Path(__file__).parent.parent.parent
    return subprocess.Popen([sys.executable, "-c", RUNNER, name, str(folder), vector], cwd=root, stderr=subprocess.PIPE)


def kill(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stderr.close()


@pytest.mark.parametrize("name", AGENTS)
def test_two_thousand_steps_equal_one_thousand_a_kill_and_one_thousand(name, tmp_path):
    train(recipe(name), tmp_path / "alone", **taught(name))
    process = start(name, tmp_path / "killed")
    saved = tmp_path / "killed" / "checkpoints"
    while not checkpoints(saved):
        assert process.poll() is None, process.stderr.read().decode()
        time.sleep(0.002)
    kill(process)
    assert 1000 <= int(checkpoints(saved)[-1].name) < 2000  # it had not finished
    train(recipe(name), tmp_path / "killed", resume=True, **taught(name))
    assert_same_run(tmp_path / "alone", tmp_path / "killed")


def newest(folder: Path) -> int:
    found = checkpoints(folder / "checkpoints")
    return int(found[-1].name) if found else 0


def test_killed_at_twenty_random_moments(tmp_path):
    """Twenty SIGKILLs at random times, a resume after each: the same run in the end, no checkpoint lost."""
    plan = replace(recipe("sac"), checkpoint_every=100)
    train(plan, tmp_path / "alone")
    runner = RUNNER.replace("recipe(name, vector)", "replace(recipe(name, vector), checkpoint_every=100)")
    runner = "from dataclasses import replace\n" + runner
    rng, folder = random.Random(0), tmp_path / "killed"
    root = Path(__file__).parent.parent.parent
    reached = 0
    for _ in range(20):
        args = [sys.executable, "-c", runner, "sac", str(folder), "sync"]
        process = subprocess.Popen(args, cwd=root, stderr=subprocess.PIPE)
        if rng.random() < 0.5:  # in the middle of starting, or of its first steps
            time.sleep(rng.uniform(0.1, 2.0))
        else:  # some moments after its next checkpoint
            while process.poll() is None and not newest(folder) > reached:
                time.sleep(0.002)
            time.sleep(rng.uniform(0.0, 0.05))
        assert process.poll() is None, process.stderr.read().decode()  # it had not finished
        kill(process)
        assert newest(folder) >= reached  # no checkpoint is ever lost
        reached = newest(folder)
    assert reached > 0
    train(plan, folder, resume=True)
    assert_same_run(tmp_path / "alone", folder)


def test_workers_and_sync_train_to_the_same_weights(tmp_path):
    train(recipe("ppo"), tmp_path / "sync")
    train(recipe("ppo", "async"), tmp_path / "async")
    assert_same_run(tmp_path / "sync", tmp_path / "async")


def test_a_damaged_checkpoint_is_refused_and_the_one_before_is_used(tmp_path, capsys):
    plan = replace(recipe("dqn"), checkpoint_every=500)
    train(plan, tmp_path / "alone")
    train(replace(plan, steps=2000), tmp_path / "hurt")
    newest = checkpoints(tmp_path / "hurt" / "checkpoints")[-1]
    blob = (newest / "policy.safetensors").read_bytes()
    (newest / "policy.safetensors").write_bytes(blob[: len(blob) // 2])
    train(plan, tmp_path / "hurt", resume=True)
    assert "damaged" in capsys.readouterr().err
    assert_same_run(tmp_path / "alone", tmp_path / "hurt")


def test_no_good_checkpoint_is_one_sentence(tmp_path):
    plan = replace(recipe("dqn"), steps=1000)
    train(plan, tmp_path)
    for folder in checkpoints(tmp_path / "checkpoints"):
        (folder / "training.json").write_text("{")
    with pytest.raises(CairnError, match="none of the checkpoints"):
        train(plan, tmp_path, resume=True)


def test_a_signal_saves_and_the_run_goes_on_from_there(tmp_path):
    process = start("sac", tmp_path)
    while not (tmp_path / "monitor.csv").exists() or (tmp_path / "monitor.csv").stat().st_size < 10:
        assert process.poll() is None, process.stderr.read().decode()
        time.sleep(0.01)
    time.sleep(0.5)
    for _ in range(2):  # to the process and to its group, as `timeout` does: one request
        os.kill(process.pid, signal.SIGTERM)
        time.sleep(0.001)
    process.wait()
    process.stderr.close()
    at = int(checkpoints(tmp_path / "checkpoints")[-1].name)
    assert 0 < at < 2000
    outcome = train(recipe("sac"), tmp_path, resume=True)
    assert outcome.step == 2000


def test_missing_replay_files_are_noticed(tmp_path, capsys):
    import shutil

    plan = replace(recipe("dqn"), steps=1000)
    train(plan, tmp_path)
    shutil.rmtree(tmp_path / "replay")
    for _ in range(2):  # nothing was made in their place
        with pytest.raises(CairnError, match="none of the checkpoints"):
            train(plan, tmp_path, resume=True)
        assert "replay files of this run are missing" in capsys.readouterr().err


def test_missing_episode_files_are_noticed(tmp_path, capsys):
    plan = replace(recipe("dqn-her"), steps=1000)
    train(plan, tmp_path)
    (tmp_path / "replay" / "episode_end.bin").unlink()
    for _ in range(2):
        with pytest.raises(CairnError, match="none of the checkpoints"):
            train(plan, tmp_path, resume=True)
        assert "episode_end.bin" in capsys.readouterr().err


def test_workers_train_hindsight_to_the_same_weights(tmp_path):
    for vector in ("sync", "async"):
        train(replace(recipe("dqn-her", vector), steps=1000), tmp_path / vector)
    assert_same_run(tmp_path / "sync", tmp_path / "async")


def test_a_run_can_be_lengthened(tmp_path):
    train(replace(recipe("td3"), steps=1000), tmp_path)
    assert train(replace(recipe("td3"), steps=1500), tmp_path, resume=True).step == 1500
    assert train(replace(recipe("td3"), steps=1500), tmp_path, resume=True).step == 1500  # finished: nothing more to do


def test_a_run_shorter_than_a_checkpoint_can_be_lengthened_and_a_refusal_destroys_nothing(tmp_path):
    short = replace(recipe("td3"), steps=600, checkpoint_every=1500)
    train(short, tmp_path)
    before = {f.name: f.stat().st_size for f in (tmp_path / "replay").iterdir()}
    narrow = replace(short, checkpoint_every=100)  # less is kept for the time after a checkpoint
    with pytest.raises(CairnError, match="none of the checkpoints"):
        train(narrow, tmp_path, resume=True)
    assert {f.name: f.stat().st_size for f in (tmp_path / "replay").iterdir()} == before
    with pytest.raises(CairnError, match="already holds a run"):
        train(narrow, tmp_path)
    assert {f.name: f.stat().st_size for f in (tmp_path / "replay").iterdir()} == before
    assert train(replace(short, steps=900), tmp_path, resume=True).step == 900


def test_a_run_killed_before_its_first_checkpoint_begins_where_it_was_to_start(tmp_path):
    train(replace(recipe("td3"), steps=600), tmp_path / "first")
    first = load_policy(tmp_path / "first").agent
    again = replace(recipe("td3"), steps=2, start=str(tmp_path / "first"))
    train(again, tmp_path / "second")
    shutil.rmtree(tmp_path / "second" / "checkpoints")
    agent = train(again, tmp_path / "second", resume=True).agent
    for a, b in zip(first.actor.parameters(), agent.actor.parameters(), strict=True):
        assert torch.equal(a, b)


def test_what_a_start_left_of_its_replay_goes_and_what_is_not_ours_stays(tmp_path):
    (tmp_path / "replay").mkdir()
    (tmp_path / "replay" / "obs.bin").write_bytes(b"cut short")
    assert train(replace(recipe("td3"), steps=300), tmp_path).step == 300
    (tmp_path / "work" / "replay").mkdir(parents=True)
    (tmp_path / "work" / "thesis.txt").write_text("years")
    (tmp_path / "work" / "replay" / "mine.bin").write_text("mine")
    train(replace(recipe("td3"), steps=300), tmp_path / "work")
    assert (tmp_path / "work" / "replay" / "mine.bin").read_text() == "mine"
