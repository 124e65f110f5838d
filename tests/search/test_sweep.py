"""Several seeds of one recipe, and what they say together."""

import json
from pathlib import Path

import numpy as np
import pytest

from cairn.cli.main import main
from cairn.evidence.statistics import bootstrap, interquartile_mean


def test_the_middle_half():
    assert interquartile_mean([1, 2, 3, 4]) == 2.5
    assert interquartile_mean([100, 2, 3, -50]) == 2.5
    assert interquartile_mean([7]) == 7
    assert interquartile_mean([1, 2, 3]) == pytest.approx((0.25 * 1 + 1 * 2 + 0.25 * 3) / 1.5)
    rng = np.random.default_rng(0).normal(size=1000)
    assert interquartile_mean(rng) == pytest.approx(np.sort(rng)[250:750].mean())


def test_the_interval_holds_the_mean_and_narrows_with_seeds():
    low, high = bootstrap([1, 2, 3, 4, 5])
    assert 1 <= low < 3 < high <= 5
    few, many = (np.diff(bootstrap(list(range(5)) * k)) for k in (1, 8))
    assert many < few
    assert bootstrap([3, 3, 3]) == (3, 3)


QUICK = ["--steps", "300", "--eval-every", "300", "--eval-episodes", "1"]


def test_a_sweep_trains_scores_and_does_nothing_twice(tmp_path, capsys):
    """Only it has two seeds trained and scored, each in a process of its own."""
    command = ["sweep", "cartpole-ppo", "--seeds", "2", "--episodes", "2", "--out", str(tmp_path), *QUICK]
    with pytest.raises(SystemExit) as stop:
        main(command)
    said = capsys.readouterr().out
    assert not stop.value.code and "2 seeds: interquartile mean" in said
    scores = {s: json.loads((tmp_path / f"s{s}" / "score.json").read_text()) for s in (1, 2)}
    assert scores[1]["episodes"] == 2
    stamp = (tmp_path / "s1" / "config.json").stat().st_mtime_ns
    with pytest.raises(SystemExit):
        main(command)
    assert capsys.readouterr().out == said and (tmp_path / "s1" / "config.json").stat().st_mtime_ns == stamp
    with pytest.raises(SystemExit) as stop:
        main([*command, "--agent.lr", "0.1"])
    assert stop.value.code == 2 and "a sweep of other settings" in capsys.readouterr().err
    (tmp_path / "sweep.json").write_text("cut sh")
    with pytest.raises(SystemExit) as stop:
        main(command)
    assert stop.value.code == 2 and "a sweep of other settings" in capsys.readouterr().err


def test_seeds_trained_together_have_the_results_of_seeds_trained_alone(tmp_path, capsys):
    options = ["--seeds", "101-102", "--episodes", "2", "--native", "off", *QUICK]
    tables = []
    for name, how in (("alone", []), ("together", ["--together"])):
        with pytest.raises(SystemExit) as stop:
            main(["sweep", "cartpole-ppo", "--out", str(tmp_path / name), *how, *options])
        assert not stop.value.code
        said = capsys.readouterr()
        tables.append([line.split()[:3] for line in said.out.splitlines()])  # without seconds
    assert tables[0] == tables[1] and "seed 102: 1,024 of 300 steps, evaluation" in said.err
    with pytest.raises(SystemExit):  # all are scored: nothing is trained
        main(["sweep", "cartpole-ppo", "--out", str(tmp_path / "together"), "--together", *options])
    said = capsys.readouterr()
    assert said.err == "" and [line.split()[:3] for line in said.out.splitlines()] == tables[1]


def test_a_seed_that_was_interrupted_is_continued_together(tmp_path, capsys):
    """Only it begins with a run that was made alone and not finished."""
    short = [*QUICK[:1], "150", *QUICK[2:], "--native", "off"]
    with pytest.raises(SystemExit):
        main(["train", "cartpole-ppo", "--seed", "1", "--out", str(tmp_path / "s1"), *short])
    with pytest.raises(SystemExit) as stop:
        main(["sweep", "cartpole-ppo", "--seeds", "2", "--episodes", "1", "--together", "--out", str(tmp_path), *QUICK])
    assert not stop.value.code and "2 seeds: interquartile mean" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["sweep", "tune"])
def test_help_is_no_mistake(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert not stop.value.code and f"cairn {command} NAME" in capsys.readouterr().out


def test_a_seed_that_fails_is_told_and_the_others_count_also_of_a_recipe_in_a_file(tmp_path, capsys):
    from cairn.core.serialise import to_json
    from cairn.recipes import find

    mine, out = tmp_path / "mine.json", tmp_path / "out"
    mine.write_text(json.dumps({**to_json(find("cartpole-ppo")), "name": "mine"}))
    (out / "s2").mkdir(parents=True)
    (out / "s2" / "config.json").write_text("{")
    with pytest.raises(SystemExit) as stop:
        main(["sweep", str(mine), "--seeds", "2", "--episodes", "1", "--out", str(out), *QUICK])
    said = capsys.readouterr().out
    assert stop.value.code == 1 and "failed: cairn:" in said and "1 seeds: interquartile mean" in said


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["cartpole-pp"], "Did you mean cartpole-ppo"),
        (["cartpole-ppo", "--seeds", "0"], "seeds"),
        (["cartpole-ppo", "--agent.gama", "0.9"], "Did you mean --agent.gamma"),
        (["cartpole-ppo", "--seed", "3"], "--seeds"),
        (["cartpole-ppo", "--together", "--vector", "ray"], "leave out --together"),
        (["cartpole-ppo", "--together", "--learners", "2"], "leave one of them out"),
        (["cartpole-ppo", "--together", "--on", "ray"], "leave one out"),
        (
            ["cartpole-dqn", "--together", "--agent.capacity", "100_000_000", "--steps", "1e9", "--seeds", "1000"],
            "1000 replay buffers of 100,000,000 transitions",
        ),
    ],
)
def test_a_mistake_is_told_before_anything_starts(args, words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["sweep", *args])
    assert stop.value.code == 2 and words in capsys.readouterr().err and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cut", ["sweep.json", "score.json"])
def test_a_sweep_that_is_killed_while_it_writes_goes_on(cut, tmp_path, capsys, monkeypatch):
    """Neither its settings nor a score are ever found in part."""
    command = ["sweep", "cartpole-ppo", "--seeds", "1", "--episodes", "1", "--out", str(tmp_path), *QUICK]
    write = Path.write_text

    def killed(path, text, **how):
        write(path, text[:5] if cut in path.name else text, **how)
        if cut in path.name:
            raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", killed)
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        main(command)
    monkeypatch.setattr(Path, "write_text", write)
    with pytest.raises(SystemExit) as stop:
        main(command)
    assert not stop.value.code and "1 seeds: interquartile mean" in capsys.readouterr().out


def test_the_figure_is_what_the_recipe_is_judged_by(tmp_path):
    from dataclasses import replace

    from cairn.core.serialise import to_json
    from cairn.recipes import find
    from cairn.search.places import Here
    from cairn.search.sweep import Plan

    for metric, want in (("return", 12.5), ("success", 0.25)):
        folder = tmp_path / metric
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(to_json(replace(find("cartpole-ppo"), metric=metric))))
        (folder / "score.json").write_text(json.dumps({"mean": 12.5, "success": 0.25}))
        assert Plan("cartpole-ppo", [], Here(1), 1).trial(1, folder).figure == want
