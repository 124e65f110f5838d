"""Policies, runs and zoo entries are found by name from any folder."""

import shutil
from pathlib import Path

import pytest

from cairn import CairnError
from cairn.core import places
from cairn.runs import locate
from cairn.runs.locate import find_policy, find_source, zoos

ROOT = Path(__file__).parents[2]
CART = ROOT / "zoo" / "cartpole-ppo"


@pytest.fixture
def away(tmp_path, monkeypatch):
    """An empty current folder outside the checkout."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_zoo_of_the_checkout_is_found_from_any_folder(away):
    assert places.checkout() == ROOT
    assert find_policy(Path("zoo/cartpole-ppo")) == CART
    assert find_source("zoo/cartpole-ppo", "learn from") == find_source("cartpole-ppo", "learn from") == CART


def test_a_path_as_given_comes_first(away):
    shutil.copytree(CART, away / "zoo" / "cartpole-ppo")
    assert find_policy(Path("zoo/cartpole-ppo")) == Path("zoo/cartpole-ppo")
    assert find_source("cartpole-ppo", "learn from") == CART  # a name means the checkout's, wherever one stands
    shutil.copytree(CART, away / "zoo" / "mine")
    assert find_source("mine", "learn from") == Path("zoo/mine")


def test_an_installed_package_has_the_entries_it_brings(away, monkeypatch):
    installed = away / "site-packages" / "cairn"
    shutil.copytree(CART, installed / "zoo" / "cartpole-ppo")
    monkeypatch.setattr(places, "PACKAGE", installed)
    monkeypatch.setattr(locate, "PACKAGE", installed)
    (away / "empty").mkdir()
    monkeypatch.chdir(away / "empty")
    assert places.checkout() is None and zoos() == [installed / "zoo"]
    assert find_policy(Path("zoo/cartpole-ppo")) == installed / "zoo" / "cartpole-ppo"


def test_a_run_of_the_name_is_preferred_where_training_starts_from_it(away):
    run = away / "runs" / "cartpole-ppo-s3"
    shutil.copytree(CART, run)
    assert find_source("cartpole-ppo", "start from", runs_first=True) == Path("runs/cartpole-ppo-s3")
    assert find_source("cartpole-ppo", "start from") == CART
    assert find_source("cartpole-ppo", "start from", own=run, runs_first=True) == CART


def test_what_is_not_found_names_the_places_looked_in(away):
    with pytest.raises(CairnError, match=r"there is no no-such; .*\(looked in the current folder, ") as said:
        find_policy(Path("no-such"))
    assert f"{ROOT / 'zoo'} and runs)." in str(said.value)
    with pytest.raises(CairnError) as said:
        find_policy(Path("zoo/no-such"))
    assert f"(looked in the current folder and {ROOT / 'zoo'})." in str(said.value)
    with pytest.raises(CairnError, match=r"there is no no-such to learn from \(looked in the current folder, ") as said:
        find_source("no-such", "learn from")
    assert f"{ROOT / 'zoo'} and runs): name a folder" in str(said.value)
    with pytest.raises(CairnError, match=r"Did you mean zoo/cartpole-ppo\?"):
        find_policy(Path("cartpole-ppo"))
