"""Resuming is exact: killed and resumed runs end with the weights of a run left alone, to the last bit."""

import errno
import json
import os
import random
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from cairn import TD3
from cairn.algorithms import (
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
from cairn.core.schedules import constant
from cairn.recipes.recipe import Recipe
from cairn.runs.checkpoint import load_policy
from cairn.runs.config import read_recipe
from cairn.runs.folder import mark
from cairn.runs.policy_files import checkpoints
from cairn.runs.run import Run
from cairn.runs.train import train
from tests.processes import Forked

SMALL = {"hidden": (16, 16)}
LONG = 10_000  # steps that no machine takes before a signal reaches it
SLOW = {"updates_per_step": 0.3}  # what is not due at a checkpoint is due after a resume
AGENTS = {
    "dqn": ("CartPole-v1", DQNConfig(**SMALL, learning_starts=100, batch_size=16, n_step=3, capacity=700)),
    "dqn-all": (
        "CartPole-v1",
        DQNConfig(
            **SMALL, learning_starts=100, batch_size=16, capacity=700, dueling=True, quantiles=4, priority=0.6, n_step=2
        ),
    ),
    "sac": ("Pendulum-v1", SACConfig(**SMALL, **SLOW, learning_starts=100, batch_size=16, capacity=700)),
    "td3": ("Pendulum-v1", TD3Config(**SMALL, **SLOW, learning_starts=100, batch_size=16)),
    "dqn-her": (
        "cairn/BitFlip-v0",
        DQNConfig(**SMALL, learning_starts=100, batch_size=16, n_step=2, capacity=700, normalise=True),
    ),
    "hiro": (
        "Pendulum-v1",
        HIROConfig(
            high=SACConfig(**SMALL, learning_starts=200, batch_size=16, updates_per_step=0.2, capacity=60),
            low=TD3Config(**SMALL, **SLOW, learning_starts=100, batch_size=16, capacity=700, normalise=True),
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


def run(name: str, folder: str, checkpoint_every: int, steps: int) -> None:
    """Train or resume in a process that is killed."""
    plan = replace(recipe(name), checkpoint_every=checkpoint_every, steps=steps)
    train(plan, Path(folder), resume=(Path(folder) / "config.json").exists(), **taught(name))


def start(name: str, folder: Path, checkpoint_every: int = 1000, steps: int = 2000) -> Forked:
    return Forked("tests.runs.test_resume", "run", name, str(folder), checkpoint_every, steps)


def kill(process: Forked) -> None:
    process.signal(signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize("name", AGENTS)
def test_two_thousand_steps_equal_one_thousand_a_kill_and_one_thousand(name, tmp_path):
    """Only it kills and resumes every algorithm, and compares all that its run knows."""
    train(recipe(name), tmp_path / "alone", **taught(name))
    process = start(name, tmp_path / "killed")
    saved = tmp_path / "killed" / "checkpoints"
    while not checkpoints(saved):
        assert process.poll() is None, process.said()
        time.sleep(0.004)
    kill(process)
    assert 1000 <= int(checkpoints(saved)[-1].name) < 2000  # it had not finished
    train(recipe(name), tmp_path / "killed", resume=True, **taught(name))
    assert_same_run(tmp_path / "alone", tmp_path / "killed")


def newest(folder: Path) -> int:
    found = checkpoints(folder / "checkpoints")
    return int(found[-1].name) if found else 0


def test_killed_at_twenty_random_moments(tmp_path):
    """Twenty SIGKILLs at random times, a resume after each: the same run in the end, no checkpoint lost.

    Only it kills while files are being written, wherever that may be.
    """
    plan = replace(recipe("sac"), checkpoint_every=100, steps=LONG)
    train(plan, tmp_path / "alone")
    rng, folder = random.Random(0), tmp_path / "killed"
    reached = 0
    for _ in range(20):
        process = start("sac", folder, checkpoint_every=100, steps=LONG)
        if rng.random() < 0.5:  # in the middle of starting, or of its first steps
            time.sleep(rng.uniform(0.0, 0.3))
        else:  # some moments after its next checkpoint
            while process.poll() is None and not newest(folder) > reached:
                time.sleep(0.004)
            time.sleep(rng.uniform(0.0, 0.05))
        assert process.poll() is None, process.said()  # it had not finished
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


@pytest.mark.parametrize("name", ["dqn", "a2c"])
def test_a_damaged_checkpoint_does_not_stay_the_newest(name, tmp_path, monkeypatch, capsys):
    plan = replace(recipe(name), checkpoint_every=100, steps=400, eval_every=400)
    train(plan, tmp_path)
    (tmp_path / "checkpoints" / "0000000400" / "policy.safetensors").write_bytes(b"cut")
    advance = Run.advance

    def stopped(run: Run, *args) -> None:
        advance(run, *args)
        if run.step >= 340:
            run._interrupt(signal.SIGTERM, None)

    monkeypatch.setattr(Run, "advance", stopped)
    outcome = train(plan, tmp_path, resume=True)
    assert outcome.interrupted and outcome.saved and outcome.step == 340
    names = sorted(p.name for p in (tmp_path / "checkpoints").iterdir())
    assert names == ["0000000300", "0000000340", "0000000400.damaged"]
    assert "0000000400 is kept as 0000000400.damaged" in capsys.readouterr().err
    monkeypatch.undo()
    assert train(plan, tmp_path, resume=True).step == 400


def test_a_kill_between_two_renames_of_a_checkpoint_starts_nothing_over(tmp_path, monkeypatch):
    plan = replace(recipe("td3"), steps=300, checkpoint_every=150)
    plan = replace(plan, agent=replace(plan.agent, capacity=150))
    train(plan, tmp_path / "alone")
    train(replace(plan, steps=150), tmp_path / "hurt")
    root = tmp_path / "hurt" / "checkpoints"
    (root / "0000000150").rename(root / ".0000000150.old")
    (tmp_path / "hurt" / "best").rename(tmp_path / "hurt" / ".best.old")
    monkeypatch.setattr(Run, "start", lambda run: pytest.fail("it was started over"))
    train(plan, tmp_path / "hurt", resume=True)
    assert sorted(p.name for p in root.iterdir()) == ["0000000150", "0000000300"]
    assert (tmp_path / "hurt" / "best").is_dir() and not (tmp_path / "hurt" / ".best.old").exists()
    left, right = weights(tmp_path / "alone"), weights(tmp_path / "hurt")
    assert all(torch.equal(left[key], right[key]) for key in left)


def test_no_good_checkpoint_is_one_sentence(tmp_path):
    plan = replace(recipe("dqn"), steps=1000)
    train(plan, tmp_path)
    for folder in checkpoints(tmp_path / "checkpoints"):
        (folder / "training.json").write_text("{")
    with pytest.raises(CairnError, match="none of the checkpoints"):
        train(plan, tmp_path, resume=True)


def test_a_signal_saves_and_the_run_goes_on_from_there(tmp_path):
    process, monitor = start("sac", tmp_path, steps=LONG), tmp_path / "monitor.csv"
    while not monitor.exists() or monitor.read_bytes().count(b"\n") < 3:  # an episode after the head: it trains
        assert process.poll() is None, process.said()
        time.sleep(0.01)
    for _ in range(2):  # to the process and to its group, as `timeout` does: one request
        process.signal(signal.SIGTERM)
        time.sleep(0.001)
    process.wait()
    at = int(checkpoints(tmp_path / "checkpoints")[-1].name)
    assert 0 < at < LONG
    outcome = train(replace(recipe("sac"), steps=LONG), tmp_path, resume=True)
    assert outcome.step == LONG


def test_missing_replay_files_are_noticed(tmp_path, capsys):
    import shutil

    plan = replace(recipe("dqn"), steps=1000)
    train(plan, tmp_path)
    shutil.rmtree(tmp_path / "replay")
    for _ in range(2):  # nothing was made in their place
        with pytest.raises(CairnError, match="none of the checkpoints"):
            train(replace(plan, steps=1500), tmp_path, resume=True)
        assert "replay files of this run are missing" in capsys.readouterr().err


def test_missing_episode_files_are_noticed(tmp_path, capsys):
    plan = replace(recipe("dqn-her"), steps=1000)
    train(plan, tmp_path)
    (tmp_path / "replay" / "episode_end.bin").unlink()
    for _ in range(2):
        with pytest.raises(CairnError, match="none of the checkpoints"):
            train(replace(plan, steps=1500), tmp_path, resume=True)
        assert "episode_end.bin" in capsys.readouterr().err


def test_workers_train_hindsight_to_the_same_weights(tmp_path):
    for vector in ("sync", "async"):
        train(replace(recipe("dqn-her", vector), steps=1000), tmp_path / vector)
    assert_same_run(tmp_path / "sync", tmp_path / "async")


@pytest.mark.parametrize("name", ["td3", "hiro"])
def test_a_replay_stays_as_it_was_started_and_that_is_said(name, tmp_path, capsys):
    plan = replace(recipe(name), checkpoint_every=100, eval_every=1000)
    if name == "hiro":  # as large as the steps allow
        most = replace(plan.agent, high=replace(plan.agent.high, capacity=10**6))
        plan = replace(plan, agent=replace(most, low=replace(most.low, capacity=10**6)))
    train(replace(plan, steps=140), tmp_path)
    train(replace(plan, steps=140), tmp_path, resume=True)
    assert "the replay stays" not in capsys.readouterr().err
    low = "agent.low.capacity" if name == "hiro" else "agent.capacity"
    for steps in (160, 180):  # the same settings are accepted each time
        train(replace(plan, steps=steps), tmp_path, resume=True)
        said = capsys.readouterr().err
        assert f"the replay stays at 140 transitions ({low})" in said
        assert ("the replay stays at 20 transitions (agent.high.capacity)" in said) == (name == "hiro")
    train(replace(read_recipe(tmp_path), steps=200), tmp_path, resume=True)  # as the command line asks
    assert f"the replay stays at 140 transitions ({low})" in capsys.readouterr().err


def test_a_larger_replay_is_refused(tmp_path):
    plan = replace(recipe("td3"), steps=200, checkpoint_every=100)
    plan = replace(plan, agent=replace(plan.agent, capacity=120))
    train(plan, tmp_path)
    larger = replace(plan, agent=replace(plan.agent, capacity=50_000), steps=300)
    with pytest.raises(CairnError, match=r"agent\.capacity 120; it cannot be resumed with 200"):
        train(larger, tmp_path, resume=True)


def test_a_run_killed_before_its_first_checkpoint_begins_untrained(tmp_path):
    def model() -> TD3:
        return TD3("Pendulum-v1", seed=3, hidden=(8,), learning_starts=50, batch_size=8)

    alone = model().learn(100, out=tmp_path / "alone", eval_episodes=1)
    mine = model().learn(100, out=tmp_path / "killed", eval_episodes=1)
    shutil.rmtree(tmp_path / "killed" / "checkpoints")
    mine.learn(100, out=tmp_path / "killed", resume=True)
    for a, b in zip(alone.agent.actor.parameters(), mine.agent.actor.parameters(), strict=True):
        assert torch.equal(a, b)


def test_metrics_of_the_last_update_are_logged_after_a_resume(tmp_path, monkeypatch):
    """A log may come after a checkpoint and before the next update."""
    rare = DQNConfig(**SMALL, learning_starts=100, batch_size=16, capacity=700, updates_per_step=0.01)
    plan = replace(recipe("dqn"), agent=rare, steps=600, checkpoint_every=220, log_every=50)
    save = Run.save

    def copied(run, agent, replay):
        save(run, agent, replay)
        if run.folder.name == "alone" and run.step < 300:
            shutil.copytree(run.folder, tmp_path / "killed", ignore=shutil.ignore_patterns(".lock"))

    monkeypatch.setattr(Run, "save", copied)
    train(plan, tmp_path / "alone")
    train(plan, tmp_path / "killed", resume=True)
    assert_same_run(tmp_path / "alone", tmp_path / "killed")


def test_a_run_can_be_lengthened(tmp_path):
    train(replace(recipe("td3"), steps=1000), tmp_path)
    assert train(replace(recipe("td3"), steps=1500), tmp_path, resume=True).step == 1500
    assert train(replace(recipe("td3"), steps=1500), tmp_path, resume=True).step == 1500  # finished: nothing more to do


def test_a_run_shorter_than_a_checkpoint_can_be_lengthened_and_a_refusal_destroys_nothing(tmp_path):
    short = replace(recipe("td3"), steps=600, checkpoint_every=1500)
    train(short, tmp_path)
    before = {f.name: f.stat().st_size for f in (tmp_path / "replay").iterdir()}
    narrow = replace(short, checkpoint_every=100)  # less is kept for the time after a checkpoint
    with pytest.raises(CairnError, match="with checkpoint_every 1500; it cannot be resumed with 100"):
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
    mark(tmp_path)
    (tmp_path / "replay").mkdir()
    (tmp_path / "replay" / "obs.bin").write_bytes(b"cut short")
    (tmp_path / "replay" / "mine.bin").write_text("mine")
    assert train(replace(recipe("td3"), steps=300), tmp_path).step == 300
    assert (tmp_path / "replay" / "mine.bin").read_text() == "mine"
    (tmp_path / "work" / "replay").mkdir(parents=True)
    (tmp_path / "work" / "replay" / "obs.bin").write_text("mine")
    with pytest.raises(CairnError, match="holds files that Cairn did not write"):
        train(replace(recipe("td3"), steps=300), tmp_path / "work")
    assert (tmp_path / "work" / "replay" / "obs.bin").read_text() == "mine"


# -- what may change


def test_what_would_give_other_weights_is_refused_by_its_name(tmp_path):
    plan = replace(recipe("dqn"), steps=300, checkpoint_every=100)
    train(plan, tmp_path)
    before = contents(tmp_path)
    agent = plan.agent
    wrong = {
        "seed 7; it cannot be resumed with 5": replace(plan, seed=5),
        "envs 2; it cannot be resumed with 4": replace(plan, envs=4),
        "agent.gamma 0.99; it cannot be resumed with 0.5": replace(plan, agent=replace(agent, gamma=0.5)),
        "agent.lr .* it cannot be resumed with 0.5": replace(plan, agent=replace(agent, lr=constant(0.5))),
        "agent.capacity 300; it cannot be resumed with 200": replace(plan, agent=replace(agent, capacity=200)),
        "env_args {}; it cannot be resumed with": replace(plan, env_args={"sutton_barto_reward": True}),
        "eval_episodes 2; it cannot be resumed with 3": replace(plan, eval_episodes=3),
        "checkpoint_every 100; it cannot be resumed with 50": replace(plan, checkpoint_every=50),
        "holds a run of dqn; it cannot be resumed as a2c": replace(plan, agent=A2CConfig(**SMALL)),
        "its steps can be raised, but not lowered to 200": replace(plan, steps=200),
    }
    for words, other in wrong.items():
        with pytest.raises(CairnError, match=words):
            train(other, tmp_path, resume=True)
    assert contents(tmp_path) == before


def test_what_leaves_the_weights_alone_may_change(tmp_path):
    plan = replace(recipe("sac"), steps=600, checkpoint_every=300)
    plan = replace(plan, agent=replace(plan.agent, capacity=300))
    train(plan, tmp_path / "alone")
    train(replace(plan, steps=300), tmp_path / "moved")
    changed = {"name": "other", "log_every": 50, "eval_every": 100, "vector": "async", "workers": 1, "threads": 1}
    train(replace(plan, **changed, target=1e9, hold=3), tmp_path / "moved", resume=True)
    left, right = weights(tmp_path / "alone"), weights(tmp_path / "moved")
    assert all(torch.equal(left[key], right[key]) for key in left)
    assert read_recipe(tmp_path / "moved").name == "other"
    assert not list((tmp_path / "moved").glob("*.damaged"))


def test_a_finished_run_resumed_again_changes_no_file(tmp_path):
    plan = replace(recipe("dqn"), steps=600)
    first = train(plan, tmp_path)
    before = contents(tmp_path)
    again = train(plan, tmp_path, resume=True)
    assert contents(tmp_path) == before
    assert again.score == first.score and again.step == first.step and again.best == first.best


def test_a_solved_run_goes_on_where_another_target_is_asked_for(tmp_path):
    plan = replace(recipe("a2c"), steps=2000, target=1.0, hold=1, checkpoint_every=200)
    first = train(plan, tmp_path)
    assert first.solved and first.step < 2000
    assert train(plan, tmp_path, resume=True).step == first.step
    assert train(replace(plan, target=1e6), tmp_path, resume=True).step >= 2000


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.name != ".lock"]
    return {str(p.relative_to(folder)): (p.stat().st_mtime_ns, p.read_bytes()) for p in files}


# -- damage to what is only written down


@pytest.mark.parametrize("name", ["metrics.csv", "monitor.csv", "evaluations.npz", "tb"])
@pytest.mark.parametrize("how", ["cut", "flip", "gone", "folder", "empty"])
def test_a_damaged_log_never_stops_a_resume(name, how, tmp_path, capsys):
    plan = replace(recipe("a2c"), steps=400, checkpoint_every=200, eval_every=200)
    whole, path = tmp_path / "whole", tmp_path / "hurt" / name
    train(plan, whole)
    shutil.copytree(whole, tmp_path / "hurt")
    train(replace(plan, steps=800), whole, resume=True)
    damage(path, how)
    train(replace(plan, steps=800), tmp_path / "hurt", resume=True)
    left, right = weights(whole), weights(tmp_path / "hurt")
    assert all(torch.equal(left[key], right[key]) for key in left)
    said = capsys.readouterr().err
    if name != "tb" or how in ("cut", "flip"):
        assert f"{path} is" in said
    if how not in ("gone", "folder") or name != "tb":
        assert how == "gone" or path.with_name(f"{name}.damaged").exists()
    if name.endswith("csv"):
        assert b"\0" not in path.read_bytes() and len(path.read_bytes().splitlines()) > 2


def damage(path: Path, how: str) -> None:
    blob = path.read_bytes() if path.is_file() else b"events"
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    if how == "folder":
        path.mkdir()
    elif how == "flip":
        at = 3 * len(blob) // 4
        path.write_bytes(blob[:at] + bytes([blob[at] ^ 1]) + blob[at + 1 :])
    elif how != "gone":
        path.write_bytes(blob[: len(blob) // 3] if how == "cut" else b"")


def test_a_damaged_config_is_noticed_and_taken_from_the_checkpoint(tmp_path, capsys):
    plan = replace(recipe("a2c"), steps=400, checkpoint_every=200)
    train(plan, tmp_path)
    for old, new in (('"gamma": 0.99', '"gamma": 0.98'), ('"digest"', '"dogest"'), ("{", "[")):
        text = (tmp_path / "config.json").read_text()
        assert old in text
        (tmp_path / "config.json").write_text(text.replace(old, new, 1))
        assert train(plan, tmp_path, resume=True).step == 400
        assert "settings are taken from the last checkpoint" in capsys.readouterr().err
        assert (tmp_path / "config.json").read_text() == text
    (tmp_path / "config.json").unlink()
    assert train(plan, tmp_path, resume=True).step == 400
    assert sorted(p.name for p in tmp_path.glob("config.json.damaged*")) == [
        "config.json.damaged",
        "config.json.damaged-2",
        "config.json.damaged-3",
    ]


def test_a_config_changed_by_hand_is_a_recipe_once_its_digest_is_removed(tmp_path):
    train(replace(recipe("a2c"), steps=400), tmp_path / "run")
    body = json.loads((tmp_path / "run" / "config.json").read_text())
    mine = tmp_path / "mine.json"
    mine.write_text(json.dumps({**body, "seed": 9}))
    with pytest.raises(CairnError, match="remove its digest"):
        read_recipe(mine)
    (tmp_path / "run" / "config.json").write_text(mine.read_text())
    with pytest.raises(CairnError, match="remove the digest from a copy of it"):
        read_recipe(tmp_path / "run" / "config.json")
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    with pytest.raises(CairnError, match=r"config\.json is damaged: its digest differs\.$"):
        read_recipe(tmp_path / "run")
    del body["digest"]
    mine.write_text(json.dumps({**body, "seed": 9}))
    assert read_recipe(mine).seed == 9


# -- a disk that fills


@pytest.mark.parametrize("name", ["metrics.csv", "monitor.csv", "evaluations.npz", "tb", "watch.jsonl", "checkpoints"])
def test_a_disk_that_fills_gives_one_sentence_and_the_run_goes_on_later(name, tmp_path, monkeypatch):
    plan = replace(recipe("a2c"), steps=600, checkpoint_every=200, eval_every=200)
    train(plan, tmp_path / "alone")
    train(replace(plan, steps=200), tmp_path / "full")
    full = (tmp_path / "full" / name).resolve()

    def refused(path: str | int) -> bool:
        path = os.readlink(f"/proc/self/fd/{path}") if isinstance(path, int) else str(path)
        return path.startswith(str(full)) or (name == "evaluations.npz" and "evaluations.tmp" in path)

    def failing(call):
        def wrapped(at, *args, **more):
            if refused(at):
                raise OSError(errno.ENOSPC, "No space left on device")
            return call(at, *args, **more)

        return wrapped

    with monkeypatch.context() as m:
        for call in ("write", "fsync"):
            m.setattr(os, call, failing(getattr(os, call)))
        m.setattr(np, "savez", failing(np.savez))
        if name == "watch.jsonl":
            m.setattr("cairn.runs.run.Run._watch", lambda run, values: run.logs.remark(1, Speaks()))
        with pytest.raises(CairnError) as error:
            train(plan, tmp_path / "full", resume=True)
    said = str(error.value)
    assert "the disk is full" in said and str(full) in said and "the last checkpoint is" in said and "resume" in said
    train(plan, tmp_path / "full", resume=True)
    left, right = weights(tmp_path / "alone"), weights(tmp_path / "full")
    assert all(torch.equal(left[key], right[key]) for key in left)


class Speaks:
    def __init__(self) -> None:
        self.code = "a-code"


def test_a_signal_before_the_first_step_says_that_nothing_was_saved(tmp_path, monkeypatch):
    monkeypatch.setattr(Run, "going", lambda run: run._interrupt(signal.SIGTERM, None))
    outcome = train(recipe("a2c"), tmp_path)
    assert outcome.interrupted == "SIGTERM" and not outcome.saved and outcome.checkpoint is None
    monkeypatch.undo()
    assert train(replace(recipe("a2c"), steps=2000), tmp_path, resume=True).saved


# -- damage to a replay


@pytest.mark.parametrize("name", ["dqn", "dqn-all", "dqn-her", "hiro", "dagger"])
def test_flipped_bytes_of_a_replay_are_noticed_and_what_is_not_needed_is_not_read(name, tmp_path, capsys):
    plan = replace(recipe(name), steps=600, checkpoint_every=200)
    train(plan, tmp_path / "run", **taught(name))
    shutil.copytree(tmp_path / "run", tmp_path / "whole")
    train(replace(plan, steps=700), tmp_path / "whole", resume=True, **taught(name))
    for path in sorted((tmp_path / "run" / "replay").iterdir()):
        hurt = tmp_path / path.stem
        shutil.copytree(tmp_path / "run", hurt)
        blob = bytearray(path.read_bytes())
        used = next((i for i, byte in enumerate(blob) if byte), 0)  # the first row that was written is needed by all
        blob[used] ^= 1
        (hurt / "replay" / path.name).write_bytes(blob)
        if path.stem in ("final", "priorities", "window_cell", "window_length"):
            continue  # what lies first there may be no longer needed
        with pytest.raises(CairnError, match="none of the checkpoints"):
            train(replace(plan, steps=700), hurt, resume=True, **taught(name))
        assert f"damaged ({path.name}" in capsys.readouterr().err
