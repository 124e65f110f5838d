"""A run keeps the form of its arithmetic: it is chosen once, written down, and a resume keeps it or says so."""

import json
import pickle
from dataclasses import replace

import pytest
import torch

from cairn.algorithms import DQNConfig, HIROConfig, PPOConfig, SACConfig
from cairn.algorithms.registry import able_by_hand, build
from cairn.cli.main import main
from cairn.core.errors import CairnError
from cairn.core.serialise import digest as digest_of
from cairn.core.types import Box, Discrete, GoalSpec, Spec
from cairn.native import library as native
from cairn.native.use import by_hand, resolved
from cairn.recipes.recipe import Recipe
from cairn.runs.callbacks import Callbacks
from cairn.runs.config import stored
from cairn.runs.train import train

DQN = DQNConfig(hidden=(16,), learning_starts=50, batch_size=16)
PLAIN = Spec((4,), "float32", Discrete(2))
BOX = Spec((4,), "float32", Box((2,), (-1.0,) * 2, (1.0,) * 2))


def recipe(**more):
    rare = {"eval_every": 10_000, "eval_episodes": 1, "checkpoint_every": 150, "log_every": 150}
    return Recipe("CartPole-v1", DQN, **{"steps": 300, "seed": 3, **rare, **more})


def first_half(folder, **more):
    """A run that ends in the middle, with a checkpoint."""
    train(recipe(**more), folder, callbacks=Callbacks((lambda progress: progress.step < 150,)))


def weights(outcome):
    return torch.cat([p.detach().flatten() for p in outcome.agent.q.parameters()])


def test_a_run_without_the_core_is_that_of_autograd_to_the_bit(hidden, tmp_path):
    auto = train(recipe(), tmp_path / "run")
    assert stored(tmp_path / "run")[0].native == "off"
    assert torch.equal(weights(auto), weights(train(recipe(native="off"), tmp_path / "off")))


def test_auto_takes_the_core_where_it_is_and_writes_it_down(core, tmp_path):
    if core is None:
        pytest.skip("no C++ compiler")
    auto = train(recipe(), tmp_path / "run")
    assert stored(tmp_path / "run")[0].native == "compiled"
    other = weights(train(recipe(native="off"), tmp_path / "off"))
    assert not torch.equal(weights(auto), other)
    torch.testing.assert_close(weights(auto), other, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("form", ["python", "compiled"])
def test_resuming_is_exact_in_each_form(form, core, tmp_path):
    if form == "compiled" and core is None:
        pytest.skip("no C++ compiler")
    whole = train(recipe(native=form), tmp_path / "whole")
    first_half(tmp_path / "run", native=form)
    for asked in ("auto", form):  # the second finds a finished run
        again = train(recipe(native=asked), tmp_path / "run", resume=True)
    assert stored(tmp_path / "run")[0].native == form
    assert torch.equal(weights(again), weights(whole))


def test_a_run_cannot_be_resumed_in_another_form(hidden, tmp_path):
    train(recipe(steps=100), tmp_path / "run")
    with pytest.raises(CairnError, match="holds a run with native off; it cannot be resumed with python"):
        train(recipe(native="python"), tmp_path / "run", resume=True)


def test_without_the_core_its_run_goes_on_in_torch_and_says_so(core, tmp_path, capsys, monkeypatch):
    if core is None:
        pytest.skip("no C++ compiler")
    first_half(tmp_path / "run")
    monkeypatch.setattr(native, "places", lambda: [])
    native.forget()
    capsys.readouterr()
    try:
        again = train(recipe(), tmp_path / "run", resume=True)
    finally:
        native.forget()
    assert capsys.readouterr().err.count("it was not built: it goes on with the same arithmetic in PyTorch") == 1
    assert again.step == 300 and stored(tmp_path / "run")[0].native == "compiled"


def test_a_run_of_an_older_cairn_goes_on_with_autograd(core, tmp_path):
    first_half(tmp_path / "run", native="off")
    config = tmp_path / "run" / "config.json"
    body = {k: v for k, v in json.loads(config.read_text()).items() if k not in ("native", "digest")}
    config.write_text(json.dumps({**body, "digest": digest_of(body)}))
    again = train(recipe(), tmp_path / "run", resume=True)
    assert torch.equal(weights(again), weights(train(recipe(native="off"), tmp_path / "whole")))


@pytest.mark.parametrize(
    ("cfg", "spec", "why"),
    [
        (DQNConfig(layer_norm=True), PLAIN, "layer normalisation"),
        (DQNConfig(dueling=True), PLAIN, "not a plain one"),
        (DQNConfig(activation="silu"), PLAIN, "its activation is silu, not relu or tanh"),
        (DQNConfig(hidden=(8,) * 8), PLAIN, "more than 8 layers"),
        (SACConfig(layer_norm=True), BOX, "layer normalisation"),
        (SACConfig(), replace(BOX, obs_shape=(4, 64, 64), obs_dtype="uint8"), "read by another network"),
        (PPOConfig(memory="gru"), BOX, "a memory"),
        (PPOConfig(), replace(PLAIN, obs_shape=(6,), masked=2), "masks"),
    ],
)
def test_what_cannot_be_done_by_hand_is_done_by_autograd_and_refused_if_asked_for(cfg, spec, why):
    able = able_by_hand(build(cfg, spec))
    assert resolved("auto", able) == "off"
    for form in ("python", "compiled"):
        with pytest.raises(CairnError, match=why):
            resolved(form, able)


@pytest.mark.parametrize("how", ["frozen", "hook"])
def test_parameters_that_are_frozen_or_hooked_are_left_to_autograd(how, core):
    agent = build(DQN, PLAIN)
    weight = next(agent.q.parameters())
    _ = weight.requires_grad_(False) if how == "frozen" else weight.register_hook(torch.zeros_like)
    assert resolved("auto", able_by_hand(agent)) == "off"
    with pytest.raises(CairnError, match="frozen or have hooks"):
        resolved("python", able_by_hand(agent))


def test_the_levels_of_a_hierarchy_learn_by_hand():
    goals = Spec((10,), "float32", Box((2,), (-1.0,) * 2, (1.0,) * 2), GoalSpec(6, 2))
    agent = build(HIROConfig(SACConfig(), SACConfig(), subgoal_range=(0.2, 0.2)), goals)
    before = agent.low.learn
    with by_hand("python", able_by_hand(agent)):
        assert agent.low.learn != before and agent.high.learn != agent.low.learn
    assert agent.low.learn == before


def test_the_agent_gets_its_own_methods_back(tmp_path):
    agent = train(recipe(native="python", steps=100)).agent
    assert agent.learn == agent._learn and agent.toss == agent._toss
    pickle.dumps(agent)


def test_the_core_that_is_asked_for_but_missing_is_one_sentence(hidden):
    with pytest.raises(CairnError, match="needs the native core, and it was not built; build it with"):
        resolved("compiled", able_by_hand(build(DQN, PLAIN)))


def test_a_library_of_another_source_is_not_used(core, tmp_path, monkeypatch):
    if core is None:
        pytest.skip("no C++ compiler")
    monkeypatch.setattr(native, "source_hash", lambda: "another")
    native.forget()
    try:
        assert native.library() == (None, "it was built from another version of Cairn")
    finally:
        native.forget()


def test_a_file_that_is_no_library_is_told(tmp_path, monkeypatch):
    (tmp_path / "_core.so").write_text("nothing")
    monkeypatch.setattr(native, "places", lambda: [tmp_path / "_core.so"])
    native.forget()
    try:
        found, why = native.library()
        assert found is None and why.startswith("_core.so cannot be loaded")
    finally:
        native.forget()


def test_the_command_says_what_there_is_and_how_to_build_it(hidden, tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["native"])
    assert ended.value.code == 1
    assert "there is no native core: it was not built." in " ".join(capsys.readouterr().out.split())
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(SystemExit) as ended:
        main(["native", "--build"])
    assert ended.value.code == 2
    assert "there is no C++ compiler on the PATH" in capsys.readouterr().err


def test_a_compiler_that_fails_is_one_sentence(tmp_path, monkeypatch):
    broken = tmp_path / "c++"
    broken.write_text("#!/bin/sh\necho 'no such header' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    with pytest.raises(CairnError, match="could not compile .*: no such header"):
        native.build(tmp_path)
