"""What an installed package holds: the policies that recipes begin from come with it.

Takes about 10 s: only a real build shows what ends up in a wheel.
"""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cairn.recipes import RECIPES

ROOT = Path(__file__).parent.parent
NEEDED = {name for r in RECIPES.values() for name in (r.start, r.expert, *r.levels.values()) if name}
FIND = """
import json
from cairn.recipes import RECIPES
from cairn.runs.locate import find_source
names = {name for r in RECIPES.values() for name in (r.start, r.expert, *r.levels.values()) if name}
print(json.dumps({name: str(find_source(name, "begin from")) for name in names}))
"""


def test_the_build_lists_the_policies_that_recipes_begin_from():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["cairn"]["policies"]
    assert sorted(NEEDED) == listed


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The files of a wheel, without the checkout they were made from."""
    folder = tmp_path_factory.mktemp("installed")
    build = [sys.executable, "setup.py", "-q", "egg_info", "--egg-base", folder, "build_py", "--build-lib", folder]
    subprocess.run([*map(str, build)], cwd=ROOT, check=True, capture_output=True)
    return folder


def run(installed, folder, *command):
    env = {**os.environ, "PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, *command], cwd=folder, env=env, text=True, capture_output=True)


def test_an_installed_package_finds_them_in_an_empty_folder(installed, tmp_path):
    said = run(installed, tmp_path, "-c", FIND)
    assert said.returncode == 0, said.stderr
    assert {name: str(installed / "cairn" / "zoo" / name) for name in NEEDED} == json.loads(said.stdout)


def test_recorded_results_come_with_the_package(installed, tmp_path):
    """Results in the current folder come first."""
    said = json.loads(run(installed, tmp_path, "-m", "cairn", "list", "--json").stdout)
    assert next(row for row in said if row["recipe"] == "cartpole-ppo")["best"] == 500
    assert "cartpole-ppo" in run(installed, tmp_path, "-m", "cairn", "results").stdout
    (tmp_path / "results").mkdir()
    said = json.loads(run(installed, tmp_path, "-m", "cairn", "list", "--json").stdout)
    assert next(row for row in said if row["recipe"] == "cartpole-ppo")["best"] is None


def test_a_recipe_with_an_expert_trains_in_an_empty_folder(installed, tmp_path):
    quick = ["--steps", "100", "--eval-every", "100", "--eval-episodes", "1", "--out", "run"]
    said = run(installed, tmp_path, "-m", "cairn", "train", "cartpole-dagger", *quick)
    assert said.returncode == 0, said.stderr
    assert (tmp_path / "run" / "best" / "policy.json").is_file()
