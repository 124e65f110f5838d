"""Which level of a hierarchy is at fault: on a court, with levels written by hand."""

import json
import time
from pathlib import Path

import numpy as np
import pytest

from cairn.algorithms import HIROConfig, SACConfig
from cairn.cli.main import main
from cairn.core.errors import CairnError
from cairn.core.goals import Region
from cairn.core.schedules import constant
from cairn.doctor.levels.examine import diagnose_levels, examine_levels
from cairn.doctor.levels.play import Oracle, Stage
from cairn.doctor.levels.ways import Map, cells_in, cells_of, widened, within
from cairn.recipes.recipe import Recipe
from cairn.report.page import write
from cairn.runs import checkpoint
from cairn.runs.checkpoint import Saved
from cairn.runs.train import train
from cairn.runs.visited import read_visited
from tests.doctor import courts
from tests.doctor.courts import U, hierarchy


def examine(name="Court", *, episodes=4, seconds=100.0, **changes):
    agent, task = hierarchy(name, **changes)
    return examine_levels(Saved(agent, task, {}), Path("x"), episodes=episodes, seed=5, seconds=seconds)


def codes(levels):
    return [finding.code for finding in levels.findings]


def test_two_good_levels():
    levels = examine()
    assert levels.own.success == levels.oracle.success == levels.ideal.success == 1.0
    assert levels.own.reached > 0.9 and levels.own.covered > 0.9 and codes(levels) == []
    assert levels.verdict == "No level is at fault: this policy succeeds in 100 % of 4 episodes."


def test_a_low_level_that_does_not_follow():
    levels = examine(low=courts.trembles)
    assert (levels.own.success, levels.oracle.success, levels.ideal.success) == (0.0, 0.0, 1.0)
    assert codes(levels)[0] == "low-level" and levels.own.covered < 0.3
    assert levels.verdict == "The low level is at fault: oracle waypoints over it succeed in 0 %."


def test_a_high_level_that_asks_for_the_wrong_places():
    levels = examine(high=courts.looks_away)
    assert (levels.own.success, levels.oracle.success, levels.ideal.success) == (0.0, 1.0, 0.0)
    assert codes(levels)[0] == "high-level" and "goal-space-unseen" in codes(levels)
    assert "over the same low level succeed in 100 %, its own in 0 %" in levels.verdict


def test_two_levels_at_fault():
    levels = examine(low=courts.trembles, high=courts.looks_away)
    assert codes(levels)[0] == "both-levels" and levels.verdict.startswith("Both levels are at fault")


def test_without_a_map_the_straight_line_blames_nobody():
    """The line leads into the wall. The low level follows what it is asked, so the high level is left."""
    levels = examine("Open", high=courts.wants_too_much)
    assert not levels.mapped and levels.oracle.success == 0.0 and levels.ideal is None and levels.cells is None
    assert "straight line" in str(levels) and "no method place(point)" in str(levels)
    assert codes(examine("Open", high=courts.looks_away)) == ["level-unknown"]  # it stands at a wall, and so it seems
    assert examine("Open").verdict.startswith("No level is at fault")


def test_an_ideal_low_level_does_not_walk_through_walls():
    def straight(obs, *, explore):
        return (obs[:, -2:] - obs[:, :2]) / 8

    levels = examine(high=straight, subgoal_range=(8.0, 8.0), every=8)
    assert levels.ideal.success == 0.0 and levels.ideal.covered < 0.5


def test_falls_are_what_the_task_tells():
    levels = examine("Slippery")
    assert levels.own.fell == 1.0 and levels.own.falls_per_1000 > 20 and "falls" in codes(levels)
    assert examine().own.fell is None


def test_points_that_the_task_names_are_passed_first():
    levels = examine("Gate")
    assert levels.oracle.success == 1.0 and codes(levels)[0] == "high-level"


def test_a_region_without_a_way_is_a_finding():
    levels = examine("Islands", high=courts.looks_away)
    found = next(f for f in levels.findings if f.code == "no-way")
    assert found.evidence.startswith("4 of 4 goals")


def test_subgoals_beyond_what_the_low_level_follows():
    """It has two steps of length 1 for a subgoal up to 8 away."""
    far = examine(high=courts.wants_too_much, subgoal_range=(8.0, 8.0), every=1, name="Open")
    assert far.own.success < 0.9
    assert [round(a.most - a.least, 6) for a in far.own.asked] == [round(far.own.asked[0].most, 6)] * 4
    assert sum(a.count for a in far.own.asked) == sum(round(a.share * 4 * 60) for a in far.own.asked)


def test_figures_are_counted_from_the_paths():
    agent, task = hierarchy()
    stage = Stage(agent, task, 1)
    oracle = Oracle(agent, 2, stage.envs, np.ones(2))
    (one,) = stage.play(oracle, [3], time.monotonic() + 60)
    stage.close()
    assert (
        one.success and one.ended and len(one.path) == 61 and [step for step, _ in one.asked] == list(range(0, 60, 4))
    )
    for step, target in one.asked:
        assert (np.abs(target - one.path[step]) <= 2 + 1e-5).all()  # no longer than the policy's own
        assert U.holds(np.round(target, 3)[None])[0]


def test_time_that_runs_out_is_told():
    levels = examine(seconds=1e-3)
    assert codes(levels)[-1] == "out-of-time" and levels.verdict == "No episode ended within 0.001 s."


def test_ways_lead_round_walls():
    plan = Map(U, np.array([3.0, 3.0]), 2)
    way = plan.way(np.array([1.0, 1.0]), np.array([1.0, 7.0]))
    ahead = np.stack([np.array([1.0, 1.0]), *way])
    assert plan.sees(ahead[:-1], ahead[1:]).all() and ahead[-1].tolist() == [1, 7]
    length = np.linalg.norm(np.diff(ahead, axis=0), axis=1).sum()
    assert 14 < length < 19  # round two corners at (6, 2) and (6, 6)
    assert not plan.sees(np.array([1.0, 1.0]), np.array([1.0, 7.0]))
    assert plan.waypoint(np.array([1.0, 1.0]), np.array([7.0, 1.0])).tolist() == [4, 1]
    assert within(np.zeros(2), np.array([6.0, 3.0]), np.array([3.0, 3.0])).tolist() == [3, 1.5]
    line = Region((((0.0,), (2.0,)), ((5.0,), (9.0,))))
    assert Map(line, np.array([1.0]), 1).way(np.array([0.0]), np.array([8.0])) is None
    assert Map(widened(line, np.array([1.5])), np.array([1.0]), 1).way(np.array([0.0]), np.array([8.0]))


def test_the_region_has_as_many_cells_as_it_covers():
    assert cells_in(U, np.array([4.0, 4.0])) == {
        (i, j) for i in range(3) for j in range(3) if (i, j) not in ((0, 1), (1, 1))
    }
    assert cells_of(np.array([[0.4, -0.4], [0.6, 0.0], [0.3, 0.2]]), [1.0, 1.0]) == {(0, 0), (1, 0)}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A short run that explores, with its archive in a checkpoint."""
    out = tmp_path_factory.mktemp("runs") / "court"
    small = SACConfig(hidden=(8,), learning_starts=10_000)
    cfg = HIROConfig(high=small, low=small, subgoal_range=(2.0, 2.0), every=4, explore=constant(1.0))
    train(Recipe(env="courts/Court-v0", agent=cfg, steps=600, checkpoint_every=600, eval_every=600), out)
    return out


def test_the_archive_of_a_run_counts(run, capsys):
    visited = read_visited(run, checkpoint.load_policy(run).agent)
    assert visited.visits.sum() == 150 and visited.size.tolist() == [2, 2] and visited.placed
    levels = diagnose_levels(run, episodes=2, seconds=100)
    inside = {tuple(cell) for cell in visited.cells.tolist()}
    assert levels.archived == len(inside & cells_in(U, visited.size)) > 2
    assert f"{levels.archived} in the archive of the run" in str(levels)
    assert read_visited(run / "best", checkpoint.load_policy(run).agent) is None


def test_the_report_draws_the_cells_of_the_archive(run, tmp_path):
    write([run], tmp_path / "page.html", episodes=1)
    page = (tmp_path / "page.html").read_text()
    visited = read_visited(run, checkpoint.load_policy(run).agent)
    assert f"{len(visited.cells)} cells of the archive of" in page and "150 visits" in page
    assert page.count("visits around") + page.count("1 visit around") == len(visited.cells)
    assert "subgoals (+)" in page


def test_the_command(monkeypatch, capsys, tmp_path):
    agent, task = hierarchy(high=courts.looks_away)
    monkeypatch.setattr(checkpoint, "load_policy", lambda path, trust=False: Saved(agent, task, {}))
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stop:
        main(["doctor", str(tmp_path), "--episodes", "2"])
    said = capsys.readouterr().out
    assert stop.value.code == 0 and "[high-level]" in said and max(map(len, said.splitlines()[1:])) <= 80
    assert "oracle waypoints + low level" in said and said.splitlines()[-1].endswith("s).")
    with pytest.raises(SystemExit):
        main(["doctor", str(tmp_path), "--episodes", "2", "--json"])
    body = json.loads(capsys.readouterr().out)
    assert body["warning"] == 1 and body["findings"][0]["code"] == "high-level" and body["oracle"]["success"] == 1.0
    assert body["env"] == "courts/Court-v0" and len(body["own"]["asked"]) == 4


def test_a_flat_policy_has_its_task_examined(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["doctor", "zoo/cartpole-ppo", "--seconds", "3"])
    assert stop.value.code == 0 and "CartPole-v1: " in capsys.readouterr().out
    with pytest.raises(CairnError, match="a policy of ppo, which has no levels to examine"):
        diagnose_levels("zoo/cartpole-ppo")
