"""cairn report: what works, and one sentence with exit code 2 for each mistake."""

import pytest

from cairn.cli.main import USAGE, main
from tests.report.folders import write_run


def cairn(*args, code, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["report", *(str(a) for a in args)])
    said = capsys.readouterr()
    assert (stop.value.code or 0) == code, said.err
    return said


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_page_is_written_and_faults_are_said_one_a_line(home, capsys):
    write_run(home / "sweep" / "s1", [1, 2], seed=1)
    write_run(home / "sweep" / "s2", [1, 2], seed=2)
    (home / "empty").mkdir()
    said = cairn("sweep", "empty", "-o", "page.html", code=0, capsys=capsys)
    assert said.out.startswith("page.html: 2 runs of 1 configuration, ") and (home / "page.html").exists()
    assert said.err == "cairn: empty holds no run: it has neither config.json nor metrics.csv.\n"
    cairn("sweep", code=0, capsys=capsys)
    assert (home / "report.html").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "name at least one run folder"),
        (["nowhere"], "there is no run folder nowhere."),
        (["empty", "nowhere"], "empty holds no run"),
        (["run", "-o", "run"], "--out is run; it must end in .html"),
        (["run", "-o", "page.txt/page.html"], "page.txt/page.html, and page.txt is not a folder"),
        (["run", "--epsiodes", "3"], "Did you mean --episodes?"),
        (["run", "--live", "--port", "70000"], "port is 70000; it must be at most 65535"),
        (["nowhere", "--live"], "there is no run folder nowhere"),
        (["run", "--live", "--every", "0"], "every is 0; it must be at least 1."),
    ],
)
def test_mistakes(home, capsys, args, words):
    write_run(home / "run", [1, 2])
    (home / "empty").mkdir()
    (home / "page.txt").write_text("")
    said = cairn(*args, code=2, capsys=capsys)
    assert words in said.err and said.err.startswith("cairn: ") and said.err.count("\n") == 1 and said.out == ""


def test_the_help_names_it():
    assert "cairn report RUN... [-o page.html]" in USAGE and "--live [--port 8000]" in USAGE
