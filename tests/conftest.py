"""What several test files share."""

import pytest

from cairn.envs import rendering


@pytest.fixture
def opengl(monkeypatch):
    """MuJoCo can draw; a test that asks for it is skipped where neither EGL nor OSMesa works."""
    for name in ("MUJOCO_GL", "PYOPENGL_PLATFORM"):
        monkeypatch.setenv(name, "")  # put back afterwards, whatever is chosen
        monkeypatch.delenv(name)
    if not rendering.choose():
        pytest.skip(rendering.MISSING)
