"""Pictures of a terminal of 80 columns: `python docs/terminal.py [NAME...]` writes docs/img/terminal/NAME.svg.

Each picture is what the commands of SCENES print to a terminal, unchanged; tests/test_pictures.py runs them again.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from cairn.report.markup import Html, el

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "img" / "terminal"
COLUMNS, ROWS = 80, 50

# A task with a fault, for the doctor: a reset moves the cart, and the speed stays that of the episode before.
CART = """\
import gymnasium as gym
import numpy as np


class Cart(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    at = speed = 0.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.steps = self.np_random.uniform(-1, 1), 0
        return np.array([self.at, self.speed], np.float32), {}

    def step(self, action):
        self.speed = 0.95 * self.speed + (0.05 if action else -0.05)
        self.at, self.steps = self.at + self.speed, self.steps + 1
        return np.array([self.at, self.speed], np.float32), -abs(self.at), False, self.steps == 100, {}


gym.register("Cart-v0", Cart)
"""

# What each picture shows: shell commands, in a folder with zoo, results and cart.py.
SCENES = {
    "list": ("cairn list | head -n 16",),
    "train": ("cairn train cartpole-ppo --seed 2",),
    "eval": ("cairn eval zoo/bipedal-sac --episodes 10", "cairn eval zoo/fetch-reach-her --episodes 100"),
    "doctor": ("cairn doctor cart:Cart-v0",),
}

CELL, LINE, SIZE, PAD = 8.4, 19, 14, 14  # of a character and a line, in pixels; the font; the margin
KEEP = {"xml:space": "preserve"}  # also where spaces stand side by side
STYLE = f"""
.ground {{ fill: #1e2226; }}
text {{ fill: #e8eaed; font: {SIZE}px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }}
.typed {{ fill: #5fcf94; }}
"""


def run(command: str, folder: Path) -> str:
    """What a command line shows on a terminal in the end, in a folder."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    env |= {"TERM": "xterm", "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}
    cairn = f'cairn() {{ "{sys.executable}" -m cairn "$@"; }}'
    process = subprocess.Popen(
        ["bash", "-c", f"{cairn}; {command}"], cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs
    )  # fmt: skip
    os.close(theirs)
    written = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # how Linux says that the other side is closed
            part = b""
        if not part:
            break
        written += part
    os.close(ours)
    process.wait()
    return on_screen(written.decode())


def on_screen(written: str) -> str:
    """The text that stays: a line that is begun anew by a carriage return replaces the one before."""
    lines = written.replace("\r\n", "\n").removesuffix("\n").split("\n")
    return "\n".join(re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", line.rpartition("\r")[2]) for line in lines)


def scene(name: str) -> list[str]:
    """The lines of a picture: each command after its prompt, and what it prints."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for part in ("zoo", "results"):
            (folder / part).symlink_to(ROOT / part)
        (folder / "cart.py").write_text(CART)
        lines = []
        for command in SCENES[name]:
            lines += [f"$ {command}", *run(command, folder).split("\n")]
    return lines


def picture(lines: list[str], name: str) -> Html:
    """Lines of a terminal as SVG. Each is as wide as its characters, whichever font there is."""
    width, height = COLUMNS * CELL + 2 * PAD, len(lines) * LINE + 2 * PAD
    parts = [el("title", f"cairn {name} in a terminal of {COLUMNS} columns"), el("style", Html(STYLE))]
    parts.append(el("rect", class_="ground", width="100%", height="100%", rx=6))
    for number, line in enumerate(lines):
        if line.strip():
            place = {"x": PAD, "y": PAD + number * LINE + SIZE, "textLength": f"{len(line) * CELL:.1f}"} | KEEP
            parts.append(el("text", line, class_="typed" if line.startswith("$ ") else None, **place))
    box = f"0 0 {width:g} {height:g}"
    return el("svg", parts, xmlns="http://www.w3.org/2000/svg", viewbox=box, width=f"{width:g}", height=f"{height:g}")


if __name__ == "__main__":
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or SCENES:
        lines = scene(name)
        (IMAGES / f"{name}.svg").write_text(picture(lines, name) + "\n")
        print("\n".join(lines))
