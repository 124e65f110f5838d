"""Code blocks of Markdown pages, and how a test runs them.

A comment before a block says how. It is not shown on the page:

    <!-- test: steps=512 episodes=2 seconds=5 -->    trainings, evaluations and examinations are shortened to this
    <!-- test: with=--envs=2,--threads=1 -->         options given to trainings, in place of those shown
    <!-- test: skip, needs a GPU -->                 the block is not run; the reason is required
    <!-- test: exit=0,137 -->                        the exit codes that the last command may have
    <!-- test: needs=ppo-CartPole-v1.zip -->         a file that the reader has: FILES makes it
    <!-- test: extras=wandb,onnx -->                 packages without which the block is not run
    <!-- test: output=varies -->                     the output is not compared
    <!-- test: output=codes -->                      only the codes of the doctor's findings in it are compared

Blocks of a page run in order, in one folder and one Python namespace. A block with title="FILE" is written to that
file; a diff block changes it. What a `console` block shows is compared if nothing was shortened; times and line breaks
may differ.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cairn.cli.main import main

FENCE = re.compile(r"^(?:<!-- test: (?P<marks>[^\n]*?) -->\n+)?```(?P<head>[^\n]*)\n(?P<body>.*?)^```$", re.M | re.S)
KINDS = ("python", "diff", "bash", "console", "text", "json", "yaml", "")
SHORTER = ("with", "steps", "episodes", "seconds", "trials", "seeds")
SHELL = re.compile(r"[|;&<>$`]|^(?!cairn )")  # a line that a shell has to read
TIMES = re.compile(r"\d[\d,.]* s\b|\(?\d[\d,.]*/s\)?")


@dataclass(frozen=True)
class Block:
    """A fenced block: where its first line stands, what it holds and what its mark says."""

    page: str
    line: int
    kind: str
    title: str
    body: str
    skip: str = ""
    marks: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return f"{self.page}, line {self.line}"

    @property
    def shortened(self) -> bool:
        return any(mark in self.marks for mark in SHORTER)


def blocks(page: str, text: str) -> Iterator[Block]:
    """Every block of a page; ValueError where its kind or its mark is unknown."""
    for found in FENCE.finditer(text):
        head, marks = found["head"], found["marks"] or ""
        line = text.count("\n", 0, found.start("body")) + 1
        kind, title = head.partition(" ")[0], re.search(r'title="([^"]+)"', head)
        skip = marks.partition(",")[2].strip() if marks.startswith("skip") else ""
        given = (
            {} if skip else dict((name, value) for name, _, value in (word.partition("=") for word in marks.split()))
        )
        unknown = set(given) - {*SHORTER, "exit", "needs", "extras", "output"}
        if kind not in KINDS or unknown:
            raise ValueError(f"{page}, line {line}: unknown {'kind ' + repr(kind) if kind not in KINDS else unknown}")
        yield Block(page, line, kind, title[1] if title else "", found["body"], skip, given)


class Reader:
    """Someone who types what a page shows, in a folder of their own."""

    def __init__(self, home: Path, bin: Path, files: Mapping[str, Callable[[Path], None]]) -> None:
        self.home, self.bin, self.files = home, bin, files
        self.names: dict[str, Any] = {"__name__": "__main__"}

    def follow(self, block: Block) -> None:
        """Run a block; AssertionError with its page and line if it fails."""
        wanted = block.marks["extras"].split(",") if "extras" in block.marks else []
        if block.skip or not all(importlib.util.find_spec(module) for module in wanted):
            return
        for name in block.marks.get("needs", "").split(",") if "needs" in block.marks else ():
            if not (self.home / name).exists():
                self.files[name](self.home / name)
        try:
            if block.kind == "diff":
                self.change(block)
            elif block.title:
                (self.home / block.title).write_text(block.body)
            elif block.kind == "python":
                self.run_python(block)
            elif block.kind in ("bash", "console"):
                self.run_commands(block)
        except AssertionError:
            raise
        except Exception as error:
            raise AssertionError(f"{block.place}: {type(error).__name__}: {error}") from error

    def change(self, block: Block) -> None:
        """Apply a diff block to the file that it names."""
        path, lines = self.home / block.title, block.body.splitlines()
        old, new = ("".join(line[1:] + "\n" for line in lines if line[0] in kept) for kept in ("- ", "+ "))
        text = path.read_text()
        assert text.count(old) == 1, f"{block.place}: {block.title} does not hold\n{old}"
        path.write_text(text.replace(old, new))

    def run_python(self, block: Block) -> None:
        code = "\n" * (block.line - 1) + shorter_python(block.body, block.marks)
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(code, block.page, "exec"), self.names)

    def run_commands(self, block: Block) -> None:
        typed = list(commands(block))
        for index, (line, command, shown) in enumerate(typed):
            wanted = block.marks.get("exit", "0").split(",") if index == len(typed) - 1 else ["0"]
            code, said = self.run_command(shorter_command(command, block.marks))
            place = f"{block.page}, line {line}: {command}"
            assert str(code) in wanted, f"{place}\nexit code {code}, not {' or '.join(wanted)}\n{said}"
            if block.kind == "console" and not block.shortened:
                compare = {"varies": lambda text: "", "codes": codes}.get(block.marks.get("output", ""), same)
                assert compare(said) == compare(shown), f"{place}\nprints\n{said}\nand the page shows\n{shown}"

    def run_command(self, command: str) -> tuple[int, str]:
        if SHELL.search(command):
            path = f"{self.bin}:{Path(sys.executable).parent}:{os.environ['PATH']}"
            env = {**os.environ, "PATH": path, "COLUMNS": "80"}
            done = subprocess.run(["bash", "-ec", command], cwd=self.home, env=env, capture_output=True, text=True)
            code = done.returncode if done.returncode >= 0 else 128 - done.returncode  # as a shell tells a signal
            return code, done.stdout + done.stderr
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                main(shlex.split(command)[1:])
                code = 0
            except SystemExit as stop:
                code = int(stop.code or 0)
        return code, said.getvalue()


def commands(block: Block) -> Iterator[tuple[int, str, str]]:
    """(line, command, output) of a block; all lines of a bash block are commands."""
    found: list[list[Any]] = []
    going = False
    for line, text in enumerate(block.body.splitlines(), block.line):
        starts = block.kind == "bash" or text.startswith("$ ")
        typed = text.removeprefix("$ ") if block.kind == "console" else text
        if going:
            found[-1][1] = found[-1][1][:-1] + typed.strip()
        elif starts and typed.strip() and not typed.startswith("#"):
            found.append([line, typed, ""])
        elif found and not starts:
            found[-1][2] += text + "\n"
        going = bool(found) and found[-1][1].endswith("\\")
    for line, typed, shown in found:
        yield line, re.sub(r"\s+# .*", "", typed).strip(), shown


def shorter_command(command: str, marks: Mapping[str, str]) -> str:
    """The command with the numbers of steps, episodes, seconds and trials of a mark."""
    if command.startswith("timeout ") and "seconds" in marks:
        command = re.sub(r"(timeout (?:-s \w+ )?)\d+", rf"\g<1>{marks['seconds']}", command)
    takes = {
        "steps": ("train", "sweep", "tune"),
        "episodes": ("eval", "watch", "demos", "sweep", "doctor"),
        "seconds": ("doctor",),
        "trials": ("tune",),
        "seeds": ("sweep",),
    }
    called = re.search(r"\bcairn ([a-z-]+)", command)
    for mark, value in marks.items():
        if called is None or called[1] not in takes.get(mark, ()):
            continue
        option = f" --{mark} {value}"
        changed = re.sub(rf" --{mark} \S+", option, command)
        command = changed if changed != command or option in command else command + option
        if mark == "steps":
            command += "" if "--eval-episodes" in command or "--resume" in command else " --eval-episodes 1"
    for option in marks.get("with", "").split(",") if called and called[1] == "train" else ():
        name, _, value = option.partition("=")
        command = re.sub(rf" {name} \S+", "", command) + f" {name} {value}" * bool(name)
    return command


def shorter_python(code: str, marks: Mapping[str, str]) -> str:
    """The script with the numbers of steps and episodes of a mark."""
    if "steps" in marks:
        code = re.sub(r"(\.learn\()[\d_]+", rf"\g<1>{marks['steps']}", code)
        code = re.sub(r"(steps=)[\d_]+", rf"\g<1>{marks['steps']}", code)
    if "episodes" in marks:
        code = re.sub(r"(episodes=)[\d_]+", rf"\g<1>{marks['episodes']}", code)
    return code


def same(text: str) -> str:
    """A text without its line breaks and times."""
    return " ".join(TIMES.sub("", text).split())


def codes(text: str) -> str:
    """The codes of findings, in their order."""
    return " ".join(re.findall(r"\[([a-z-]+)\]", " ".join(text.split())))
