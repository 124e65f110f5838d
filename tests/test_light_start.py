"""`cairn --version`, `--help`, `list` and a mistyped name start without torch, gymnasium and numpy."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cairn.recipes import RECIPES, find, index

ROOT = Path(__file__).parents[1]
HEAVY = {"torch", "gymnasium", "numpy", "tensorboard", "ray"}


def imported(*args, cwd, path=""):
    """The packages that `python -m cairn ARGS` imports, and what became of it."""
    paths = [str(path), str(ROOT / "src")] if path else [str(ROOT / "src")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-X", "importtime", "-m", "cairn", *args]
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    lines = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {name.partition(".")[0] for name in lines}, done


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["--version"], 0, "cairn 0."),
        (["--help"], 0, "cairn train NAME"),
        (["list"], 0, "cartpole-ppo"),
        (["list", "--json"], 0, '"recipe": "cartpole-ppo"'),
        (["trian"], 2, "Did you mean train?"),
        (["train", "cartpole-pop"], 2, "Did you mean cartpole-ppo?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_nothing_heavy_is_imported(args, code, words):
    found, done = imported(*args, cwd=ROOT)  # where `list` reads recorded results
    assert done.returncode == code and words in done.stdout + done.stderr
    assert "cairn" in found  # the names are really read
    assert found & HEAVY == set()


def test_the_check_sees_an_eager_import(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import cairn.recipes.catalogue\n")
    found, _ = imported("--version", cwd=ROOT, path=tmp_path)
    assert {"torch", "gymnasium", "numpy"} <= found


def test_the_index_is_that_of_the_recipes():
    assert index.INDEX.read_text() == index.text(), "the recipes have changed: run `python -m cairn.recipes.index`"
    assert list(index.entries()) == list(RECIPES)


def test_the_index_is_in_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert (
        index.INDEX.relative_to(ROOT / "src" / "cairn").as_posix()
        in project["tool"]["setuptools"]["package-data"]["cairn"]
    )


@pytest.mark.parametrize("state", ["missing", "cut short", "of other files"])
def test_without_a_current_index_the_recipes_are_read(state, tmp_path, monkeypatch):
    path = tmp_path / "index.json"
    if state == "cut short":
        path.write_text(index.text()[:100])
    if state == "of other files":
        path.write_text(json.dumps({"sources": "0" * 64, "recipes": {}}))
    monkeypatch.setattr(index, "INDEX", path)
    index.entries.cache_clear()
    try:
        assert list(index.entries()) == list(RECIPES) and find("cartpole-ppo").name == "cartpole-ppo"
    finally:
        index.entries.cache_clear()


def test_a_change_of_a_recipe_file_is_noticed(tmp_path, monkeypatch):
    before = index.sources()
    for path in index.FOLDER.glob("*.py"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(index, "FOLDER", tmp_path)
    assert index.sources() == before
    (tmp_path / "recipe.py").write_text("")
    assert index.sources() == before  # it defines none
    (tmp_path / "mine.py").write_text("RECIPES = {}\n")
    assert index.sources() != before
