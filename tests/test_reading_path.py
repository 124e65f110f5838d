"""The path of `cairn train bipedal-ppo` from the command line to the gradient is short, and docs/design.md tells it.

The path is every file on the call stack when an environment is stepped or a gradient step is taken, and every file
whose functions those files call while the loop runs.
"""

import re
import sys
from pathlib import Path

import pytest

import cairn
from cairn.cli.main import main

pytest.importorskip("Box2D")
SRC = Path(cairn.__file__).parent
DESIGN = Path(__file__).parent.parent / "docs" / "design.md"
MOST_FILES, MOST_LINES = 25, 3_000
FUNCTION = 2  # CO_NEWLOCALS: neither a module nor the body of a class


class Watcher:
    """A profiler that notes which files of the package a training loop passes through."""

    def __init__(self) -> None:
        self.inside = False
        self.stack: set[str] = set()
        self.calls: dict[str, set[str]] = {}

    def __call__(self, frame, event, arg) -> None:
        if frame.f_code.co_name == "on_policy" and self.name(frame):
            self.inside = event != "return"
        if event != "call" or not self.inside:
            return
        here, caller = self.name(frame), self.name(frame.f_back)
        if here and caller:
            self.calls.setdefault(caller, set()).add(here)
        gradient = here == "nets/optim.py" and frame.f_code.co_name == "step"
        if gradient or (frame.f_code.co_name == "step" and "bipedal_walker" in frame.f_code.co_filename):
            while frame is not None:
                self.stack |= {self.name(frame)} - {""}
                frame = frame.f_back

    @staticmethod
    def name(frame) -> str:
        code = frame.f_code
        ours = code.co_filename.startswith(str(SRC)) and code.co_flags & FUNCTION
        return str(Path(code.co_filename).relative_to(SRC)) if ours else ""

    def path(self) -> set[str]:
        above = {"cli/main.py", "cli/train.py", "runs/train.py"}  # what these call is no part of the loop
        return self.stack.union(*(self.calls.get(file, set()) for file in self.stack - above))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    watcher = Watcher()
    short = "--native off --steps 256 --envs 2 --vector sync --agent.horizon 64 --agent.batch-size 64"
    short += " --eval-episodes 1 --time-limit 9"
    sys.setprofile(watcher)
    try:
        main(["train", "bipedal-ppo", *short.split(), "--out", str(tmp_path_factory.mktemp("path") / "run")])
    except SystemExit as ended:
        assert ended.code == 0
    finally:
        sys.setprofile(None)
    return watcher.path()


def test_the_path_is_short(path):
    lines = sum(len((SRC / file).read_text().splitlines()) for file in path)
    assert len(path) <= MOST_FILES and lines <= MOST_LINES, (len(path), lines)


def test_the_design_tells_the_path_and_its_length(path):
    section = DESIGN.read_text().split("## From the command line to the gradient")[1].split("\n## ")[0]
    told = set(re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", section)) - {"tests/test_reading_path.py"}
    assert told == path
    lines = sum(len((SRC / file).read_text().splitlines()) for file in path)
    files, told = (int(n.replace(",", "")) for n in re.search(r"(\d+) files and ([\d,]+) lines", section).groups())
    assert files == len(path) and abs(told - lines) <= 60, (len(path), lines)
