"""Callbacks: called at each log and evaluation; one that says False, or raises, ends the run with all of it saved."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import cairn
from cairn import A2C, CairnError
from cairn.algorithms import A2CConfig, SACConfig
from cairn.core.state import pack
from cairn.recipes.recipe import Recipe
from cairn.runs.callbacks import CallbackError, Callbacks
from cairn.runs.policy_files import checkpoints
from cairn.runs.train import train

EVERY = {"log_every": 100, "eval_every": 200, "eval_episodes": 2}
PLAN = Recipe(env="CartPole-v1", agent=A2CConfig(hidden=(8,)), steps=400, checkpoint_every=200, name="small", **EVERY)
SAC = SACConfig(hidden=(8,), learning_starts=50, batch_size=8)


def test_it_is_called_at_each_log_and_evaluation_with_what_was_written(tmp_path):
    seen = []
    model = A2C("CartPole-v1", hidden=8)
    model.learn(400, out=tmp_path / "run", callback=seen.append, **EVERY)
    assert [(p.event, p.step) for p in seen] == [
        ("log", 100),
        ("log", 200),
        ("evaluation", 200),
        ("log", 300),
        ("log", 400),
        ("evaluation", 400),
    ]
    assert all(p.agent is model and p.folder == tmp_path / "run" and p.steps == 400 for p in seen)
    written = {}
    for line in (tmp_path / "run" / "metrics.csv").read_text().splitlines()[1:]:
        step, _, name, value = line.split(",")
        written[int(step), name] = float(value)
    told = {(p.step, name): value for p in seen for name, value in p.metrics.items()}
    assert {name for _, name in told} >= {"rollout/ep_rew_mean", "eval/mean_reward", "time/fps"}
    assert told.keys() == written.keys() and all(type(value) is float for value in told.values())
    assert all(told[key] == pytest.approx(written[key], rel=1e-5) for key in told)


def test_a_recipe_has_callbacks_too_and_several_are_called_in_turn():
    order = []
    first, second = (lambda p, k=k: order.append((k, p.event, p.folder)) for k in (1, 2))
    outcome = cairn.train(replace(PLAN, steps=100), callback=[first, second])
    assert outcome.interrupted is None
    assert order == [(k, event, None) for event in ("log", "evaluation") for k in (1, 2)]


@pytest.mark.parametrize("answer", [False, np.False_])
@pytest.mark.parametrize(("agent", "env"), [(PLAN.agent, "CartPole-v1"), (SAC, "Pendulum-v1")])
def test_false_ends_the_run_with_a_checkpoint_from_which_it_goes_on_exactly(agent, env, answer, tmp_path):
    plan, called = replace(PLAN, agent=agent, env=env), []

    def stop(progress):
        called.append(progress.event)
        return answer if progress.step >= 200 else None

    whole = train(plan, tmp_path / "whole")
    part = train(plan, tmp_path / "part", callbacks=Callbacks((stop, called.append)))
    assert (part.step, part.interrupted, part.saved) == (200, "callback", True)
    assert called[-2:] == ["evaluation", called[-1]]  # what is due at this step is done, and every callback told
    rest = train(plan, tmp_path / "part", resume=True)
    assert (rest.step, rest.interrupted) == (400, None)
    mine, theirs = pack(whole.agent.policy_parts), pack(rest.agent.policy_parts)
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_without_a_folder_false_ends_the_training():
    model = A2C("CartPole-v1", hidden=8)
    counts = []
    model.learn(400, callback=lambda p: counts.append(p.step) or p.step < 200, **EVERY)
    assert counts[-1] == 200


def test_one_that_raises_loses_nothing(tmp_path):
    def broken(progress):
        return {}["no such key"] if progress.step == 200 else None

    later = []
    model, folder = A2C("CartPole-v1", hidden=8), tmp_path / "run"
    with pytest.raises(CallbackError, match=r"^callback broken raised KeyError: 'no such key' at step 200;") as caught:
        model.learn(400, out=folder, callback=[broken, later.append], **EVERY)
    assert f"the run is saved in {checkpoints(folder / 'checkpoints')[-1]}" in str(caught.value)
    assert isinstance(caught.value.__cause__, KeyError) and caught.value.__cause__.__traceback__ is not None
    assert [p.step for p in later] == [100]  # after one has raised none is called
    assert int(checkpoints(folder / "checkpoints")[-1].name) == 200
    assert np.load(folder / "evaluations.npz")["timesteps"].tolist() == [200]
    model.learn(400, out=folder, resume=True, **EVERY)
    assert int(checkpoints(folder / "checkpoints")[-1].name) == 400


def test_one_that_raises_without_a_folder_leaves_the_model_trained():
    class Broken:
        def __call__(self, progress):
            raise RuntimeError

    model = A2C("CartPole-v1", hidden=8)
    before = {name: value.clone() for name, value in pack(model.agent.policy_parts).items()}
    with pytest.raises(CairnError, match=r"^callback Broken raised RuntimeError at step 100; the model keeps"):
        model.learn(400, callback=Broken(), **EVERY)
    after = pack(model.agent.policy_parts)
    assert any(not torch.equal(before[name], after[name]) for name in before)


def test_a_callback_may_use_the_model_and_changes_nothing():
    """It evaluates and saves; the weights are those of a run without it."""
    alone, watched = (A2C("CartPole-v1", hidden=8, seed=3) for _ in range(2))
    alone.learn(300, **EVERY)

    def look(progress):
        assert progress.agent.evaluate(2).episodes == 2
        progress.agent.predict(np.zeros(4, np.float32), deterministic=True)

    watched.learn(300, callback=look, **EVERY)
    mine, theirs = pack(alone.agent.policy_parts), pack(watched.agent.policy_parts)
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (3, "callback is 3; it must be a function of one argument"),
        (
            type("Stop", (), {"_on_step": lambda self: False})(),
            "which is made for Stable-Baselines3; write a function",
        ),
        ("print", "callback is 'print'; it must be a function"),
        ([print, None], "callback is None"),
        (Path, "callback is the class Path"),
        (lambda: True, "callback must be a function of one argument, the progress of the run; this one takes ()"),
        (lambda a, b: True, "this one takes (a, b)"),
    ],
)
def test_what_is_no_callback_is_refused_before_the_first_step(given, words):
    for call in (
        lambda: A2C("CartPole-v1", hidden=8).learn(100, callback=given),
        lambda: cairn.train(PLAN, callback=given),
    ):
        with pytest.raises(CairnError) as caught:
            call()
        assert words in str(caught.value)
