"""What a run wrote down is read back, whatever state the files are in."""

import json
import os

import pytest

from cairn.core.errors import CairnError
from cairn.runs import curves
from cairn.runs.curves import Point, evaluations, finite, held, read_curves, read_remarks

HEAD = "step,seconds,name,value\n"


def test_each_metric_by_its_name_and_the_newest_of_all(tmp_path):
    text = "100,1.5,train/loss,0.25\n200,3.00,eval/mean_reward,17\n200,3.00,eval/success_rate,0.5\n"
    (tmp_path / "metrics.csv").write_text(HEAD + text)
    found = read_curves(tmp_path)
    assert found.named["train/loss"] == [Point(100, 1.5, 0.25)] and found.lost == 0
    assert found.last() == Point(200, 3.0, 17)
    assert evaluations(tmp_path, "return") == [Point(200, 3.0, 17)]
    assert evaluations(tmp_path, "success") == [Point(200, 3.0, 0.5)]


def test_a_line_being_written_is_not_read_and_a_broken_one_is_counted(tmp_path):
    (tmp_path / "metrics.csv").write_text(HEAD + "100,1,a,1\nrubbish\n200,x,a,2\n300,3,a,3\n400,4,a,4")
    found = read_curves(tmp_path)
    assert [p.value for p in found.named["a"]] == [1, 3]  # 4 may yet become 45
    assert found.lost == 2


def test_nothing_written_is_no_curve(tmp_path):
    assert read_curves(tmp_path).named == {} and read_curves(tmp_path).last() is None
    (tmp_path / "metrics.csv").write_bytes(b"\xff\xfe\x00")
    assert read_curves(tmp_path).named == {}
    assert evaluations(tmp_path, "return") == []


def test_a_target_is_held_as_often_as_asked():
    points = [Point(k, 0.0, value) for k, value in enumerate([0, 500, 499, 500, 500])]
    assert held(points, 500, 2) and not held(points, 500, 3)
    assert not held(points, None, 1) and not held(points[:1], 500, 1) and not held([], 500, 1)
    assert finite([Point(1, 0, float("nan")), Point(2, 0, 1.0)]) == [Point(2, 0, 1.0)]


def test_remarks_are_read_but_for_lines_that_say_nothing(tmp_path):
    assert read_remarks(tmp_path) == ([], 0)
    remark = {"step": 5, "code": "units-dead", "severity": "warning", "what": "a", "evidence": "b", "remedy": "c"}
    (tmp_path / "watch.jsonl").write_text(json.dumps(remark) + '\n[]\n{"step": 1}\n{"step": 9, "co')
    assert read_remarks(tmp_path) == ([remark], 3)
    strange = [{**remark, "step": "5"}, {**remark, "what": ["a"]}, {**remark, "more": 1}, "[" * 5000]
    (tmp_path / "watch.jsonl").write_text(
        "\n".join(json.dumps(line) for line in [*strange, remark]) + "\n" + "[" * 9999
    )
    assert read_remarks(tmp_path) == ([remark], 5)


def test_logs_that_are_no_files_or_too_long_are_one_sentence(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "metrics.csv")
    os.mkfifo(tmp_path / "watch.jsonl")
    assert read_remarks(tmp_path) == ([], 1)
    with pytest.raises(CairnError, match="is a pipe, not a regular file"):
        read_curves(tmp_path)
    (tmp_path / "metrics.csv").unlink()
    (tmp_path / "metrics.csv").write_text("step,seconds,name,value\n" + "1,1,a,1\n" * 10)
    monkeypatch.setattr(curves, "LINES", 10)
    with pytest.raises(CairnError, match="more than 10 lines"):
        read_curves(tmp_path)


def test_a_name_whose_only_line_is_no_measurement_is_no_curve(tmp_path):
    (tmp_path / "metrics.csv").write_text(HEAD + "1,1,a,x\n2,2,b,3\n")
    found = read_curves(tmp_path)
    assert list(found.named) == ["b"] and found.lost == 1 and found.last() == Point(2, 2.0, 3.0)
