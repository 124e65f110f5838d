"""The search for better settings: its arithmetic, then a short search that is killed and goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from cairn.algorithms import DQNConfig, PPOConfig
from cairn.cli.main import main
from cairn.core.errors import CairnError
from cairn.recipes import find
from cairn.runs.config import read_recipe
from cairn.runs.curves import Point, evaluations
from cairn.search.space import bounds, scaled, varied
from cairn.search.tune import _study, area


def test_a_trial_is_worth_its_mean_over_the_run_held_at_the_last():
    curve = [Point(100, 0.1, 10.0), Point(200, 0.2, 30.0)]
    assert area(curve, 200) == 20.0
    assert area(curve, 400) == 25.0  # it stopped early, at 30
    assert area([Point(100, 0.1, 1.0)], 100) == 1.0


def test_factors_of_each_kind_of_number():
    cfg = DQNConfig(hidden=(64, 32), gamma=0.98, tau=0.01, batch_size=32)
    new = scaled(cfg, {"hidden": 2.0, "gamma": 2.0, "tau": 2.0, "batch_size": 0.5, "lr": 3.0})
    assert (new.hidden, new.batch_size) == ((128, 64), 16)
    assert new.gamma == pytest.approx(0.96) and new.tau == pytest.approx(0.02)
    assert new.lr.start == pytest.approx(3 * cfg.lr.start)
    assert scaled(cfg, {name: 1.0 for name in varied(cfg)}) == cfg  # the recipe as it is
    assert 0.5 <= scaled(cfg, {"gamma": 1e9}).gamma < 1


def test_what_is_varied():
    assert "entropy_weight" in varied(find("pong-ppo").agent)
    assert varied(PPOConfig(), ["lr", "clip"]) == ["lr", "clip"]
    with pytest.raises(CairnError, match="Did you mean gamma"):
        varied(DQNConfig(), ["gama"])
    with pytest.raises(CairnError, match="not a numeric setting"):
        varied(DQNConfig(), ["activation"])


def test_a_factor_stays_within_the_range_of_its_field():
    cfg = DQNConfig(tau=0.5, gamma=0.98)
    low, high = bounds(cfg, "tau")
    assert low == 0.25 and 1.5 < high <= 2.0 and scaled(cfg, {"tau": high}).tau <= 1
    assert bounds(cfg, "lr") == (0.25, 4.0)
    with pytest.raises(CairnError, match="agent.priority is 0"):
        varied(cfg, ["priority"])


def test_a_folder_of_another_search_is_refused(tmp_path):
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    ppo, out = find("cartpole-ppo"), tmp_path / "search"
    _study(ppo, ["lr"], out)
    assert _study(ppo, ["lr"], out).study_name == ppo.name  # its own goes on
    kept = (out / "trials.db").read_bytes()
    for recipe, names, words in (
        (find("cartpole-dqn"), ["lr"], "another search than one for cartpole-dqn"),
        (replace(ppo, steps=7), ["lr"], "began from other settings"),
        (ppo, ["gamma"], "varies lr"),
    ):
        with pytest.raises(CairnError, match=words):
            _study(recipe, names, out)
    assert (out / "trials.db").read_bytes() == kept
    for name, text in (("trials.db", "no database"), ("notes.txt", "mine")):
        other = tmp_path / name / "folder"
        other.mkdir(parents=True)
        (other / name).write_text(text)
        with pytest.raises(CairnError, match="name a(nother| new) folder with"):
            _study(ppo, ["lr"], other)
        assert [p.read_text() for p in other.iterdir()] == [text]


QUICK = ["--steps", "400", "--eval-every", "100", "--eval-episodes", "2", "--checkpoint-every", "100000"]


def cairn(*args, code=0, capsys):
    with pytest.raises(SystemExit) as stop:
        main(args)
    assert (stop.value.code or 0) == code
    return capsys.readouterr()


def test_a_search_that_is_killed_goes_on_and_writes_a_recipe(tmp_path, capsys):
    """Only it has trials in processes of their own, one of which is left half-done."""
    pytest.importorskip("optuna")
    out = tmp_path / "search"
    command = [sys.executable, "-m", "cairn", "tune", "cartpole-dqn", "--vary", "lr,gamma", "--out", str(out), *QUICK]
    process = subprocess.Popen([*command, "--trials", "50"], stdout=subprocess.DEVNULL)
    while not (out / "trial-1").exists():
        assert process.poll() is None
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    said = cairn(*command[3:], "--trials", "4", capsys=capsys).out
    assert "(the recipe)" in said and "best.json" in said
    other = cairn(*command[3:], "--trials", "5", "--agent.lr", "0.1", code=2, capsys=capsys).err
    assert "began from other settings" in other
    best = read_recipe(out / "best.json")
    base = find("cartpole-dqn")
    assert best.name == "cartpole-dqn-tuned" and best.env == base.env and best.agent.hidden == base.agent.hidden
    finished = [f for f in out.glob("trial-*") if f.is_dir() and len(evaluations(f, "return")) == 4]
    assert len(finished) >= 3
    plain = json.loads((out / "best.json").read_text())
    assert plain["kind"] == "Recipe"
    cairn("train", str(out / "best.json"), "--steps", "100", "--out", str(tmp_path / "run"), capsys=capsys)
