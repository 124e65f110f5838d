"""What `cairn new-env` writes works as it stands: its own test passes, the doctor is silent, an agent learns it."""

import os
import subprocess
import sys

import pytest

from cairn.cli.main import main
from cairn.core.errors import CairnError
from cairn.envs.template import named, write
from tests.processes import Forked

GOAL = pytest.mark.parametrize("goal", [False, True], ids=["plain", "goal"])


def command(folder, kind, *args):
    """What a process in `folder` does: `cairn`, `pytest` or code."""
    os.chdir(folder)
    if kind != "cairn":  # which finds the task by itself
        sys.path.insert(0, str(folder))
    if kind == "code":
        exec(args[0], {})
    else:
        sys.exit(pytest.main(list(args)) if kind == "pytest" else main(args))


def run(folder, kind, *args):
    process = Forked("tests.envs.test_template", "command", str(folder), kind, *args)
    return process.wait(), process.said()


@GOAL
def test_its_own_test_passes(tmp_path, goal):
    task, paths = write("cart_swing", tmp_path, goal=goal)
    assert task == "cart_swing:CartSwing-v0"
    assert [p.name for p in paths] == ["cart_swing.py", "test_cart_swing.py"]
    code, said = run(tmp_path, "pytest", "-q", "-p", "no:cacheprovider")
    assert code == 0, said
    assert f"{5 if goal else 4} passed" in said and "warning" not in said


@GOAL
def test_the_doctor_finds_neither_error_nor_warning(tmp_path, goal):
    task, _ = write("cart_swing", tmp_path, goal=goal)
    code, said = run(tmp_path, "cairn", "doctor", task, "--seconds", "30")
    assert code == 0 and "nothing found" in said, said


@GOAL
def test_it_is_clean_code(tmp_path, goal):
    write("cart_swing", tmp_path, goal=goal)
    for check in (["check", "--select", "E,F,I,B,UP"], ["format", "--check"]):
        ruff = [sys.executable, "-m", "ruff", *check, "--isolated", "--line-length", "120"]
        told = subprocess.run(ruff, cwd=tmp_path, capture_output=True, text=True)
        assert told.returncode == 0, told.stdout + told.stderr


def test_an_agent_learns_it_from_the_command_that_is_named(tmp_path, capsys):
    """Only it follows what a new user is told to type to the end, in a process of its own."""
    with pytest.raises(SystemExit) as stop:
        main(["new-env", "CartSwing", "--goal", "--out", str(tmp_path)])
    assert stop.value.code == 0
    told = capsys.readouterr().out.splitlines()[-1].split()
    assert told[:2] == ["cairn", "train"]
    small = ["--agent.hidden", "64", "64", "--agent.updates-per-step", "0.5", "--agent.lr", "1e-3", "--envs", "4"]
    small += ["--vector", "async", "--workers", "1"]
    ran = [sys.executable, "-P", "-m", "cairn", *told[1:-1], "8000", *small, "--out", "run"]
    told = subprocess.run(ran, cwd=tmp_path, capture_output=True, text=True)  # -P: as the command, not the module
    assert told.returncode == 0, told.stderr
    success = float(told.stdout.split("success ")[1].split(" %")[0])
    assert success >= 80


SB3 = """
import gymnasium as gym
from stable_baselines3 import HerReplayBuffer, SAC
env = gym.make("cart_swing:CartSwing-v0")
more = {"replay_buffer_class": HerReplayBuffer} if GOAL else {}
policy = "MultiInputPolicy" if GOAL else "MlpPolicy"
SAC(policy, env, learning_starts=120, policy_kwargs={"net_arch": [8]}, **more).learn(160)
"""


@GOAL
def test_stable_baselines3_learns_from_it_too(tmp_path, goal):
    pytest.importorskip("stable_baselines3")
    write("cart_swing", tmp_path, goal=goal)
    code, said = run(tmp_path, "code", SB3.replace("GOAL", str(goal)))
    assert code == 0, said


@pytest.mark.parametrize(
    "name", ["my-task", "1st", "", "a b", "class", "match", "../up", "größe", "numpy", "cairn", "x.y"]
)
def test_a_bad_name_is_one_sentence_and_exit_2(tmp_path, capsys, name):
    with pytest.raises(SystemExit) as stop:
        main(["new-env", name, "--out", str(tmp_path / "there")])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("cairn: ") and said.count("\n") == 1 and "Traceback" not in said
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize("there", ["cart_swing.py", "test_cart_swing.py"])
def test_nothing_is_overwritten(tmp_path, there):
    (tmp_path / there).write_text("mine")
    with pytest.raises(CairnError, match="nothing is overwritten"):
        write("CartSwing", tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [there] and (tmp_path / there).read_text() == "mine"


def test_names():
    assert named("CartSwing") == named("cart_swing") == ("cart_swing", "CartSwing")
    assert named("Maze2D") == ("maze2d", "Maze2d")


def test_no_name_and_an_unknown_option_are_one_sentence(capsys):
    for args in ([], ["cart_swing", "--gaol"]):
        with pytest.raises(SystemExit) as stop:
            main(["new-env", *args])
        assert stop.value.code == 2
    assert "Did you mean --goal" in capsys.readouterr().err
