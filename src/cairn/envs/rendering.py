"""Chooses the OpenGL backend with which MuJoCo draws, when a picture is needed. Other tasks load none.

MuJoCo reads MUJOCO_GL when it is imported, Gymnasium's viewer when it first draws. Without a display the choice is EGL,
then OSMesa. `python -m cairn.envs.rendering` prints which one works here, and exits with 1 if none does.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import ctypes.util
import functools
import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

GL = "MUJOCO_GL"
LIBRARIES = {"egl": "EGL", "osmesa": "OSMesa"}  # library of each backend
MISSING = "neither EGL nor OSMesa works on this machine; install one (on Debian: apt install libegl1, or libosmesa6)"
PROBE = """
import mujoco
from mujoco.{name} import GLContext
context = GLContext(16, 16)
context.make_current()
mujoco.MjrContext(mujoco.MjModel.from_xml_string("<mujoco/>"), mujoco.mjtFontScale.mjFONTSCALE_100.value)
"""


@contextlib.contextmanager
def not_needed() -> Iterator[None]:
    """Context in which MuJoCo can be imported although the backend in MUJOCO_GL is not installed here."""
    named = os.environ.get(GL)
    hidden = "mujoco" not in sys.modules and named in LIBRARIES and not _loads(named)
    if hidden:
        os.environ[GL] = "disabled"
    try:
        yield
    finally:
        if hidden and named is not None:
            os.environ[GL] = named


def choose() -> bool:
    """Set the first backend that works: MUJOCO_GL's, a display's, EGL, OSMesa. Returns whether there is one."""
    if not sys.platform.startswith("linux"):
        return True
    found = _working(os.environ.get(GL), "DISPLAY" in os.environ)
    if found is None:
        return False
    os.environ[GL] = found
    if found in LIBRARIES:
        os.environ["PYOPENGL_PLATFORM"] = found
    atexit.unregister(_free_viewers)
    atexit.register(_free_viewers)
    return True


def _free_viewers() -> None:
    """Prevent errors at exit, when viewers free their contexts after OSMesa's module is gone."""
    for thing in gc.get_objects():
        if type(thing).__name__ == "OffScreenViewer":
            thing.opengl_context = SimpleNamespace(free=lambda: None)


def uses_mujoco(env: Any) -> bool:
    """Whether an environment has a MuJoCo model, and so draws with OpenGL."""
    return _holds_mujoco(env.unwrapped, depth=3)


def _holds_mujoco(thing: Any, depth: int) -> bool:
    parts = list(getattr(thing, "__dict__", {}).values()) if depth else []
    # SWIG types (Box2D) may have no __module__.
    modules = (str(getattr(type(part), "__module__", "")) for part in parts)
    return any("mujoco" in module for module in modules) or any(_holds_mujoco(part, depth - 1) for part in parts)


@functools.cache
def _loads(name: str) -> bool:
    """Whether the library of a backend can be loaded: a quick test that does not prove that it draws."""
    try:
        ctypes.CDLL(ctypes.util.find_library(LIBRARIES[name]) or f"lib{LIBRARIES[name]}.so")
    except OSError:
        return False
    return True


@functools.cache
def _working(named: str | None, display: bool) -> str | None:
    order = [named, "glfw" if display else None, "egl", "osmesa"]
    for name in dict.fromkeys(name for name in order if name in ("glfw", *LIBRARIES)):
        if (name not in LIBRARIES or _loads(name)) and _draws(name):
            return name
    return None


def _draws(name: str) -> bool:
    """Whether a backend draws. Tried in another process: a driver can crash, a loaded backend cannot be changed."""
    env = {**os.environ, GL: name, "PYOPENGL_PLATFORM": name if name in LIBRARIES else ""}
    try:
        done = subprocess.run([sys.executable, "-c", PROBE.format(name=name)], env=env, capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


if __name__ == "__main__":
    works = choose()
    print(f"MuJoCo draws with {os.environ.get(GL, 'OpenGL')} here." if works else f"There are no pictures: {MISSING}.")
    raise SystemExit(not works)
