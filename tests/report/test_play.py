"""One episode, watched."""

import numpy as np
import pytest

from cairn.envs.task import Task, say_cut
from cairn.report.play import play
from cairn.report.video import record


def up(obs):
    return np.zeros(len(obs), np.int64)


def test_an_episode_that_does_not_end_is_cut_and_says_so(capsys):
    say_cut.cache_clear()
    rows = []
    for _ in range(2):
        episode = play(up, Task("CliffWalking-v1")(), seed=1, watch=lambda row, point: rows.append(row), longest=30)
    assert episode.length == 30 and episode.total == -30 and len(rows) == 62
    assert capsys.readouterr().err.count("truncated after 30 steps") == 1


def test_a_film_ends_with_the_tasks_limit(tmp_path, monkeypatch):
    pytest.importorskip("imageio_ffmpeg")
    pytest.importorskip("pygame")
    monkeypatch.setattr("cairn.envs.task.LONGEST", 12)
    say_cut.cache_clear()
    assert [e.length for e in record(up, Task("CliffWalking-v1"), tmp_path / "film.mp4")] == [12]
