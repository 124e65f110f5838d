"""Cards that somebody else wrote: nothing is run, nothing is allocated out of proportion, one sentence each."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import cairn
from cairn.algorithms import DQNConfig, build
from cairn.cli import main as cli
from cairn.core.errors import CairnError
from cairn.core.serialise import digest, from_json, to_json
from cairn.core.types import Discrete, Spec
from cairn.envs.task import Task
from cairn.recipes import RECIPES
from cairn.recipes.recipe import Recipe
from cairn.runs.checkpoint import export, load_policy, load_start, save_policy
from cairn.runs.config import read_recipe, read_to_resume, write_config
from cairn.runs.evaluation import as_policy, evaluate
from cairn.runs.policy_card import Budget
from cairn.runs.train import train
from cairn.vector.choose import scoring_vector

SPEC = Spec((4,), "float32", Discrete(2))


@pytest.fixture
def saved(tmp_path):
    agent = build(DQNConfig(hidden=(8,)), SPEC)
    save_policy(tmp_path / "p", agent, Task("CartPole-v1"), {"seed": 0})
    return tmp_path / "p"


def altered(folder, *path, value):
    """The card with one value changed and its digest mended, as an author of such a file would."""
    card = json.loads((folder / "policy.json").read_text())
    at = card
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    card["digest"] = digest(card)
    (folder / "policy.json").write_text(json.dumps(card))
    return folder


def refused(call, *says):
    began = time.monotonic()
    with pytest.raises(CairnError) as caught:
        call()
    assert time.monotonic() - began < 5
    text = str(caught.value)
    assert text.isprintable() and len(text) < 900 and all(word in text for word in says), text


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("agent", "hidden"), [100_000, 100_000]),
        (("agent", "hidden"), [1] * 200_000),
        (("agent", "hidden"), [10**15]),
        (("agent", "hidden"), []),
        (("agent", "hidden"), 8),
        (("agent", "hidden"), [8.5]),
        (("agent", "hidden"), [True]),
        (("agent", "quantiles"), 10**12),
        (("agent", "capacity"), "many"),
        (("agent", "capacity"), 10**30),
        (("agent", "lr"), "nan"),
        (("agent", "lr"), [1]),
        (("agent", "gamma"), float("nan")),
        (("agent", "gamma"), float("inf")),
        (("agent", "gamma"), None),
        (("agent", "cnn"), ["nature"]),
        (("agent", "double"), "yes"),
        (("agent", "kind"), "os.system"),
        (("agent",), [1, 2]),
        (("agent",), None),
        (("spec", "obs_shape"), [100_000_000]),
        (("spec", "obs_shape"), [10**8, 10**8]),
        (("spec", "obs_shape"), [2] * 1000),
        (("spec", "obs_shape"), [-4]),
        (("spec", "obs_shape"), 4),
        (("spec", "obs_dtype"), "object"),
        (("spec", "obs_dtype"), {"a": 1}),
        (("spec", "action", "n"), 10**9),
        (("spec", "action", "n"), 0),
        (("spec", "action"), {"kind": "Box", "shape": [2], "low": [0.0], "high": [1.0]}),
        (("spec", "goal"), {"kind": "GoalSpec", "observation": 9, "goal": 9, "seen": True}),
        (("spec", "reachable"), {"kind": "Region", "boxes": [[[0.0], [1.0, 2.0]]]}),
        (("spec", "stack"), 10**9),
        (("task", "history"), 1_000_000_000),
        (("task", "history"), -1),
        (("task", "resets"), 10**9),
        (("task", "id"), "x" * 100_000),
        (("task", "id"), 5),
        (("task", "args"), [1]),
        (("task", "time_limit"), "soon"),
        (("about",), "text"),
        (("task", "\x1b[2Jescape"), 1),
    ],
)
def test_a_card_that_describes_the_impossible_is_one_sentence(saved, path, value):
    refused(lambda: load_policy(altered(saved, *path, value=value)), "policy.json")


def test_weights_that_are_no_numbers_are_refused(tmp_path):
    agent = build(DQNConfig(hidden=(8,)), SPEC)
    with torch.no_grad():
        next(agent.q.parameters()).fill_(float("nan"))
    save_policy(tmp_path / "p", agent, Task("CartPole-v1"), {})
    refused(lambda: load_policy(tmp_path / "p"), "not finite")


def test_a_policy_for_another_task_than_its_card_names_is_one_sentence(saved, tmp_path):
    altered(saved, "task", "id", value="Acrobot-v1")
    refused(lambda: cairn.DQN.load(saved), "another version of Acrobot-v1")
    found = load_policy(saved)
    envs = scoring_vector(found.task.for_scoring(), 1)
    refused(lambda: evaluate(as_policy(found.agent), envs, [1]), "has observations (4,)", "its task observations (6,)")
    envs.close()


def test_an_agent_that_does_not_fit_into_memory_is_refused_before_it_is_made():
    recipe = dataclasses.replace(RECIPES["cartpole-dqn"], steps=100, agent=DQNConfig(hidden=(1_000_000, 1_000_000)))
    refused(lambda: train(recipe), "do not fit into")


def test_a_budget_counts_what_is_made():
    with Budget(100, 3, "too much"):
        torch.zeros(5, 5)
        torch.empty((5, 5))
        torch.ones(size=(7, 7))
        with pytest.raises(CairnError, match="too much"):
            torch.zeros(1)
    with Budget(100, 9, "too much"), pytest.raises(CairnError, match="too much"):
        torch.nn.Linear(10**9, 10**9)


# -- nothing that a file names is imported


@pytest.fixture
def trap(tmp_path, monkeypatch):
    """A module beside the policy that leaves a mark when it is imported."""
    name = f"trap_{os.getpid()}_{abs(hash(tmp_path)) % 10**6}"
    (tmp_path / f"{name}.py").write_text(
        "from pathlib import Path\n"
        f"Path({str(tmp_path / 'ran')!r}).touch()\n"
        "import gymnasium as gym\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "gym.register('Trap-v0', entry_point=CartPoleEnv, max_episode_steps=10)\n"
    )
    monkeypatch.chdir(tmp_path)
    yield name
    sys.modules.pop(name, None)


def test_opening_a_policy_imports_nothing(saved, trap, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    altered(saved, "task", "id", value=f"{trap}:Trap-v0")
    for call in (lambda: load_policy(saved), lambda: cairn.DQN.load(saved)):
        refused(call, f"would run the module {trap}", "say trust=True, or import that module first")
    load_start(saved, build(DQNConfig(hidden=(8,)), SPEC))  # these do not make the task
    export(saved, tmp_path / "out")
    assert not (tmp_path / "ran").exists()
    assert cairn.DQN.load(saved, trust=True).evaluate(2).episodes == 2
    assert (tmp_path / "ran").exists()
    cairn.DQN.load(saved)  # the user has imported it now


def test_a_recipe_in_a_file_imports_nothing(trap, tmp_path):
    plain = to_json(dataclasses.replace(RECIPES["cartpole-dqn"], env=f"{trap}:Trap-v0"))
    (tmp_path / "r.json").write_text(json.dumps(plain))
    refused(lambda: read_recipe(tmp_path / "r.json"), "say trust=True")
    assert read_recipe(tmp_path / "r.json", trust=True).env == f"{trap}:Trap-v0"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("args", [{"xml_file": "/etc/passwd"}, {"a": [{"b": "~/x"}]}, {"c": "..\\x"}])
def test_a_path_in_a_tasks_arguments_is_not_opened(saved, args):
    altered(saved, "task", "args", value=args)
    refused(lambda: load_policy(saved), "gives its task the path", "say trust=True.")
    assert load_policy(saved, trust=True).task.args == args


@pytest.mark.parametrize("args", [{"reward": "os:system"}, {"inner": ["my_tasks:Mine-v0"]}, {"pkg.mod:fn": 1}])
def test_a_name_of_a_module_in_a_tasks_arguments_is_not_imported(saved, args):
    altered(saved, "task", "args", value=args)
    refused(lambda: load_policy(saved), "gives its task the name", "say trust=True.")
    altered(saved, "task", "args", value={"address": "localhost:6379", "at": "12:30", "device": "cuda:0"})
    assert load_policy(saved).task.args["device"] == "cuda:0"


def run_of(folder, **changes):
    """The folder of a run as an author of such a one would leave it: a recipe with a digest, and no checkpoint."""
    folder.mkdir()
    (folder / ".cairn-run").write_text("")
    write_config(folder, dataclasses.replace(RECIPES["cartpole-dqn"], **changes))
    return folder


def test_a_resumed_run_brings_no_path_of_its_own(tmp_path):
    path = {"xml_file": "/etc/passwd"}
    for number, changes in enumerate(({"env_args": path}, {"eval_args": path})):
        folder = run_of(tmp_path / f"r{number}", **changes)
        refused(lambda folder=folder: cairn.train("cartpole-dqn", out=folder, resume=True), "the path /etc/passwd")
        named = dataclasses.replace(RECIPES["cartpole-dqn"], **changes)
        assert read_to_resume(folder, RECIPES["cartpole-dqn"], RECIPES, trust=True) == named
        assert read_to_resume(folder, named, RECIPES, trust=False) == named  # the user says the same
    model = cairn.DQN("CartPole-v1", hidden=8)
    refused(lambda: model.learn(100, out=folder, resume=True), "the path /etc/passwd", "say trust=True")


def test_train_takes_a_file_that_is_trusted(trap, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    agent = DQNConfig(hidden=(8,), learning_starts=50)
    plain = to_json(Recipe(env=f"{trap}:Trap-v0", agent=agent, steps=60, eval_episodes=1, name="mine"))
    (tmp_path / "r.json").write_text(json.dumps(plain))
    refused(lambda: cairn.train("r.json", out=tmp_path / "o"), "say trust=True")
    refused(lambda: cairn.train("r.json", out=tmp_path / "o", trust="no"), "trust is 'no'; it must be true or false")
    assert not (tmp_path / "ran").exists()
    assert cairn.train("r.json", out=tmp_path / "o", trust=True).step == 60
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("words", "on"),
    [
        (["--trust"], True),
        (["--trust=true"], True),
        (["--trust", "true"], True),
        (["--trust=false"], False),
        (["--no-trust"], False),
        ([], False),
    ],
)
def test_trust_is_read_alike_by_every_command(words, on, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    seen = {}

    def stop(**given):
        seen.update(given)
        raise CairnError("enough")

    monkeypatch.setattr("cairn.runs.checkpoint.load_policy", lambda *a, trust, **k: stop(trust=trust))
    monkeypatch.setattr("cairn.runs.config.read_recipe", lambda *a, trust, **k: stop(trust=trust))
    for command in ("eval p", "watch p", "demos p --out d.npz", "train r.json", "sweep r.json", "tune r.json"):
        seen.clear()
        with pytest.raises(SystemExit):
            cli.main([*command.split(), *words])
        assert (seen, command) == ({"trust": on}, command), capsys.readouterr().err
    assert (str(tmp_path) in sys.path) == on
    with pytest.raises(SystemExit):
        cli.main(["train", "r.json", "--trust", "--trust"])
    assert "--trust is given twice" in capsys.readouterr().err


def test_only_a_task_of_the_user_opens_the_folder_to_imports(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    for words, on in (
        (["--ray-address", "localhost:6379"], False),
        (["--ray-address=head:node"], False),
        (["--out", "a:b"], False),
        (["--env", "mine:Task-v0"], True),
    ):
        with pytest.raises(SystemExit):
            cli.main(["train", *words])
        assert (str(tmp_path) in sys.path) == on


def cairn_command(*args, cwd):
    given = os.environ.get("PYTHONPATH")  # an empty entry would be the current folder
    path = os.pathsep.join([str(Path(cairn.__file__).parents[1]), *([given] if given else [])])
    command = [sys.executable, "-m", "cairn", *args]
    return subprocess.run(command, cwd=cwd, text=True, capture_output=True, env={**os.environ, "PYTHONPATH": path})


def test_the_command_line_imports_a_named_module_when_it_is_trusted(saved, trap, tmp_path):
    altered(saved, "task", "id", value=f"{trap}:Trap-v0")
    said = cairn_command("eval", "p", "--episodes", "1", cwd=tmp_path)
    assert said.returncode == 2 and "say --trust." in said.stderr and "Traceback" not in said.stderr
    assert not (tmp_path / "ran").exists()
    said = cairn_command("eval", "p", "--episodes", "1", "--trust", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert (tmp_path / "ran").exists()


def test_no_file_of_the_folder_stands_in_for_a_module(saved, tmp_path):
    for name in ("ale_py", "mujoco", "json", "gymnasium_robotics", "numpy"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').write(__name__)")
    said = cairn_command("eval", "p", "--episodes", "1", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert not (tmp_path / "ran").exists()


# -- typed values


def test_every_recipe_survives_the_way_through_json():
    for recipe in RECIPES.values():
        assert from_json(Recipe, json.loads(json.dumps(to_json(recipe)))) == recipe


@pytest.mark.parametrize(
    "change",
    [
        {"steps": "10"},
        {"steps": True},
        {"steps": 10**30},
        {"target": "far"},
        {"target": float("nan")},
        {"env": None},
        {"env_args": []},
        {"levels": {"low": 3}},
        {"metric": "luck"},
        {"metric": ["return"]},
        {"agent": {"kind": "\x1b[31mred"}},
        {"x" * 5000: 1},
    ],
)
def test_a_field_of_another_type_is_named(tmp_path, change):
    plain = {**to_json(RECIPES["cartpole-ppo"]), **change}
    (tmp_path / "r.json").write_text(json.dumps(plain))
    refused(lambda: read_recipe(tmp_path / "r.json"), "r.json")


def test_a_pipe_in_the_place_of_each_file(saved):
    for name in ("policy.json", "policy.safetensors"):
        copy = saved.with_name(f"copy-{name}")
        shutil.copytree(saved, copy)
        (copy / name).unlink()
        os.mkfifo(copy / name)
        refused(lambda folder=copy: load_policy(folder), "is a pipe")
