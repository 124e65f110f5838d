"""What is sent to another process knows the caller's tasks, and imports none that is not asked for."""

import subprocess
import sys

import gymnasium as gym
import pytest

from cairn.vector.pickling import pack, unpack

READER = """
import sys
from cairn.vector.pickling import unpack
make = unpack(sys.stdin.buffer.read())
assert "heavy_task" not in sys.modules
print(make().unwrapped.answer, "heavy_task" in sys.modules)
"""


@pytest.fixture
def heavy(tmp_path, monkeypatch):
    (tmp_path / "heavy_task.py").write_text(
        "import gymnasium as gym\n"
        "class Heavy(gym.Env):\n"
        "    observation_space = action_space = gym.spaces.Discrete(2)\n"
        "    answer = 42\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import heavy_task

    gym.register("parceltest/Heavy-v0", heavy_task.Heavy)
    yield tmp_path
    del gym.registry["parceltest/Heavy-v0"], sys.modules["heavy_task"]


def test_a_callers_module_is_imported_when_its_task_is_made_and_not_before(heavy, monkeypatch):
    packed = pack(lambda: gym.make("parceltest/Heavy-v0", disable_env_checker=True))
    monkeypatch.setenv("PYTHONPATH", ":".join([str(heavy), *filter(None, sys.path)]))
    done = subprocess.run([sys.executable, "-c", READER], input=packed, capture_output=True)
    assert done.stdout.split() == [b"42", b"True"], done.stderr.decode()


def test_what_was_packed_comes_back(heavy):
    assert unpack(pack({"a": 1})) == {"a": 1}
