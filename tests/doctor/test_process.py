"""Nothing a task does harms who asks: it hangs, dies, raises or cannot be made, and that is the finding."""

import json
import re
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import gymnasium as gym
import pytest

import cairn
from cairn.algorithms import AggreVaTeDConfig, DQNConfig, HIROConfig, PPOConfig, SACConfig
from cairn.cli.main import main
from cairn.core.errors import CairnError
from cairn.doctor.process import _with_config
from cairn.doctor.task_probe import Case
from cairn.doctor.watchers import WATCHERS
from tests.doctor.tasks import NotesCar, Puck


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        ("hangs in reset", "hangs", "reset()"),
        ("hangs in step", "hangs", "step()"),
        ("dies", "dies", "step()"),
        ("raises in reset", "raises", "reset()"),
        ("raises in step", "raises", "step()"),
    ],
)
def test_what_a_task_does_is_a_finding(fault, code, words):
    begun = time.perf_counter()
    first = cairn.diagnose(partial(Puck, fault), seconds=4.0)[0]
    assert (first.code, first.severity) == (code, "error") and words in first.what
    assert time.perf_counter() - begun < 40  # the process takes its time to begin, the task none beyond its own


def test_what_a_task_raises_is_told_with_its_line():
    raises = [f for f in cairn.diagnose(partial(Puck, "raises in step"), seconds=3.0) if f.code == "raises"]
    assert len(raises) == 1 and "ZeroDivisionError: division by zero (tasks.py, line" in raises[0].evidence


def test_a_healthy_task_from_python():
    assert cairn.diagnose(Puck, SACConfig(), seconds=5.0) == []
    with pytest.raises(CairnError, match="a function that makes"):
        cairn.diagnose(Puck())
    lock = threading.Lock()
    [finding] = cairn.diagnose(lambda: Puck(lock))
    assert finding.code == "cannot-make" and "cannot be sent to another process" in finding.evidence


def test_the_discount_of_the_agent_is_what_counts():
    case = Case()
    assert _with_config(case, None).gamma == 0.99
    assert _with_config(case, PPOConfig(gamma=0.9)).gamma == 0.9
    assert (
        _with_config(case, SACConfig(normalise=True)).normalises
        and _with_config(case, PPOConfig(normalise_obs=True)).normalises
    )
    assert _with_config(case, AggreVaTeDConfig(learner=PPOConfig(gamma=0.8))).gamma == 0.8
    hiro = HIROConfig(high=DQNConfig(gamma=0.9), every=10)
    assert _with_config(case, hiro).gamma == pytest.approx(0.99) and _with_config(case, hiro).hindsight


def doctor(*args, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["doctor", *map(str, args)])
    return stop.value.code, capsys.readouterr()


def test_an_id_that_does_not_exist_gets_the_closest(capsys):
    code, said = doctor("CartPool-v1", "--json", capsys=capsys)
    body = json.loads(said.out)
    assert code == 1 and body["error"] == 1
    assert body["findings"][0]["code"] == "cannot-make"
    assert "Did you mean CartPole-v1?" in body["findings"][0]["evidence"]


@pytest.mark.parametrize(
    "text", ["raise RuntimeError('no licence')", "def f(:", "import nothing_of_the_kind", "exit(3)"]
)
def test_a_module_that_fails_to_import_is_a_finding(text, tmp_path, monkeypatch, capsys):
    (tmp_path / "my_broken_tasks.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    code, said = doctor("my_broken_tasks:Maze-v0", "--seconds", 5, capsys=capsys)
    assert code == 1 and "[cannot-make]" in said.out
    assert "Traceback" not in said.out + said.err


def test_versions_known_to_be_broken(capsys):
    code, said = doctor("FetchReach-v3", capsys=capsys)
    assert code == 1 and "[known-broken]" in said.out and "use FetchReach-v4" in said.out


def test_a_registered_task_with_the_discount_of_an_agent(capsys):
    gym.register("doctortest/NotesCar-v0", NotesCar)
    found = cairn.diagnose("doctortest/NotesCar-v0", SACConfig(gamma=0.98), hindsight=True, seconds=10)
    assert [f.code for f in found if f.severity == "error"] == ["dying-pays", "resets-alike", "horizon"]
    code, said = doctor("doctortest/NotesCar-v0", "--seconds", 10, capsys=capsys)  # γ 0.99 is assumed
    codes = re.findall(r"^error: .*?\[([a-z-]+)\]$", said.out, re.MULTILINE | re.DOTALL)  # a sentence may be wrapped
    assert code == 1 and codes == ["dying-pays", "resets-alike"]
    assert "doctortest/NotesCar-v0: 2 errors" in said.out.splitlines()[-1]


def test_a_healthy_task_exits_with_0(capsys):
    code, said = doctor("--recipe", "cartpole-ppo", "--seconds", 8, capsys=capsys)
    assert code == 0 and "CartPole-v1: " in said.out and "error" not in said.out


def test_every_code_is_in_the_book():
    root = Path(__file__).parents[2]
    text = "".join(path.read_text() for path in (root / "src" / "cairn" / "doctor").rglob("*.py"))
    codes = set(re.findall(r'(?:Finding|_broken)\(\s*"([a-z-]+)"', text))
    told = set(re.findall(r"`([a-z-]+)`", (root / "docs" / "reference" / "findings.md").read_text()))
    assert len(codes) > 35 and codes | set(WATCHERS) <= told, codes - told


def test_the_process_that_probes_does_not_pay_for_torch():
    code = "import sys, cairn.doctor; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
