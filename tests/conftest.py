"""What several test files share, and how tests are spread over processes."""

import os
import re

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported: as many processes of tests as cores run at once

import pytest

from cairn.envs import rendering

TOGETHER = re.compile(r"(?<![a-z])(ray|sb3|docs|browser)s?(?![a-z])")  # a cluster, an import, a site, a browser


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark tests named after what is costly to start: `make quick` leaves them out."""
    if TOGETHER.search(item.nodeid):
        item.add_marker(pytest.mark.together)


@pytest.hookimpl(optionalhook=True)  # without pytest-xdist all tests run in one process
def pytest_xdist_make_scheduler(config, log):
    """Give each test to the process that is free; those named after the same costly thing all go to one process.

    xdist's own groups (--dist loadgroup) have no effect with pytest 9: it renames tests by an attribute that is gone.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            found = TOGETHER.search(nodeid)
            return found[1] if found else nodeid

    return Together(config, log)


@pytest.fixture
def opengl(monkeypatch):
    """MuJoCo can draw; a test that asks for it is skipped where neither EGL nor OSMesa works."""
    for name in ("MUJOCO_GL", "PYOPENGL_PLATFORM"):
        monkeypatch.setenv(name, "")  # put back afterwards, whatever is chosen
        monkeypatch.delenv(name)
    if not rendering.choose():
        pytest.skip(rendering.MISSING)
