"""What several test files share, and how tests are spread over processes."""

import os
import re

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported: as many processes of tests as cores run at once

import pytest

from cairn.envs import rendering

TOGETHER = re.compile(r"(?<![a-z])(ray|sb3|docs|browser)s?(?![a-z])")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests named after what is costly to start run in one process: a Ray cluster, an import, a site, a browser."""
    for item in items:
        found = TOGETHER.search(item.nodeid)
        if found:
            item.add_marker(pytest.mark.xdist_group(found[1]))


@pytest.fixture
def opengl(monkeypatch):
    """MuJoCo can draw; a test that asks for it is skipped where neither EGL nor OSMesa works."""
    for name in ("MUJOCO_GL", "PYOPENGL_PLATFORM"):
        monkeypatch.setenv(name, "")  # put back afterwards, whatever is chosen
        monkeypatch.delenv(name)
    if not rendering.choose():
        pytest.skip(rendering.MISSING)
