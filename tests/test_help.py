"""Every option is explained: the comment behind its field, which `--help` prints, is a phrase and not a symbol."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, fields
from typing import Any

import pytest
from tyro._docstrings import get_field_docstring

from cairn.algorithms.registry import ALGORITHMS
from cairn.cli.bench import BenchArgs
from cairn.cli.doctor import DoctorArgs, NewEnvArgs
from cairn.cli.main import COMMANDS as NAMES
from cairn.cli.main import main
from cairn.cli.native import NativeArgs
from cairn.cli.policies import DemosArgs, EvalArgs, ExportArgs, ImportArgs, WatchArgs
from cairn.cli.recipes import Which
from cairn.cli.reports import ReportArgs
from cairn.cli.results import ListArgs, ResultsArgs
from cairn.cli.search import SweepOptions, TuneOptions
from cairn.cli.train import TrainOptions
from cairn.cli.usage import USAGE, lines_of
from cairn.core.sb3_names import RENAMED
from cairn.recipes.recipe import Recipe

COMMANDS: list[type[Any]] = [BenchArgs, DoctorArgs, NewEnvArgs, DemosArgs, EvalArgs, ExportArgs, ImportArgs]
COMMANDS += [WatchArgs, Which, ReportArgs, ListArgs, ResultsArgs, SweepOptions, TuneOptions, TrainOptions, NativeArgs]
CONFIGS: list[type[Any]] = [one.config for one in ALGORITHMS.values()]
WORD = re.compile(r"[A-Za-z_][A-Za-z_'-]+")  # of two letters or more: K and M are none


def unexplained(cls: type[Any]) -> list[str]:
    """Fields without a help text of at least three words."""
    found = {f.name: get_field_docstring(cls, f.name, ()) or "" for f in fields(cls)}
    return [f"{cls.__name__}.{name}: {text!r}" for name, text in found.items() if len(WORD.findall(text)) < 3]


@pytest.mark.parametrize("cls", [Recipe, *CONFIGS, *COMMANDS], ids=lambda cls: cls.__name__)
def test_every_option_is_explained(cls: type[Any]) -> None:
    assert unexplained(cls) == []


@dataclass
class Riddles:
    epochs: int = 3  # K
    seed: int = 0
    lam: float = 0.9  # λ of GAE
    clear: int = 1  # passes over each rollout


@pytest.mark.parametrize("args", [["train"], ["train", "cartpole-ppo"], ["import"], ["eval"]], ids=" ".join)
def test_a_default_is_told_once_and_only_if_there_is_one(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*args, "--help"])
    shown = " ".join(capsys.readouterr().out.split("usage:")[1].split())
    assert "{None}" not in shown and "(default: '')" not in shown
    for option in re.split(r" (?=--[a-z])", shown)[1:]:
        told = re.findall(r"default: (.*?)[()]", option.partition("`")[0])
        assert len(told) <= 1 or "None" not in told, option


@pytest.mark.parametrize(
    ("args", "rows"),
    [
        (["doctor"], ["  ENV                  Gymnasium id of a task"]),
        (["report"], ["  RUNS                 run folders, or folders"]),
        (["bench"], ["  WHAT                    what to measure", "  ENV                     Gymnasium id"]),
        (["train", "cartpole-ppo"], ["  --log {wandb,mlflow} ...", "  --agent.hidden INT ..."]),
        (["train", "--env", "CartPole-v1", "--agent", "ppo"], ["usage: cairn train --env CartPole-v1 --agent ppo ["]),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else None,
)
def test_arguments_have_names_and_no_nested_brackets(
    args: list[str], rows: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([*args, "--help"])
    shown = capsys.readouterr().out
    assert all(any(line.startswith(row) for line in shown.splitlines()) for row in rows)
    assert "[[" not in shown and "(default: )" not in shown and not re.search(r" $", shown, re.M)


def test_every_command_is_in_the_usage_once_and_under_a_heading() -> None:
    listed = re.findall(r"^  cairn ([a-z-]+) ", USAGE, re.M)
    assert list(dict.fromkeys(listed)) == [name for name, _ in itertools.groupby(listed)] and {*listed} == {*NAMES}
    for name in NAMES:
        assert lines_of(name).count("\n      ") == listed.count(name)
    assert len(re.findall(r"^[A-Z].*:$", USAGE, re.M)) == 5


def test_symbols_and_silence_are_noticed() -> None:
    assert [one.partition(":")[0] for one in unexplained(Riddles)] == ["Riddles.epochs", "Riddles.seed", "Riddles.lam"]


@pytest.mark.parametrize(
    ("kind", "field", "name"),
    [
        ("ppo", "lr", "learning_rate"),
        ("ppo", "horizon", "n_steps"),
        ("ppo", "epochs", "n_epochs"),
        ("ppo", "lam", "gae_lambda"),
        ("ppo", "clip", "clip_range"),
        ("ppo", "entropy_weight", "ent_coef"),
        ("ppo", "value_weight", "vf_coef"),
        ("ppo", "max_norm", "max_grad_norm"),
        ("dqn", "capacity", "buffer_size"),
        ("dqn", "target_every", "target_update_interval"),
        ("sac", "updates_per_step", "train_freq"),
        ("td3", "noise", "action_noise"),
    ],
)
def test_the_name_of_sb3_stands_beside_it(kind: str, field: str, name: str) -> None:
    text = get_field_docstring(ALGORITHMS[kind].config, field, ()) or ""
    assert "(SB3: " in text and name in text and field in RENAMED[name]
