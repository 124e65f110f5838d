"""Doors open one way only."""

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "cairn"

# a room may import itself and the rooms named here
DOORS = {
    "core": set(),
    "nets": {"core"},
    "replay": {"core"},
    "vector": {"core"},
    "envs": {"core"},
    "agents": {"core", "nets", "replay"},
    "experts": {"core", "nets", "vector", "envs", "agents"},
    "train": {"core", "nets", "replay", "vector", "envs", "agents", "experts"},
    "recipes": {"core", "agents", "train"},
    "doctor": {"core", "vector", "envs", "agents", "train"},
    "report": {"core", "vector", "envs", "agents", "train", "recipes"},
    "search": {"core", "train", "report"},
}
COMPOSED = {
    "hiro": ("dqn", "sac", "td3"),
    "dagger": ("bc",),
    "aggrevated": ("ppo", "reinforce"),
}  # agents made of other agents, as their papers make them
THIRD_PARTY = {"core": {"torch", "numpy"}}  # what a room may use from outside, where that is limited


def imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.append(node.module)
            if node.module == "cairn":
                found += [f"cairn.{alias.name}" for alias in node.names]
    return found


def violations(path: Path, room: str) -> list[str]:
    import sys

    bad = []
    for name in imports(path):
        top, *rest = name.split(".")
        if top == "cairn":
            if rest and not rest[0].startswith("__") and rest[0] != room and rest[0] not in DOORS[room]:
                bad.append(f"{path.name} imports {name}")
            if room == "agents" and path.stem not in ("__init__", "base") and rest[:1] == ["agents"]:
                if rest[1:2] != ["base"] and rest[1] not in COMPOSED.get(path.stem, ()):
                    bad.append(f"{path.name} imports another agent: {name}")
        elif room in THIRD_PARTY and top not in THIRD_PARTY[room] and top not in sys.stdlib_module_names:
            bad.append(f"{path.name} imports {name}")
    return bad


@pytest.mark.parametrize("room", DOORS)
def test_no_door_opens_the_wrong_way(room):
    files = list((SRC / room).rglob("*.py"))
    assert files
    assert [v for f in files for v in violations(f, room)] == []


def test_every_room_is_listed():
    rooms = {p.name for p in SRC.iterdir() if p.is_dir() and (p / "__init__.py").exists()}
    assert rooms == set(DOORS)


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("core", "from cairn.nets.mlp import MLP"),
        ("core", "import gymnasium"),
        ("nets", "from cairn import agents"),
        ("vector", "import cairn.replay.ring"),
        ("agents", "from cairn.algorithms.sac import SAC"),
        ("agents", "from cairn.runs.run import Run"),
        ("train", "from cairn.recipes import find"),
    ],
)
def test_the_check_itself_fails_when_a_door_is_forced(tmp_path, room, line):
    path = tmp_path / "intruder.py"
    path.write_text(f"def f():\n    {line}\n")
    assert violations(path, room)


def test_agents_see_no_environment_logger_path_or_command_line():
    for path in (SRC / "agents").glob("*.py"):
        for name in imports(path):
            assert name.split(".")[0] not in {"gymnasium", "pathlib", "logging", "sys", "os", "argparse", "tyro"}, path


def test_ppo_reads_in_under_600_lines():
    """From environment to gradient: the lane, the loop, the agent, its network, its loss, its returns."""
    path = [
        "vector/env_batch.py",
        "vector/in_process.py",
        "algorithms/loops.py",
        "algorithms/ppo.py",
        "nets/actor_critic.py",
        "core/returns.py",
    ]
    lines = sum(len((SRC / p).read_text().splitlines()) for p in path)
    assert lines < 600, lines


def test_workers_do_not_pay_for_torch():
    import subprocess
    import sys

    code = "import sys, cairn.vector.processes; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
