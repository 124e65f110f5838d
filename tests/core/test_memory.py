"""A replay that does not fit is said before anything is made, with the size that does."""

import pytest
import torch

from cairn.algorithms import DQNConfig, HIROConfig, SACConfig
from cairn.cli.main import main
from cairn.core import memory
from cairn.core.device import resolve_device
from cairn.core.errors import CairnError
from cairn.core.types import Box, Discrete, Spec
from cairn.recipes.recipe import Recipe
from cairn.replay.frames import Frames
from cairn.replay.ring import Ring
from cairn.runs.train import train


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (Frames, Spec((4, 84, 84), "uint8", Discrete(6), stack=4)),
        (Ring, Spec((17,), "float32", Box((3,), (-1.0,) * 3, (1.0,) * 3))),
    ],
)
def test_a_transition_takes_what_is_said(kind, spec):
    replay = kind(20_000, 8, spec, generator=torch.Generator(), gamma=0.99)
    stores = [replay.store.storage, replay.ring.storage] if kind is Frames else [replay.storage]
    taken = sum(a.nbytes for s in stores for name, a in s.arrays.items() if name != "final")
    assert taken / 20_000 == pytest.approx(kind.bytes_each(spec), rel=0.01)


def test_the_size_that_fits_is_said(monkeypatch):
    monkeypatch.setattr(memory, "memory", lambda: (8 * 10**9, 16 * 10**9))
    memory.must_fit(1_000_000, 8_000, mapped=False)
    with pytest.raises(CairnError) as told:
        memory.must_fit(1_000_001, 8_000, mapped=False)
    assert str(told.value) == (
        "a replay buffer of 1,000,001 transitions takes 8.0 GB and there are 8.0 GB of memory; a capacity of 900000"
        " fits."
    )
    memory.must_fit(2_000_000, 8_000, mapped=True)  # other files give way
    with pytest.raises(CairnError, match="16.0 GB of memory; a capacity of 1800000 fits"):
        memory.must_fit(2_000_001, 8_000, mapped=True)


def test_it_is_said_before_a_file_is_made(tmp_path, capsys):
    huge = ["--env", "cairn/PixelCartPole-v0", "--agent", "dqn", "--steps", str(10**10)]
    huge += ["--agent.capacity", str(10**10)]
    with pytest.raises(SystemExit) as stop:
        main(["train", *huge, "--out", str(tmp_path / "run")])
    told = capsys.readouterr().err.strip()
    assert stop.value.code == 2 and len(told.splitlines()) == 1
    assert "a replay buffer of 10,000,000,000 transitions takes 72" in told and "fits." in told
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["pong-ppo", "--env", "ALE/Pongg-v5"], "there is no environment 'ALE/Pongg-v5'. Did you mean ALE/Pong-v5?"),
        (["pong-ppo", "--device", "cuda:77"], "device 'cuda:77' is not available here; use --device cpu, or auto."),
        (
            ["breakout-dqn", "--envs", "1", "--agent.capacity", str(10**9), "--steps", str(10**9)],
            "of memory; a capacity of ",
        ),
    ],
)
def test_what_a_game_lacks_is_one_sentence(args, words, tmp_path, capsys):
    pytest.importorskip("ale_py")
    with pytest.raises(SystemExit) as stop:
        main(["train", *args, "--out", str(tmp_path / "run")])
    told = capsys.readouterr().err.strip()
    assert stop.value.code == 2 and words in told and len(told.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_hierarchies_are_measured_too():
    level = SACConfig(capacity=10**11)
    agent = HIROConfig(high=SACConfig(), low=level, subgoal=(0, 2), subgoal_range=(0.5, 0.5))
    with pytest.raises(CairnError, match="a replay buffer of 100,000,000,000 transitions"):
        train(Recipe(env="Pendulum-v1", agent=agent, steps=10**12))


def test_memory_is_known_here():
    free, whole = memory.memory()
    assert 0 < free <= whole


def test_a_device_by_itself(monkeypatch):
    assert resolve_device("cpu") == "cpu"
    for there, name in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert resolve_device("auto") == name
    recipe = Recipe(env="CartPole-v1", agent=DQNConfig(hidden=(8,)), steps=50, device="auto", eval_episodes=1)
    agent = train(recipe).agent
    assert agent.act(torch.zeros(1, 4), explore=False).shape == (1,)
