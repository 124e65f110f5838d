"""Checkpoints are data: refused when they are anything else, and never half there."""

import errno
import json
import os
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch

from cairn import PPO, SAC, CairnError
from cairn.algorithms import AggreVaTeDConfig, BCConfig, DAggerConfig, DQNConfig, ReinforceConfig, SACConfig, build
from cairn.cli.main import main
from cairn.core.schedules import constant, linear
from cairn.core.state import pack
from cairn.core.types import Box, Discrete, Spec
from cairn.envs.task import Task
from cairn.recipes import find
from cairn.runs import checkpoint, policy_files
from cairn.runs.checkpoint import about_policy, load_policy, save_policy
from cairn.runs.train import train

SPEC = Spec((3,), "float32", Box((1,), (-2.0,), (2.0,)))


@pytest.fixture
def saved(tmp_path) -> Path:
    agent = build(SACConfig(hidden=(8,)), SPEC, seed=3)
    save_policy(tmp_path / "policy", agent, Task("Pendulum-v1", 50), {"seed": 3})
    return tmp_path / "policy"


def rewrite(folder: Path, **changes) -> None:
    """Alter policy.json as someone would who knows how to make its digest right again."""
    head = json.loads((folder / "policy.json").read_text())
    (folder / "policy.json").write_bytes(policy_files.json_file({**head, **changes}))


def test_an_altered_figure_is_noticed(saved):
    head = json.loads((saved / "policy.json").read_text())
    head["agent"]["gamma"] = 0.5
    (saved / "policy.json").write_text(json.dumps(head))
    with pytest.raises(CairnError, match="damaged"):
        load_policy(saved)


def test_a_policy_of_another_version_is_refused_by_what_is_unknown(saved):
    rewrite(saved, agent={"kind": "SACConfig", "warp": 9})
    with pytest.raises(CairnError, match=r"not a saved agent of this version of Cairn: SACConfig has no field warp\."):
        load_policy(saved)
    rewrite(saved, agent={"kind": "WarpConfig"})
    with pytest.raises(CairnError, match=r"there is no WarpConfig\."):
        load_policy(saved)


def test_saving_never_replaces_what_is_not_a_policy(saved, tmp_path):
    agent = build(SACConfig(hidden=(8,)), SPEC)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.txt").write_text("years")
    (tmp_path / "file.zip").write_text("model")
    for path in (tmp_path / "work", tmp_path / "file.zip", tmp_path):
        with pytest.raises(CairnError, match=r"holds other files than a policy's|is a file"):
            save_policy(path, agent, Task("Pendulum-v1"), {})
    assert (tmp_path / "work" / "thesis.txt").read_text() == "years"


def test_saving_keeps_a_file_that_only_begins_like_one_of_a_policy(saved, tmp_path, capsys):
    (saved / "policy.py").write_text("mine")
    agent = build(SACConfig(hidden=(8,)), SPEC)
    with pytest.raises(CairnError, match=r"holds other files than a policy's \(policy\.py\)"):
        save_policy(saved, agent, Task("Pendulum-v1"), {})
    with pytest.raises(SystemExit) as stop:
        main(["export", str(saved), "--out", str(saved)])
    assert stop.value.code == 2 and "(policy.py)" in capsys.readouterr().err
    assert (saved / "policy.py").read_text() == "mine" and load_policy(saved).about == {"seed": 3}


def test_only_numbers_of_ten_digits_are_checkpoints(tmp_path):
    for name in ("0000000300", "0000000200", "12345678901", "2026-notes", "12", "0000000400.damaged"):
        (tmp_path / name).mkdir()
    assert [p.name for p in policy_files.checkpoints(tmp_path)] == ["0000000200", "0000000300", "12345678901"]


def test_a_kill_between_two_renames_loses_nothing(saved, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    saved.rename(run / ".best.old")
    assert load_policy(run).about == {"seed": 3}


def test_a_policy_comes_back_as_it_was(saved):
    before, after = build(SACConfig(hidden=(8,)), SPEC, seed=3), load_policy(saved)
    obs = torch.randn(5, 3)
    assert torch.equal(before.act(obs, explore=False), after.agent.act(obs, explore=False))
    assert after.task == Task("Pendulum-v1", 50) and after.agent.cfg == before.cfg and after.agent.spec == SPEC


def test_a_saved_policy_explores_as_at_the_end_of_its_training(tmp_path):
    agent = build(DQNConfig(hidden=(8,), epsilon=linear(1.0, 0.0)), Spec((3,), "float32", Discrete(4)))
    save_policy(tmp_path / "dqn", agent, Task("CartPole-v1"), {})
    loaded, obs = load_policy(tmp_path / "dqn").agent, torch.randn(50, 3)
    assert torch.equal(loaded.act(obs, explore=True), loaded.act(obs, explore=False))


def test_an_average_that_was_saved_explores_and_learns_on_as_itself(tmp_path):
    cfg = AggreVaTeDConfig(learner=ReinforceConfig(hidden=(8,), log_std=-9.0), average=0.5)
    agent = build(cfg, SPEC, seed=3)
    with torch.no_grad():
        agent.mean.policy_head.bias += 0.7
    save_policy(tmp_path / "mean", agent, Task("Pendulum-v1"), {})
    loaded, obs = load_policy(tmp_path / "mean").agent, torch.randn(20, 3)
    torch.testing.assert_close(loaded.act(obs, explore=True), loaded.act(obs, explore=False), atol=0.01, rtol=0)


def test_what_a_start_would_mean_otherwise_is_refused_in_every_part(tmp_path):
    cfg = DAggerConfig(learner=BCConfig(hidden=(8,), activation="relu"))
    save_policy(tmp_path / "relu", build(cfg, SPEC), Task("Pendulum-v1"), {})
    other = build(replace(cfg, learner=replace(cfg.learner, activation="tanh")), SPEC)
    with pytest.raises(CairnError, match=r"add learner\.activation='relu'"):
        checkpoint.load_start(tmp_path / "relu", other)


def test_cut_short(saved):
    blob = (saved / "policy.safetensors").read_bytes()
    (saved / "policy.safetensors").write_bytes(blob[:100])
    with pytest.raises(CairnError, match="damaged"):
        load_policy(saved)


def test_altered(saved):
    blob = bytearray((saved / "policy.safetensors").read_bytes())
    blob[-1] ^= 1
    (saved / "policy.safetensors").write_bytes(bytes(blob))
    with pytest.raises(CairnError, match="damaged"):
        load_policy(saved)


def test_from_a_newer_format(saved):
    rewrite(saved, format=99)
    with pytest.raises(CairnError, match="newer than this Cairn"):
        load_policy(saved)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": 1, "agent": {"kind": "Evil"}}'])
def test_json_that_is_not_ours(saved, text):
    (saved / "policy.json").write_text(text)
    with pytest.raises(CairnError):
        load_policy(saved)


class Bomb:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {self.marker}",)


def test_a_pickle_is_refused_and_never_run(saved, tmp_path):
    marker = tmp_path / "boom"
    alone = tmp_path / "model.pkl"
    alone.write_bytes(pickle.dumps(Bomb(marker)))
    with pytest.raises(CairnError, match="never unpickles"):
        load_policy(alone)
    (saved / "policy.safetensors").write_bytes(alone.read_bytes())
    with pytest.raises(CairnError):
        load_policy(saved)
    import hashlib  # even with a matching checksum

    rewrite(saved, sha256=hashlib.sha256(alone.read_bytes()).hexdigest())
    with pytest.raises(CairnError, match="not a safetensors file"):
        load_policy(saved)
    assert not marker.exists()


def test_a_full_disk_leaves_the_old_policy(saved, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(policy_files.os, "fsync", full)
    other = build(SACConfig(hidden=(8,)), SPEC, seed=4)
    with pytest.raises(CairnError, match="disk is full"):
        save_policy(saved, other, Task("Pendulum-v1"), {})
    monkeypatch.undo()
    assert load_policy(saved).about == {"seed": 3}
    assert [p.name for p in saved.parent.iterdir()] == ["policy"]


def test_missing_tensor_and_wrong_shape_are_named(saved):
    agent = json.loads((saved / "policy.json").read_text())["agent"]
    rewrite(saved, agent={**agent, "hidden": [16]})
    with pytest.raises(CairnError, match="tensor actor.layers.0.weight has shape"):
        load_policy(saved)


def test_training_starts_from_a_saved_policy_and_a_resumed_run_from_its_own(tmp_path):
    steps = {"steps": 2500, "eval_every": 10**6, "checkpoint_every": 2500}
    slow = replace(find("cartpole-ppo"), agent=replace(find("cartpole-ppo").agent, lr=constant(1e-12)), **steps)
    first = train(replace(find("cartpole-ppo"), **steps), tmp_path / "first")
    again = replace(slow, start=str(tmp_path / "first"))
    second = train(again, tmp_path / "second")
    weights = [pack(outcome.agent.policy_parts) for outcome in (first, second, train(slow))]
    name = next(k for k in weights[0] if k.endswith("weight"))
    torch.testing.assert_close(weights[0][name], weights[1][name])
    assert not torch.allclose(weights[0][name], weights[2][name])
    shutil.rmtree(tmp_path / "first")  # a run that goes on needs it no more
    train(replace(again, steps=3500), tmp_path / "second", resume=True)


def test_the_familiar_face(tmp_path):
    model = SAC("Pendulum-v1", seed=1, hidden=(16,), learning_starts=50, lr=1e-3).learn(200)
    obs = np.zeros((4, 3), np.float32)
    action, state = model.predict(obs, deterministic=True)
    assert action.shape == (4, 1) and state is None and np.abs(action).max() <= 2.0
    model.save(tmp_path / "m")
    again = SAC.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(obs[0], deterministic=True)[0], action[0])
    with pytest.raises(CairnError, match="holds a policy of sac"):
        from cairn import TD3

        TD3.load(tmp_path / "m")
    with pytest.raises(CairnError, match="Did you mean gamma"):
        SAC("Pendulum-v1", gama=0.9)
    with pytest.raises(CairnError, match="gamma is 1.2"):
        SAC("Pendulum-v1", gamma=1.2)
    with pytest.raises(CairnError, match="shape"):
        model.predict(np.zeros(7))


class Parts(gym.Env):
    """An observation of two parts that are no goal."""

    observation_space = gym.spaces.Dict({"eye": gym.spaces.Box(0, 1, (2, 2)), "ear": gym.spaces.Box(0, 1, (3,))})
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


def test_observations_of_several_parts_are_predicted_from_one_or_many():
    gym.register("parts/Parts-v0", Parts)
    model = PPO(Task("parts/Parts-v0", 5), hidden=(8,))
    seen = [Parts.observation_space.sample() for _ in range(4)]
    batch = {name: np.stack([one[name] for one in seen]) for name in ("eye", "ear")}
    alone = [int(model.predict(one, deterministic=True)[0]) for one in seen]
    assert model.predict(batch, deterministic=True)[0].tolist() == alone


def test_train_is_a_function_and_a_room():
    import cairn

    assert cairn.train("cartpole-ppo", steps=512, eval_episodes=1).step == 1024
    from cairn import train

    with pytest.raises(CairnError, match="Did you mean cartpole-ppo"):
        train("cartpole-pop")
    with pytest.raises(CairnError, match="Did you mean steps"):
        train("cartpole-ppo", stepz=3)


def test_a_policy_is_exported_whole_or_in_half_precision(saved, tmp_path):
    from cairn.runs.checkpoint import export

    export(saved, tmp_path / "whole")
    export(saved, tmp_path / "half", half=True)
    obs = torch.rand(5, 3)
    want, whole, half = (load_policy(p) for p in (saved, tmp_path / "whole", tmp_path / "half"))
    assert whole.about == half.about == want.about
    assert torch.equal(whole.agent.act(obs, explore=False), want.agent.act(obs, explore=False))
    torch.testing.assert_close(
        half.agent.act(obs, explore=False), want.agent.act(obs, explore=False), atol=1e-2, rtol=0
    )
    sizes = [(tmp_path / name / "policy.safetensors").stat().st_size for name in ("whole", "half")]
    assert sizes[1] < sizes[0]  # much less where the network is larger than its table of contents

    with torch.no_grad():
        next(want.agent.actor.parameters()).fill_(1e6)
    save_policy(tmp_path / "large", want.agent, want.task, want.about)
    with pytest.raises(CairnError, match="too large for half"):
        export(tmp_path / "large", tmp_path / "no", half=True)
    assert not (tmp_path / "no").exists()


def test_a_policy_without_a_digest_is_of_an_older_version_or_altered(tmp_path):
    (tmp_path / "policy.json").write_text('{"format": 1, "about": {"mean": 500}}')
    with pytest.raises(CairnError, match="has no digest: an older Cairn wrote it, or it was altered"):
        about_policy(tmp_path)


def test_tensors_that_could_not_be_read_are_not_written(tmp_path, monkeypatch):
    agent = build(DQNConfig(hidden=(64,)), Spec((4,), "float32", Discrete(2)))
    monkeypatch.setattr("cairn.runs.policy_files.TENSORS", 1000)
    monkeypatch.setattr("cairn.runs.policy_files.TENSOR_HEADER", 100)
    with pytest.raises(CairnError, match=r"policy\.safetensors would hold .* Make its networks smaller"):
        save_policy(tmp_path / "p", agent, Task("CartPole-v1"), {})
    assert list(tmp_path.iterdir()) == []
