"""The page of some runs: what it shows, that nothing in a run folder can become markup, and what bad input leaves."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest

from cairn.core.errors import CairnError
from cairn.core.types import Episode
from cairn.evidence.table import stamped
from cairn.recipes import find
from cairn.report import svg
from cairn.report.bands import band
from cairn.report.gather import gather
from cairn.report.markup import Html, el, join, text
from cairn.report.page import page, write
from cairn.report.plan import Trace
from cairn.report.style import CSS, DARK, LIGHT
from cairn.runs.checkpoint import save_policy
from cairn.runs.curves import Point
from tests.report.folders import film, remark, write_run
from tests.report.test_plan import TASK, hierarchy

EVIL = '<script>alert(1)</script><img src=x onerror=alert(1)>"\' onmouseover="alert(1)'


class Seen(HTMLParser):
    """Tags, attributes and text as a browser would find them; open tags must be closed."""

    def __init__(self, source):
        super().__init__()
        self.tags, self.words, self.open = [], [], []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.words.append(data)

    def all(self, tag, **attrs):
        wanted = {k.rstrip("_"): v for k, v in attrs.items()}
        return [a for t, a in self.tags if t == tag and wanted.items() <= a.items()]

    @property
    def said(self):
        return " ".join(" ".join(self.words).split())


def seen(*paths, **options):
    return Seen(page(gather(paths, **options)))


@pytest.fixture
def runs(tmp_path):
    agent = replace(find("cartpole-ppo").agent, gamma=0.9)
    made = [write_run(tmp_path / f"s{k}", [100 * k, 300, 500, 500, 500, 500], seed=k) for k in (1, 2, 3)]
    return [*made, write_run(tmp_path / "other", [50, 60, 70], seed=1, agent=agent)]


def test_the_page_shows_curves_tables_differences_and_what_is_missing(runs):
    found = seen(*runs)
    charts = found.all("svg", role="img")
    assert [c["aria-label"].split(".")[0] for c in charts][:2] == [
        "CartPole-v1: mean return in evaluations",
        "CartPole-v1: mean return in training",
    ]
    assert "cartpole-ppo (agent.gamma 0.9): 70 at step 3,000" in charts[0]["aria-label"]
    bands = found.all("path", class_="band c0")
    assert len(bands) == 3 and not found.all("path", class_="band c1")  # three charts; one seed has no band
    assert "The target of 500 was reached by 3 of 3. Best evaluations: 500, 500, 500." in found.said
    assert "3 seeds together, by their last evaluations: interquartile mean 500" in found.said
    assert "agent.gamma 0.98 0.9" in found.said and "this run agent.gamma 0.98 0.9" in found.said
    assert "no watcher spoke" in found.said
    assert f"cairn watch {runs[0]} --out {runs[0] / 'video.mp4'}" in found.said
    assert "What could not be read" not in found.said


def test_the_curve_is_where_its_numbers_are():
    lines = [[Point(0, 0, 0.0), Point(100, 1, 1.0)]]
    drawn = Seen(svg.chart([svg.Series("a", 0, band(lines, [False]), lines)], title="t", told="w", share=True))
    [line] = [a["d"] for t, a in drawn.tags if t == "path"]
    assert line == f"M{svg.LEFT}.0 {svg.HEIGHT - svg.BOTTOM}.0L{svg.WIDTH - svg.RIGHT}.0 {svg.TOP}.0"
    assert "a: 100 % at step 100" in drawn.said


def test_accessibility_basics(runs):
    remark(runs[0])
    (runs[0] / "plan.svg").write_text("<svg/>")
    found = seen(*runs)
    assert found.all("html", lang="en") and found.all("main") and found.all("nav", **{"aria-label": "Sections"})
    levels = [int(t[1]) for t, _ in found.tags if re.fullmatch("h[1-6]", t)]
    assert levels[0] == 1 and levels.count(1) == 1 and all(b - a <= 1 for a, b in pairwise(levels))
    assert all(a.get("scope") in ("col", "row") for a in found.all("th"))
    assert len(found.all("caption")) == len(found.all("table"))
    assert all(a.get("aria-label") for a in found.all("svg", role="img")) and all(a["alt"] for a in found.all("img"))
    regions = found.all("div", class_="scroll")
    assert regions and all(a["tabindex"] == "0" and a["aria-label"] for a in regions)  # wide tables scroll by keyboard
    ids = [a["id"] for _, a in found.tags if "id" in a]
    assert len(ids) == len(set(ids)) and all(a["href"][1:] in ids for a in found.all("a"))


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_contrasts(colours):
    def bright(colour):
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    def contrast(a, b):
        low, high = sorted([bright(colours[a]), bright(colours[b])])
        return (high + 0.05) / (low + 0.05)

    for ground in ("paper", "card"):
        assert min(contrast(name, ground) for name in ("ink", "faint", "link", "alarm")) >= 4.5
        assert min(contrast(f"c{k}", ground) for k in range(8)) >= 3
    assert min(contrast(f"c{k}", "floor") for k in range(8)) >= 3
    assert "prefers-color-scheme:dark" in CSS


def test_nothing_comes_from_outside_and_nothing_runs(runs):
    source = page(gather(runs))
    found = Seen(source)
    assert not found.all("script") and "http://" not in source and "https://" not in source and "@import" not in source
    [policy] = found.all("meta", **{"http-equiv": "Content-Security-Policy"})
    assert policy["content"].startswith("default-src 'none'") and "script" not in policy["content"]
    assert found.all("meta", name="viewport")


def test_hostile_names_stay_text(tmp_path):
    folder = tmp_path / '<svg onload=alert(1)>&"'
    agent = {"kind": EVIL, EVIL: EVIL, "lr": {"deep": EVIL}}
    run = write_run(folder, [1, 2], config={"name": EVIL, "env": EVIL, "seed": EVIL, "agent": agent, "about": EVIL})
    with open(run / "metrics.csv", "a") as file:
        file.write(f"1000,1,{EVIL.replace(',', '')},3\n")
    remark(run, code=EVIL, severity=EVIL, what=EVIL, evidence=EVIL, remedy=EVIL, more=EVIL)
    (run / "plan.svg").write_text(EVIL)
    (run / f"{EVIL.replace('/', '')}.svg").write_text("<svg/>")
    (run / "score.json").write_text(json.dumps({"mean": 1, "success": None, "episodes": EVIL, "env": EVIL}))
    other = write_run(tmp_path / "other", [1], config={"name": EVIL, "env": EVIL, "device": EVIL})
    found = seen(run, other, tmp_path / EVIL)
    assert "script" not in {tag for tag, _ in found.tags}
    assert not [a for _, attrs in found.tags for a in attrs if a.startswith("on")]
    assert {a["src"][:5] for a in found.all("img")} == {"data:"} and not found.all("a", href="x")
    assert found.said.count(EVIL) > 10 and "there is no run folder" in found.said


def test_text_that_no_page_can_hold(tmp_path):
    assert text("a\x00b\ud800c") == "a�b�c" and text("汉字 é\tx") == "汉字 é\tx"
    run = write_run(tmp_path / "a", [1], config={"name": "\udcff\x1b[31m"})
    assert page(gather([run])).encode()
    broken = write_run(tmp_path / "b", [1], config={"\x1b[31m\nred": 1})
    [fault] = gather([broken]).faults
    assert fault.isprintable() and "has no field" in fault


def test_markup_escapes_all_that_is_not_markup():
    assert el("p", "<b>", Html("<i></i>"), None, ["&", 3]) == "<p>&lt;b&gt;<i></i>&amp;3</p>"
    assert (
        el("a", href='"><x', class_="c", hidden=True, title=None) == '<a href="&quot;&gt;&lt;x" class="c" hidden></a>'
    )
    assert el("img", aria_label="'") == '<img aria-label="&#x27;"/>' and join(("a", Html("<b/>"))) == "a<b/>"


def test_watchers_are_quoted_with_what_to_do(runs):
    remark(runs[1])
    said = seen(*runs).said
    assert f"warning: Most units are dead. units-dead where {runs[1]}, step 2,000 measured 80%" in said
    assert "remedy Start anew with a lower agent.lr." in said


def test_a_success_is_written_in_per_cent(tmp_path):
    run = write_run(tmp_path / "a", [-20, -3], recipe="fetch-reach-her")
    with open(run / "metrics.csv", "a") as file:
        file.write("1000,1,eval/success_rate,0.25\n2000,2,eval/success_rate,1\n")
    (run / "score.json").write_text(json.dumps({"mean": -2, "success": 0.99, "episodes": 100}))
    said = seen(run).said
    assert "FetchReach-v4: success in evaluations" in said and "Best evaluations: 100 %." in said
    assert "99 % (100)" in said and "FetchReach-v4: eval/mean_reward" in said


def test_tasks_do_not_share_axes(tmp_path):
    a, b = write_run(tmp_path / "a", [1, 2]), write_run(tmp_path / "b", [-900, -200], recipe="sac-pendulum")
    titles = [c["aria-label"] for c in seen(a, b).all("svg", role="img")]
    assert any(t.startswith("CartPole-v1: mean return in e") for t in titles)
    assert any(t.startswith("Pendulum-v1: mean return in e") for t in titles)


def test_recorded_results_stand_beside_and_an_altered_file_is_one_sentence(runs, tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    body = {"recipe": "cartpole-ppo", "seed": 4, "metric": "return", "figure": 497.5, "target": 500, "episodes": 100}
    path = results / "cartpole-ppo-s4.json"
    path.write_text(stamped(body))
    found = seen(*runs, results=results)
    assert "cartpole-ppo 4 497.5 500 100 - -" in found.said
    path.write_text(stamped(body).replace("497.5", "500.0"))
    found = seen(*runs, results=results)
    assert "cartpole-ppo-s4.json was altered" in found.said and "500.0 500 100" not in found.said
    path.write_text('{"figure": "a lot"}')
    found = seen(*runs, results=results)
    assert "cartpole-ppo-s4.json is not a recorded result." in found.said and found.all("path", class_="band c0")


def test_the_film_is_in_the_page(runs):
    pytest.importorskip("imageio_ffmpeg")
    film(runs[0] / "video.mp4")
    found = seen(*runs)
    [video] = found.all("video")
    assert video["src"].startswith("data:video/mp4;base64,") and "controls" in video and video["aria-label"]
    assert f"No film in {runs[1]}, {runs[2]}, {runs[3]}:" in found.said
    (runs[0] / "video.mp4").write_bytes(b"half")
    found = seen(*runs)
    assert "video.mp4 is cut short" in found.said and not found.all("video") and found.all("path", class_="band c0")


# -- from above


def test_the_subgoals_of_a_hierarchy_are_drawn(tmp_path):
    run = write_run(tmp_path / "a", [1, 2], config={"name": "yard", "env": TASK.id})
    save_policy(run / "best", hierarchy(), TASK, {})
    found = seen(run, episodes=2)
    [picture] = found.all("svg", class_="above")
    assert "Episode 2: 12 steps" in picture["aria-label"] and "3 subgoals" in picture["aria-label"]
    assert len(found.all("polygon")) == 2 and len(found.all("rect", class_="floor")) == 1
    assert not seen(run).all("svg", class_="above")  # 0 episodes play nothing
    (run / "best" / "policy.safetensors").write_bytes(b"altered")
    found = seen(run, episodes=2)
    assert "policy.safetensors is damaged" in found.said and found.all("svg", class_="chart")


def test_a_task_that_fails_is_one_sentence(tmp_path, monkeypatch):
    run = write_run(tmp_path / "a", [1, 2])
    save_policy(run / "best", hierarchy(), replace(TASK, id="nowhere:Yard-v0"), {})
    assert (
        f"{run} was not played, so it has no picture from above: {run}/best/policy.json names"
        in seen(run, episodes=1).said
    )
    save_policy(run / "best", hierarchy(), TASK, {})
    monkeypatch.setattr("cairn.report.gather.play_all", lambda *a, **k: 1 / 0)
    assert "could not be played for its picture: ZeroDivisionError" in seen(run, episodes=1).said


def test_a_path_that_never_moved_is_a_picture_all_the_same():
    still = Trace(np.zeros((3, 2)), np.zeros((0, 2)), None, Episode(0, 0.0, 2, None))
    assert "nan" not in svg.above([still], None, title="t", told="w")


# -- numbers


def test_ticks_are_round_and_inside():
    assert svg.ticks(0, 100) == [0, 20, 40, 60, 80, 100]
    assert svg.ticks(-160.7, -149) == [-160, -155, -150]
    assert svg.ticks(3, 3) == [3] and all(0 <= t <= 0.003 for t in svg.ticks(0, 0.003))


def test_no_two_of_many_groups_look_the_same():
    assert len({tuple(svg.style(k).values()) for k in range(32)}) == 32


def test_long_curves_are_thinned_with_both_ends():
    kept = svg.thinned(100_000)
    assert len(kept) <= svg.POINTS and (kept[0], kept[-1]) == (0, 99_999)
    assert svg.thinned(3) == [0, 1, 2]


def test_one_point_and_equal_points_are_drawn(tmp_path):
    assert "nan" not in page(gather([write_run(tmp_path / "a", [7])])).replace("nano", "")
    assert seen(write_run(tmp_path / "b", [0, 0, 0], target=None)).all("path", class_="line c0")


# -- writing


def test_bad_runs_leave_the_rest_of_the_page(runs, tmp_path):
    (tmp_path / "empty").mkdir()
    report = write([*runs, tmp_path / "empty", tmp_path / "nowhere"], tmp_path / "deep" / "page.html", episodes=0)
    assert len(report.runs) == 4 and len(report.faults) == 2
    found = Seen((tmp_path / "deep" / "page.html").read_text())
    assert "empty holds no run" in found.said and found.all("path", class_="band c0")


def test_many_faults_are_folded_and_a_title_ends(tmp_path):
    runs = [write_run(tmp_path / f"r{k}", [1], name=f"name-{k}") for k in range(6)]
    found = seen(*runs, *(tmp_path / f"none-{k}" for k in range(20)))
    assert found.said.count("there is no run folder") == 20 and "12 more there is no" in found.said
    assert found.said.startswith("Cairn: name-0, name-1, name-2, name-3 and 2 more")


def test_nothing_to_show_is_an_error_and_leaves_no_page(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(CairnError, match="holds no run"):
        write([tmp_path / "empty"], tmp_path / "page.html", episodes=0)
    assert not (tmp_path / "page.html").exists()


def test_a_page_that_cannot_be_written_is_one_sentence(runs, tmp_path):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file" / "page.html", tmp_path / "s1"):  # a folder of a file; a folder
        with pytest.raises(CairnError, match="could not be written: "):
            write(runs, out, episodes=0)
    assert not list(tmp_path.glob(".*tmp"))
