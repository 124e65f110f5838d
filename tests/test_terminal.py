"""What commands print fits 80, 120 and 200 columns, in UTF-8 and in ASCII."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cairn.cli.main import main
from cairn.core.terminal import columns, cut, readable, table, wrapped
from cairn.doctor.finding import Finding
from cairn.recipes import find
from cairn.runs import progress
from cairn.runs.progress import Progress
from cairn.search import tune
from cairn.search.sweep import Trial
from cairn.search.sweep import table as sweep_table

ROOT = Path(__file__).parents[1]
WIDTHS = pytest.mark.parametrize("width", [80, 120, 200])
ENCODINGS = pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
LONG = "the reward is the same in every state, γ ≥ 0.99 and ± 3 of " + ", ".join(f"observation[{i}]" for i in range(20))


def printed(
    monkeypatch: pytest.MonkeyPatch, width: int, encoding: str, print_it: Callable[[], Any], code: int = 0
) -> list[str]:
    """The lines that a function prints to a terminal of this width and encoding."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, write_through=True)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys, "stdout", stream)
    try:
        print_it()
    except SystemExit as stop:
        assert (stop.code or 0) == code
    finally:
        stream.flush()
    return raw.getvalue().decode(encoding).splitlines()


@ENCODINGS
@WIDTHS
@pytest.mark.parametrize(
    "args",
    [
        ["--help"],
        ["list"],
        ["results"],
        ["train", "--help"],
        ["train", "cartpole-ppo", "--help"],
        ["train", "rooms-hiro-dqn", "--help"],
        ["sweep", "--help"],
        ["tune", "--help"],
        ["eval", "--help"],
        ["bench", "--help"],
        ["doctor", "--help"],
        ["eval", "zoo/cartpole-ppo", "--episodes", "2"],
    ],
    ids=" ".join,
)
def test_commands_fit(args: list[str], width: int, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    lines = printed(monkeypatch, width, encoding, lambda: main(args))
    assert lines and max(map(len, lines)) <= width
    assert not any("?" in line for line in lines if encoding == "ascii")  # every character has an ASCII form


def test_a_mistake_is_told_in_lines_that_fit_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", "60")
    told = []
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        with pytest.raises(SystemExit):
            main(["train"])
        told.append(stream.getvalue())
    terminal, file = told
    assert max(map(len, terminal.splitlines())) <= 60 < len(file)  # a file gets one line, to be searched
    assert terminal.split() == file.split() and file.count("\n") == 1 and "\n  " in terminal


@WIDTHS
def test_a_wider_terminal_shows_more_of_the_results(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    lines = printed(monkeypatch, width, "utf-8", lambda: main(["results"]))
    heads = lines[0].split()
    assert {"recipe", "seeds", "iqm", "target", "met"} <= set(heads)
    assert ("public" in heads) == (width == 200) and ("steps" in heads) == (width > 80)
    assert any("Not shown in 80 columns: public, settings" in line for line in lines) == (width == 80)


@ENCODINGS
@WIDTHS
def test_doctor_fits(width: int, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Finding("constant-reward", "error", LONG, LONG, LONG)]
    monkeypatch.setattr("cairn.doctor.diagnose", lambda *args, **options: found)
    lines = printed(monkeypatch, width, encoding, lambda: main(["doctor", "CartPole-v1"]), code=1)
    assert max(map(len, lines)) <= width and len(lines) > 4
    words = " ".join(" ".join(lines).split())
    assert "[constant-reward]" in words and "remedy: " in words and "observation[19]" in words


@ENCODINGS
@WIDTHS
def test_bench_fits(width: int, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    speeds = {("sync", n): 1e6 * n for n in counts} | {("async", n): 2e6 * n for n in counts[1:]}
    monkeypatch.setattr("cairn.vector.choose.speeds", lambda *args, **options: speeds)
    args = ["bench", "vector", "CartPole-v1", "--envs", *map(str, counts)]
    lines = printed(monkeypatch, width, encoding, lambda: main(args))
    assert max(map(len, lines)) <= width and lines[-1] == "fastest: --vector async --envs 512"
    assert all(f"{n} envs" in "\n".join(lines) for n in counts) and "1,024,000,000" in "\n".join(lines)


@ENCODINGS
@WIDTHS
def test_sweep_and_tune_fit(width: int, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trials = [Trial(1, Path("a"), 500.0, 100_000, 12.0), Trial(2, Path("b"), fault=f"cairn: {LONG}")]
    lines = printed(monkeypatch, width, encoding, lambda: print(sweep_table(trials)))
    assert max(map(len, lines)) <= width and "500" in lines[1]

    names = ("lr", "gamma", "batch_size", "hidden", "horizon", "epochs")
    factors = dict.fromkeys(names, 1.0)
    state = SimpleNamespace(name="COMPLETE")
    done = [SimpleNamespace(number=k, value=float(k), params=factors, state=state) for k in range(3)]
    study = SimpleNamespace(trials=done, best_params=factors)
    pytest.importorskip("optuna")
    lines = printed(monkeypatch, width, encoding, lambda: print(tune.table(study, find("cartpole-ppo"))))
    assert max(map(len, lines)) <= width and "(the recipe)" in " ".join(lines)
    assert all(name in " ".join(lines) for name in names)


@ENCODINGS
@WIDTHS
def test_the_progress_line_fits(width: int, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", str(width))
    raw = io.BytesIO()
    stream = Terminal(raw, encoding=encoding, write_through=True)
    for name in ("short", "a-very-long-name-of-a-run-" * 10):
        line = Progress(name, 10**9, stream=stream)
        line.show(123_456_789, "return 1,234.5 ± 67.8, success 98.5 % over 100 episodes")
        line.say(LONG)
    said = raw.getvalue().decode(encoding).replace("\x1b[2K", "").replace("\r", "\n").splitlines()
    assert max(map(len, said)) <= width and "123,456,789/1,000,000,000 steps" in "".join(said)
    assert ("±" if encoding == "utf-8" else "+/-") in "".join(said)


def test_without_a_terminal_a_line_is_printed_every_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 59.0, 60.0, 61.0, 120.0])
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(now))
    line = Progress("run", 240, stream=io.StringIO())
    for step in (59, 60, 61, 120):
        line.show(step, f"return {step}.0")
    line.done()
    assert isinstance(line.stream, io.StringIO)
    assert line.stream.getvalue().splitlines() == [
        "run  60/240 steps  1/s  return 60.0  0:03:00 left",
        "run  120/240 steps  1/s  return 120.0  0:02:00 left",
    ]


def test_what_has_no_terminal_is_80_columns_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert columns(io.StringIO()) in (80, columns())
    monkeypatch.setenv("COLUMNS", "20")
    assert columns() == 40  # no layout is made for less


def test_tables_drop_and_cut_columns() -> None:
    rows = [{"name": "n" * 20, "task": "t" * 30, "more": "m" * 30, "score": 1234.5}]
    assert table(rows, width=200).splitlines()[1] == f"{'n' * 20}  {'t' * 30}  {'m' * 30}  1,234.5"
    narrow = table(rows, width=50, shrink={"task": 8}, drop=["more"])
    assert narrow.splitlines()[1] == f"{'n' * 20}  {'t' * 17}..  1,234.5"
    assert narrow.endswith("Not shown in 50 columns: more; --json shows all.")
    assert cut("abcdef", 6) == "abcdef" and cut("abcdefg", 6) == "abcd.."


def test_text_is_wrapped_and_spelled_in_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    assert wrapped("one two three\n  four five", "    ", width=9) == "one two\n    three\n  four\n      five"
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert readable("γ ≥ 0.9 ± 1, 中") == "gamma >= 0.9 +/- 1, ?"
