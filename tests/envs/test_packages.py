"""Tasks of other people's packages: the module that registers them is imported, or named in one sentence."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym
import pytest

from cairn.core.errors import CairnError
from cairn.envs import packages
from cairn.envs.packages import Package
from cairn.envs.task import Task

MODULE = """
import os
import gymnasium as gym

print("welcome to toybox")
os.system("echo welcome from C")

def register_them():
    gym.register("Toybox/Pole-v1", "gymnasium.envs.classic_control:CartPoleEnv", max_episode_steps=50)
    gym.register("Toybox/Named-v1", lambda which, size: gym.make("CartPole-v1"))
"""


@pytest.fixture(autouse=True)
def toybox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package whose module `toybox.tasks` registers tasks when its function is called, and one that is absent."""
    (tmp_path / "toybox").mkdir()
    (tmp_path / "toybox" / "__init__.py").write_text("")
    (tmp_path / "toybox" / "tasks.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    known = (
        Package(r"Toybox/", "toybox.tasks", "toybox-rl", "register_them", '{"which": "a", "size": 3}'),
        Package(r"Absent-", "absent_tasks", "absent"),
    )
    monkeypatch.setattr(packages, "PACKAGES", known)
    registered = dict(gym.registry)
    yield
    gym.registry.clear()
    gym.registry.update(registered)
    for name in [name for name in sys.modules if name.partition(".")[0] == "toybox"]:
        del sys.modules[name]


def test_package_is_imported_quietly_and_registers_its_tasks(capfd: pytest.CaptureFixture[str]) -> None:
    task = Task("toybox.tasks:Toybox/Pole-v1")
    env = task()
    assert env.reset(seed=0)[0].shape == (4,)
    assert task.longest == 50
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ("Toybox/Pole-v1", "Toybox/Pole-v1 is registered by toybox.tasks: write toybox.tasks:Toybox/Pole-v1."),
        ("toybox:Toybox/Pole-v1", "Toybox/Pole-v1 is registered by toybox.tasks: write toybox.tasks:Toybox/Pole-v1."),
        (
            "Absent-v0",
            "Absent-v0 is registered by absent_tasks: pip install absent, then write absent_tasks:Absent-v0.",
        ),
        ("absent_tasks:Absent-v0", "environment absent_tasks:Absent-v0 needs a package: pip install absent."),
        (
            "toybox.tasks:Toybox/Poles-v1",
            "there is no environment 'toybox.tasks:Toybox/Poles-v1'. Did you mean toybox.tasks:Toybox/Pole-v1?",
        ),
        (
            "toybox.tasks:Toybox/Optional-v1",
            "there is no environment 'toybox.tasks:Toybox/Optional-v1'; if it needs a part of the package:"
            " pip install toybox-rl.",
        ),
        (
            "nowhere_at_all:Mine-v0",
            "environment nowhere_at_all:Mine-v0 names a module 'nowhere_at_all', which is neither installed nor in the"
            " current folder.",
        ),
        (
            "toybox.tasks:Toybox/Named-v1",
            "environment toybox.tasks:Toybox/Named-v1 needs the arguments which and size: give env_args, such as"
            """ '{"which": "a", "size": 3}'.""",
        ),
    ],
)
def test_an_id_that_needs_a_module_says_which(task: str, told: str) -> None:
    with pytest.raises(CairnError) as error:
        Task(task)()
    assert str(error.value) == told


def test_missing_arguments_of_an_unknown_package_are_named() -> None:
    gym.register("Loose-v0", lambda which: gym.make("CartPole-v1"))
    with pytest.raises(CairnError, match=r"""needs the argument which: give env_args, such as '\{"which": "..."\}'"""):
        Task("Loose-v0")()
    with pytest.raises(CairnError, match="does not take these arguments"):
        Task("Loose-v0", args={"which": 1, "other": 2})()


@pytest.mark.parametrize(
    ("task", "module"),
    [
        ("MiniGrid-DoorKey-5x5-v0", "minigrid"),
        ("BabyAI-GoToRedBall-v0", "minigrid"),
        ("parking-v0", "highway_env"),
        ("highway-fast-v0", "highway_env"),
        ("bsuite/catch-v0", "shimmy"),
        ("dm_control/cartpole-balance-v0", "shimmy"),
        ("popgym-RepeatPreviousEasy-v0", "popgym"),
        ("Meta-World/MT1", "metaworld"),
        ("VizdoomBasic-v1", "vizdoom.gymnasium_wrapper"),
        ("MinAtar/Breakout-v1", "minatar.gym"),
        ("PandaReach-v3", "panda_gym"),
    ],
)
def test_known_families(task: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    package = packages.package_of(task)
    assert package is not None and package.module == module


def test_no_known_family_takes_the_ids_of_gymnasium(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    theirs = [name for name, spec in gym.registry.items() if "gymnasium" in str(spec.entry_point)]
    assert len(theirs) > 20
    assert not [name for name in theirs if packages.package_of(name) is not None]
