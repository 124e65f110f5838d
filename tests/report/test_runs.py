"""Run folders as a report reads them: grouping, bands and differences by hand; then every kind of bad folder."""

import json
import math
import os
from dataclasses import replace

import numpy as np
import pytest

from cairn.core.errors import CairnError
from cairn.recipes import find
from cairn.report.bands import band
from cairn.report.compare import changed, differences, flat, grouped
from cairn.report.runs import find_runs, ordered, read_run
from cairn.runs.curves import Point
from tests.report.folders import HEAD, film, remark, write_run


def points(*values, start=1):
    return [Point(100 * k, float(k), float(v)) for k, v in enumerate(values, start)]


def test_a_band_is_mean_lowest_and_highest_at_every_step_of_any_seed():
    other = [Point(100, 1.0, 4.0), Point(300, 3.0, 8.0)]  # 6 halfway
    found = band([points(0, 2, 4), other], [False, False])
    assert found.steps == [100, 200, 300] and found.seeds == [2, 2, 2]
    assert found.mean == [2, 4, 6] and found.low == [0, 2, 4] and found.high == [4, 6, 8]


def test_a_solved_seed_is_held_and_a_broken_one_counts_as_far_as_it_went():
    short, long = points(10, 20), points(0, 0, 0, 0)
    held, broken = band([short, long], [True, False]), band([short, long], [False, False])
    assert held.mean == [5, 10, 10, 10] and held.seeds == [2, 2, 2, 2]
    assert broken.mean == [5, 10, 0, 0] and broken.seeds == [2, 2, 1, 1]
    late = band([points(8, start=3), points(1, 1, 1)], [False, False])
    assert late.seeds == [1, 1, 2] and late.high == [1, 1, 8]  # nothing is made up before a first point


def test_what_cannot_be_drawn_is_no_point():
    odd = [Point(200, 0, 2), Point(100, 0, 1), Point(200, 0, 3), Point(300, 0, math.nan), Point(400, 0, math.inf)]
    odd += [Point(-5, 0, 1), Point(10**300, 0, 1), Point(500, 0, 1e300)]
    assert [(p.step, p.value) for p in ordered(odd)] == [(100, 1), (200, 3)]
    assert band([[], odd[3:]], [False, False]) is None


def test_seeds_and_machines_are_one_group_and_settings_are_another(tmp_path):
    agent = find("cartpole-ppo").agent
    made = [
        write_run(tmp_path / "a", [1, 2], seed=1),
        write_run(tmp_path / "b", [1, 2], seed=2, device="cuda", vector="async", workers=2, threads=4),
        write_run(tmp_path / "c", [1, 2], seed=1, agent=replace(agent, gamma=0.9)),
        write_run(tmp_path / "d", [1, 2], recipe="cartpole-dqn"),
    ]
    groups = grouped([read_run(p) for p in made])
    assert [[run.path.name for run in group.runs] for group in groups] == [["a", "b"], ["c"], ["d"]]
    assert [g.label for g in groups] == [
        "cartpole-ppo (agent.gamma 0.98)",
        "cartpole-ppo (agent.gamma 0.9)",
        "cartpole-dqn",
    ]


def test_labels_name_as_many_options_as_it_takes(tmp_path):
    task = {"env_args": {"n": 25, "one_goal": True}}
    cases = {
        "a": {},
        "b": {"hindsight": "off"},
        "c": {"hindsight": "off", **task},
        "d": {"hindsight": "off", "hold": 9},
    }
    labels = [
        g.label
        for g in grouped([read_run(write_run(tmp_path / k, [1], recipe="her-goals", **cases[k])) for k in cases])
    ]
    assert labels == [
        "her-goals (hold 100, hindsight future)",
        "her-goals (hold 100, hindsight off, no env_args.one_goal)",
        "her-goals (hold 100, hindsight off, env_args.one_goal true)",
        "her-goals (hold 9)",
    ]
    for name in ("e", "f"):
        write_run(tmp_path / name, [1])
        (tmp_path / name / "config.json").write_text("{")
    broken = grouped([read_run(tmp_path / name) for name in ("e", "f")])
    assert [g.label for g in broken] == ["e", "f"]


def test_a_field_that_recipes_did_not_have_then_stands_at_its_default(tmp_path):
    write_run(tmp_path / "new", [1])
    old = write_run(tmp_path / "old", [1], seed=7)
    body = json.loads((old / "config.json").read_text())
    del body["eval_args"], body["time_feature"]
    (old / "config.json").write_text(json.dumps(body))
    runs = [read_run(tmp_path / "new"), read_run(old)]
    assert len(grouped(runs)) == 1 and runs[1].faults == ()


def test_differences_name_the_options_that_are_not_the_same(tmp_path):
    agent = find("cartpole-ppo").agent
    runs = [
        read_run(write_run(tmp_path / "a", [1], seed=1)),
        read_run(write_run(tmp_path / "b", [1], seed=2, device="cuda")),
        read_run(write_run(tmp_path / "c", [1], agent=replace(agent, gamma=0.9), env_args={"sutton": True})),
    ]
    rows = dict(differences(grouped(runs)))
    assert rows == {"agent.gamma": ["0.98", "0.9"], "env_args": ["{}", "-"], "env_args.sutton": ["-", "true"],
                    "device": ["cpu, cuda", "cpu"]}  # fmt: skip
    assert differences(grouped(runs[:1])) == []
    same = [read_run(write_run(tmp_path / f"s{k}", [1], seed=k)) for k in (1, 2)]
    assert differences(grouped(same)) == []


def test_what_a_run_changed_of_its_recipe(tmp_path):
    run = read_run(write_run(tmp_path / "a", [1], steps=5000, seed=9, device="cuda"))
    assert changed(run) == [("steps", str(find("cartpole-ppo").steps), "5000")]
    assert changed(read_run(write_run(tmp_path / "b", [1]))) == []  # 500 and 500.0 are one target
    assert changed(read_run(write_run(tmp_path / "c", [1], name="my-own"))) is None
    assert flat({"a": 500.0, "b": [1.0, 0.5], "c": {"kind": "PPOConfig", "lr": "0.1"}, "d": {}}) == {
        "a": "500", "b": "[1, 0.5]", "c": "ppo", "c.lr": "0.1", "d": "{}"}  # fmt: skip


def test_a_folder_of_runs_stands_for_them_and_each_is_read_once(tmp_path):
    for k in (1, 2):
        write_run(tmp_path / "sweep" / f"s{k}", [1], seed=k)
    (tmp_path / "sweep" / "notes").mkdir()
    found = find_runs([tmp_path / "sweep", tmp_path / "sweep" / "s1", tmp_path / "nowhere"])
    assert [p.name for p in found] == ["s1", "s2", "nowhere"]


def test_the_state_of_a_run(tmp_path):
    assert read_run(write_run(tmp_path / "a", [400, 500, 500, 500, 500])).state == "target held"
    assert read_run(write_run(tmp_path / "b", [400], steps=1000)).state == "all steps taken"
    assert read_run(write_run(tmp_path / "c", [400])).state == "under way or interrupted"
    assert read_run(write_run(tmp_path / "d", [])).state == "nothing measured yet"


# -- bad input


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "holds no run: it has neither config.json nor metrics.csv"),
        ({"config.json": "{"}, "nothing of the run in .* can be read: .*config.json cannot be read: it is cut short"),
        ({"config.json": "[1]"}, "was not written by Cairn"),
        ({"metrics.csv": ""}, "config.json is missing"),
        ({"config.json": "[" * 100_000, "metrics.csv": "rubbish\nrubbish\n"}, "nested more than 64 levels"),
    ],
)
def test_a_folder_that_tells_nothing_is_one_sentence(tmp_path, files, words):
    for name, body in files.items():
        (tmp_path / name).write_text(body)
    with pytest.raises(CairnError, match=words):
        read_run(tmp_path)


def test_a_folder_that_is_not_there_or_a_file(tmp_path):
    with pytest.raises(CairnError, match="there is no run folder"):
        read_run(tmp_path / "none")
    (tmp_path / "f").write_text("")
    with pytest.raises(CairnError, match="is a file; name the folder"):
        read_run(tmp_path / "f")


def only(run):
    assert len(run.faults) == 1, run.faults
    return run.faults[0]


def test_half_of_a_run_is_shown_with_one_sentence_on_the_other_half(tmp_path):
    run = write_run(tmp_path / "a", [1, 2])
    (run / "config.json").write_text('{"kind": "Rec')
    read = read_run(run)
    assert "config.json cannot be read: it is cut short or not JSON." in only(read)
    assert read.name == "a" and len(read.evaluations) == 2 and read.seed == "?"
    run = write_run(tmp_path / "b", [])
    (run / "metrics.csv").unlink()
    (run / "evaluations.npz").unlink()
    assert "holds no measurements yet" in only(read_run(run))
    run = write_run(tmp_path / "c", [1, 2])
    with open(run / "metrics.csv", "a") as file:
        file.write("3000,3,eval/mean_rew\n3000,3,eval/mean_reward,7")  # the second is being written
    assert only(read_run(run)).startswith("1 of the lines in")
    run = write_run(tmp_path / "d", [1, 2])
    (run / "evaluations.npz").write_bytes(b"PK\x03\x04 cut")
    assert "evaluations.npz cannot be read" in only(read_run(run))


def test_a_run_of_another_version_is_shown_as_it_is(tmp_path):
    run = read_run(write_run(tmp_path / "a", [1, 2], config={"warp": 9, "target": "far", "hold": None, "steps": [1]}))
    assert "is of another version of Cairn and shown as it is (this is not a saved Recipe" in only(run)
    assert run.name == "cartpole-ppo" and run.target is None and run.steps == 0 and flat(run.config)["warp"] == "9"


def test_figures_altered_by_hand_are_noticed(tmp_path):
    run = write_run(tmp_path / "a", [100.123456, 200])
    assert read_run(run).faults == ()
    path = run / "metrics.csv"
    path.write_text(path.read_text().replace("eval/mean_reward,200", "eval/mean_reward,500"))
    assert "tells a mean of 500 at step 2,000 and the episodes of evaluations.npz one of 200" in only(read_run(run))
    assert len(read_run(run).evaluations) == 2


def test_an_altered_or_cut_policy_is_noticed(tmp_path):
    run = write_run(tmp_path / "a", [1, 2])
    (run / "best").mkdir()
    (run / "best" / "policy.json").write_text('{"format": 1, "about": {"mean": 500}, "digest": "0"}')
    assert "policy.json is damaged: it is not what was saved (its digest differs)" in only(read_run(run))
    (run / "best" / "policy.json").unlink()
    assert "holds no policy" in only(read_run(run))


@pytest.mark.parametrize(
    "body", ['{"mean": "high"}', '{"mean": 1, "success": 7}', '{"mean": NaN}', '{"success": 1}', "{"]
)
def test_a_score_that_no_evaluation_wrote(tmp_path, body):
    run = write_run(tmp_path / "a", [1, 2])
    (run / "score.json").write_text(body)
    read = read_run(run)
    assert "score.json" in only(read) and read.score is None


def test_remarks_that_say_nothing_are_counted(tmp_path):
    run = write_run(tmp_path / "a", [1, 2])
    remark(run)
    with open(run / "watch.jsonl", "a") as file:
        file.write('{"step": 3, "co')
    read = read_run(run)
    assert only(read).startswith("1 of the lines in") and read.remarks[0]["code"] == "units-dead"


def test_films_and_pictures_are_taken_if_they_are_whole(tmp_path, monkeypatch):
    pytest.importorskip("imageio_ffmpeg")
    run = write_run(tmp_path / "a", [1, 2])
    film(run / "other.mp4")
    film(run / "video.mp4")
    (run / "plan.svg").write_text("<svg/>")
    assert [m.name for m in read_run(run).media] == ["video.mp4", "plan.svg"]
    assert read_run(run, media=False).media == ()
    whole = (run / "video.mp4").read_bytes()
    (run / "video.mp4").write_bytes(whole[:200])
    assert "video.mp4 is cut short or not what its name says and was left out." in only(read_run(run))
    (run / "video.mp4").write_bytes(b"")
    assert "video.mp4 is empty and was left out." in only(read_run(run))
    monkeypatch.setattr("cairn.report.runs.LARGEST", 2**20)
    (run / "video.mp4").write_bytes(whole + bytes(2**20))
    assert "is larger than 1 MiB" in only(read_run(run))


def test_numbers_of_any_kind_in_metrics_do_not_stop_the_reading(tmp_path):
    run = write_run(tmp_path / "a", [])
    (run / "metrics.csv").write_text(HEAD + f"1,1,eval/mean_reward,nan\n{'9' * 400},1,x,1\n2,inf,y,-inf\n3,3,z,1e308\n")
    np.savez(run / "evaluations.npz", timesteps=[1], results=[[np.nan]], ep_lengths=[[1]])
    read = read_run(run)
    assert read.evaluations == [] and read.faults == ()


@pytest.mark.parametrize("name", ["metrics.csv", "watch.jsonl", "evaluations.npz", "config.json", "score.json"])
def test_a_log_that_is_a_link_is_not_followed(tmp_path, name):
    other = write_run(tmp_path / "other", [77, 78])
    remark(other)
    (other / "score.json").write_text('{"mean": 77, "success": null}')
    run = write_run(tmp_path / "a", [1, 2])
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(other / name)
    read = read_run(run)
    assert name in only(read)
    assert all(point.value < 10 for point in read.evaluations) and read.remarks == [] and read.score is None


def test_a_link_a_pipe_and_a_device_are_not_embedded(tmp_path):
    run = write_run(tmp_path / "a", [1, 2])
    secret = tmp_path / "secret.svg"
    secret.write_text("<svg>secret</svg>")
    (run / "link.svg").symlink_to(secret)
    (run / "zero.png").symlink_to("/dev/zero")
    os.mkfifo(run / "pipe.jpg")
    read = read_run(run)
    assert read.media == () and len(read.faults) == 3
    assert all("not a regular file, and was left out" in fault for fault in read.faults)
