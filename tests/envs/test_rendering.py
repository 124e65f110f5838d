"""Training loads no OpenGL; a picture is drawn with EGL, else with OSMesa, else refused in one sentence."""

import os
import subprocess
import sys

import pytest

from cairn.core.errors import CairnError
from cairn.envs import rendering
from cairn.envs.task import Task
from cairn.report.video import record
from tests.test_cli import ZOO, cairn

pytest.importorskip("gymnasium_robotics")

HIDDEN = """
import ctypes
found = ctypes.CDLL.__init__
def missing(self, name, *args, **kwargs):
    if name and ("EGL" in name or "OSMesa" in name):
        raise OSError(f"{name}: cannot open shared object file")
    found(self, name, *args, **kwargs)
ctypes.CDLL.__init__ = missing
import os, sys
from cairn.envs.task import Task
"""


@pytest.mark.skipif(sys.platform != "linux", reason="EGL is Linux's")
@pytest.mark.parametrize("named", ["egl", None])
def test_a_task_is_made_without_libegl_and_loads_no_opengl(named):
    env = {k: v for k, v in os.environ.items() if k not in ("MUJOCO_GL", "PYOPENGL_PLATFORM", "DISPLAY")}
    env |= {"MUJOCO_GL": named} if named else {}
    code = "print(Task('FetchReach-v4')().reset(seed=0)[1], os.environ.get('MUJOCO_GL'), 'OpenGL' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", HIDDEN + code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-2:] == [str(named), "False"]


@pytest.mark.parametrize(
    ("named", "display", "works", "chosen"),
    [
        (None, False, ("egl", "osmesa"), "egl"),
        (None, False, ("osmesa",), "osmesa"),
        (None, False, (), None),
        ("osmesa", False, ("egl", "osmesa"), "osmesa"),
        ("egl", False, ("osmesa",), "osmesa"),
        ("nonsense", False, ("egl",), "egl"),
        (None, True, ("glfw", "egl"), "glfw"),
        (None, True, ("egl",), "egl"),  # a display that is named and not there
    ],
)
def test_the_first_backend_that_works_is_taken(named, display, works, chosen, monkeypatch):
    monkeypatch.setattr(rendering, "_loads", lambda name: True)
    monkeypatch.setattr(rendering, "_draws", lambda name: name in works)
    assert rendering._working.__wrapped__(named, display) == chosen


@pytest.fixture
def no_opengl(monkeypatch):
    monkeypatch.setattr(rendering, "choose", lambda: False)


def forward(obs):
    return [[1.0, 0.0, 0.0, 0.0]] * len(obs)


@pytest.mark.parametrize("task", ["FetchReach-v4", "cairn/FetchReachFar-v0", "cairn/AntMaze-v0", "PointMaze_Open-v3"])
def test_what_mujoco_draws_is_refused_where_nothing_can_draw_it(task, no_opengl, tmp_path):
    with pytest.raises(CairnError, match=r"cannot be drawn here: neither EGL nor OSMesa works.*install one"):
        record(forward, Task(task), tmp_path / "film" / "video.mp4")
    assert list(tmp_path.iterdir()) == []
    Task(task)().close()  # to be played it needs neither


def test_what_others_draw_is_filmed_all_the_same(no_opengl, tmp_path, capsys):
    cairn("watch", ZOO / "cartpole-ppo", "--out", tmp_path / "v.mp4", capsys=capsys)
    assert [p.name for p in tmp_path.iterdir()] == ["v.mp4"]


def test_watching_without_pygame_is_one_sentence_and_keeps_the_film_that_was_there(tmp_path, capsys, monkeypatch):
    (tmp_path / "v.mp4").write_bytes(b"an older film")
    monkeypatch.setitem(sys.modules, "pygame", None)
    said = cairn("watch", ZOO / "cartpole-ppo", "--out", tmp_path / "v.mp4", code=2, capsys=capsys)
    assert said.err == (
        "cairn: CartPole-v1 cannot be drawn: pygame is not installed; pip install 'cairn-rl[video]' brings it.\n"
    )
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"an older film"]


def test_the_module_says_which_backend_works():
    done = subprocess.run([sys.executable, "-m", "cairn.envs.rendering"], capture_output=True, text=True)
    said = done.stdout.strip()
    assert (done.returncode, said[:6]) in ((0, "MuJoCo"), (1, "There ")) and done.stderr == ""


def test_a_task_with_types_that_name_no_module_is_drawn():
    """Box2D's types, made by SWIG, may have none."""
    pytest.importorskip("Box2D")
    assert not rendering.uses_mujoco(Task("BipedalWalker-v3", render_mode="rgb_array")())
    assert rendering.uses_mujoco(Task("FetchReach-v4")())
