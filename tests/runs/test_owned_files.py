"""Nothing that Cairn writes replaces a file of a run, unless the run itself writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cairn import PPO, CairnError
from cairn.cli.main import main
from cairn.runs.owned_files import FILES, FOLDERS, check_output

ZOO = str(Path(__file__).parents[2] / "zoo" / "cartpole-ppo")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[PPO, Path]:
    run = tmp_path_factory.mktemp("runs") / "mine"
    return PPO("CartPole-v1", hidden=8, horizon=32).learn(32, out=run, eval_episodes=1), run


@pytest.mark.parametrize(
    "command",
    [
        ["demos", ZOO, "--episodes", "1", "--out", "RUN/evaluations.npz"],
        ["demos", ZOO, "--episodes", "1", "--out", "RUN/tb/mine.npz"],
        ["demos", ZOO, "--episodes", "1", "--out", "LINK/evaluations.npz"],
        ["export", ZOO, "--out", "RUN/best"],
        ["export", "RUN", "--out", "RUN/best"],
        ["export", ZOO, "--out", "RUN/checkpoints/0000000032"],
        ["export", ZOO, "--out", "RUN/best/inner"],
        ["import", "nowhere.zip", "--out", "RUN/best"],
        ["watch", ZOO, "--out", "RUN/best/video.mp4"],
        ["watch", ZOO, "--out", "RUN/replay/plan.png"],
        ["report", "RUN", "-o", "RUN/checkpoints/page.html"],
    ],
)
def test_a_command_does_not_write_over_a_run(
    command: list[str], model: tuple[PPO, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = model[1]
    link = tmp_path / "link"
    link.symlink_to(run)
    before = contents(run)
    words = [word.replace("RUN", str(run)).replace("LINK", str(link)) for word in command]
    with pytest.raises(SystemExit) as stop:
        main(words)
    said = capsys.readouterr().err
    assert stop.value.code == 2 and "belongs to the run in" in said and said.count("\n") == 1, said
    assert contents(run) == before


def test_a_policy_is_not_exported_onto_itself(
    model: tuple[PPO, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model[0].save(tmp_path / "mine")
    before = contents(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["export", str(tmp_path / "mine"), "--out", str(tmp_path / "x" / ".." / "mine"), "--half"])
    assert stop.value.code == 2 and "is the folder of the policy" in capsys.readouterr().err
    assert contents(tmp_path) == before


def test_save_does_not_replace_the_policy_of_a_run(model: tuple[PPO, Path]) -> None:
    net, run = model
    before = contents(run)
    for name in ("best", "BEST", "checkpoints/0000000032", "best/mine"):
        with pytest.raises(CairnError, match="path is .* belongs to the run in"):
            net.save(run / name)
    assert contents(run) == before


def test_names_of_its_own_are_allowed_in_the_folder_of_a_run(model: tuple[PPO, Path], tmp_path: Path) -> None:
    net, run = model
    for name in ("video.mp4", "page.html", "film/best.mp4", "demos.npz"):
        check_output(run / name)
    for name in FILES + FOLDERS:
        check_output(tmp_path / name)  # no run lies here
    net.save(run / "kept")
    net.save(run / "kept")  # again, as anywhere
    assert (run / "kept" / "policy.json").is_file()


def test_a_run_owns_all_that_it_writes(model: tuple[PPO, Path]) -> None:
    written = {path.name for path in model[1].iterdir()} - {"kept"}
    assert written and written <= {*FILES, *FOLDERS}
