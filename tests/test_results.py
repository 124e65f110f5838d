"""What the documents claim is what was recorded, and every recipe has a result or a reason."""

import json
import re
import runpy
from pathlib import Path

import pytest

from cairn import CairnError
from cairn.algorithms import build
from cairn.evidence.statistics import interquartile_mean
from cairn.evidence.table import anchors, read_results, recipes_folder, result_rows, stamped
from cairn.recipes import RECIPES
from cairn.runs.checkpoint import load_start
from cairn.vector.choose import make_vector

ROOT = Path(__file__).parent.parent
RECORDED = ROOT / "results" / "recipes"
MISSES = json.loads((RECORDED / "misses.json").read_text())


def test_every_recipe_has_met_its_target_or_says_why_not():
    silent, stale = [], []
    for name, recipe in RECIPES.items():
        figures = [r["figure"] for r in read_results(ROOT / "results", name)]
        met = bool(figures) and (recipe.target is None or interquartile_mean(figures) >= recipe.target)
        if not met and name not in MISSES:
            silent.append(name)
        if met and name in MISSES:
            stale.append(name)
    assert not silent, f"no result at the target, and no reason in results/recipes/misses.json: {silent}"
    assert not stale, f"met by now, and still among the misses: {stale}"


def test_misses_are_of_recipes_and_give_a_reason():
    assert set(MISSES) <= set(RECIPES)
    for reason in MISSES.values():
        assert set(reason) == {"en", "zh"} and all(len(text) > 10 for text in reason.values())


def test_results_are_of_recipes_as_they_are_called():
    for path in RECORDED.glob("*-s*.json"):
        record = json.loads(path.read_text())
        assert record["recipe"] in RECIPES and path.name == f"{record['recipe']}-s{record['seed']}.json"


def test_a_stage_starts_from_a_policy_of_the_zoo_that_fits_it():
    staged = [recipe for recipe in RECIPES.values() if recipe.start]
    assert staged
    for recipe in staged:
        envs = make_vector(recipe.task, 1, backend="sync")
        load_start(ROOT / "zoo" / recipe.start, build(recipe.agent, envs.spec))
        envs.close()


def test_anchors_are_of_recipes():
    assert set(anchors(ROOT / "results")) <= set(RECIPES)


def test_what_was_trained_again_is_no_worse_than_what_was_published():
    """results/recipes/again: the published command on a seed that the table does not have."""
    published = {row["recipe"]: row for row in result_rows(ROOT / "results")}
    trained = sorted((RECORDED / "again").glob("*.json"))
    assert len(trained) >= 3
    for path in trained:
        (found,) = read_results(path.parent, path.stem.rpartition("-s")[0])
        row = published[found["recipe"]]
        assert not (RECORDED / path.name).exists() and round(found["figure"], 3) >= row["low"]


REFRESH = runpy.run_path(str(ROOT / "docs" / "refresh.py"))


@pytest.mark.parametrize("name", list(REFRESH["PAGES"]))
def test_the_tables_say_what_was_recorded(name):
    text = (ROOT / name).read_text()
    assert REFRESH["refreshed"](name, text) == text, "run python docs/refresh.py"


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md", "docs/results.md", "docs/results.zh.md"])
def test_a_figure_of_a_table_edited_by_hand_is_noticed(name):
    text = (ROOT / name).read_text()
    altered = text.replace("93.2 %", "95.2 %")
    assert altered != text == REFRESH["refreshed"](name, altered)


def test_every_recipe_is_on_the_results_page_and_every_family_in_the_readme():
    page = table_of("docs/results.md", "results")
    assert set(page) == set(RECIPES)
    assert len(REFRESH["FAMILIES"]) <= 14 and set(table_of("README.md", "families")) == {
        f[0] for f in REFRESH["FAMILIES"]
    }


def test_the_tables_do_not_flatter():
    """A missed target is called missed, a score has its number of seeds, and remarks stand with the figures."""
    rows = {row["recipe"]: row for row in result_rows(ROOT / "results")}
    for name, line in table_of("README.md", "families").items():
        assert ("missed" in line) == (rows[name]["met"] == "no"), name
        assert f"{rows[name]['seeds']} seed" in line, name
    text = (ROOT / "README.md").read_text()
    assert "296.1" in text and "97.78 %" in text and all(f"`{name}`" in text for name in MISSES)
    page = (ROOT / "docs" / "results.md").read_text()
    notes = page.split("<!-- notes:begin -->")[1]
    assert "chosen by hand" in notes and "`ant-fall-hiro`: 0 %" in notes
    assert set(
        re.findall(r"^- `([\w-]+)`", page.split("<!-- misses:begin -->")[1].split("<!-- misses:end")[0], re.M)
    ) == set(MISSES)


def table_of(name: str, mark: str) -> dict[str, str]:
    """The lines of a generated table by recipe."""
    text = (ROOT / name).read_text().split(f"<!-- {mark}:begin -->")[1].split(f"<!-- {mark}:end -->")[0]
    return {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| ") and "[`" in line}


def test_a_result_altered_by_hand_is_noticed(tmp_path):
    body = {"recipe": "cartpole-ppo", "seed": 1, "figure": 499.0, "episodes": 100, "train_steps": 5}
    path = tmp_path / "cartpole-ppo-s1.json"
    path.write_text(stamped(body))
    assert read_results(tmp_path, "cartpole-ppo")[0]["figure"] == 499.0
    path.write_text(path.read_text().replace("499.0", "500.0"))
    with pytest.raises(CairnError, match="altered"):
        read_results(tmp_path, "cartpole-ppo")


def test_rows_of_results(tmp_path):
    for seed, figure in enumerate([480.0, 500.0, 500.0, 500.0]):
        body = {"recipe": "cartpole-ppo", "seed": seed, "figure": figure, "episodes": 100, "train_steps": 1000 * seed}
        (tmp_path / f"cartpole-ppo-s{seed}.json").write_text(stamped(body))
    (row,) = result_rows(tmp_path)
    assert row["iqm"] == 500 and row["worst"] == 480 and row["low"] < 500 and row["met"] == "yes"
    assert row["steps"] == 1500 and row["settings"] == "unrecorded"


def recorded(found: object) -> set[tuple[float, float]]:
    """Every (mean, deviation) that a file of results holds."""
    if isinstance(found, dict):
        here = {(found["mean"], found["std"])} if {"mean", "std"} <= set(found) else set()
        return here.union(*map(recorded, found.values()))
    return set().union(*map(recorded, found)) if isinstance(found, list) else set()


def test_a_figure_with_its_deviation_is_one_that_was_recorded():
    """What documents quote as `mean ± deviation` is in a file of results, to the digits quoted."""
    held = set().union(*(recorded(json.loads(path.read_text())) for path in (ROOT / "results").rglob("*.json")))
    unheld = []
    for path in [ROOT / "README.md", ROOT / "README.zh-CN.md", *(ROOT / "docs").rglob("*.md")]:
        for quoted in re.finditer(r"(-?[\d,]+(?:\.\d+)?) ± ([\d,]+(?:\.\d+)?)", path.read_text()):
            mean, std = (float(number.replace(",", "")) for number in quoted.groups())
            digits = len(quoted.group(1).partition(".")[2])
            if not any((round(m, digits), round(s, digits)) == (mean, std) for m, s in held):
                unheld.append(f"{path.name}: {quoted.group()}")
    assert not unheld, f"no file in results/ holds {unheld}"


def test_fewer_than_five_seeds_have_a_range_and_no_interval(tmp_path):
    for count in (4, 5):
        for seed in range(count):
            body = {"recipe": "cartpole-ppo", "seed": seed, "figure": 500.0 - 10 * seed, "episodes": 100}
            (tmp_path / f"cartpole-ppo-s{seed}.json").write_text(stamped({**body, "train_steps": 1000}))
        (row,) = result_rows(tmp_path)
        assert row["spread"] == ("range" if count == 4 else "95 % interval")
        assert (row["low"], row["high"]) == (470, 500) or count == 5
    for name in ("docs/results.md", "docs/results.zh.md"):
        rows = {recipe: line.split(" | ")[6] for recipe, line in table_of(name, "results").items()}
        assert "[" not in rows["bipedal-ppo"] and "[" in rows["cartpole-ppo"] and rows["bipedal-sac"] == "-"


def test_the_last_score_and_all_steps_are_recorded_beside_the_kept_ones(tmp_path):
    from cairn.evidence.table import last_evaluation, last_scores

    (tmp_path / "metrics.csv").write_text(
        "step,seconds,name,value\n500,1,eval/mean_reward,480\n1000,2,eval/mean_reward,300\n1200,3,train/loss,1\n"
    )
    last = last_evaluation(tmp_path, RECIPES["cartpole-ppo"])
    assert last is not None and (last["figure"], last["step"], last["total_steps"]) == (300.0, 1000, 1200)
    assert last_evaluation(tmp_path / "none", RECIPES["cartpole-ppo"]) is None
    records = [{"recipe": "cartpole-ppo", "seed": seed, "last": told} for seed, told in ((1, last), (2, None))]
    assert last_scores(tmp_path, records) == [(300.0, 1200), None]


def test_notes_are_of_recipes_and_in_both_languages():
    from cairn.evidence.table import notes

    found = notes(ROOT / "results")
    assert set(found) <= set(RECIPES) and all(set(one) == {"en", "zh"} for one in found.values())
    assert {"bipedal-hardcore", "ant-fall-hiro", "fetch-push-her"} <= set(found)


@pytest.mark.parametrize(
    "change",
    [
        {"figure": "9"},
        {"figure": float("nan")},
        {"episodes": [1]},
        {"train_steps": None},
        {"config": ["a"]},
        {"last": {}, "recipe": []},
    ],
)
def test_a_result_of_other_types_is_no_result(tmp_path, change):
    body = {"recipe": "cartpole-ppo", "figure": 1.0, "seed": 1, "episodes": 9, "train_steps": 9, **change}
    (tmp_path / "cartpole-ppo-s1.json").write_text(stamped(body))
    with pytest.raises(CairnError, match="is not a recorded result"):
        result_rows(tmp_path)


def test_a_folder_of_results_keeps_those_of_recipes_in_recipes_or_in_itself(tmp_path):
    """A checkout has results/recipes; a user's `--record results` may be any plain folder."""
    assert recipes_folder(tmp_path) == tmp_path
    (tmp_path / "recipes").mkdir()
    assert recipes_folder(tmp_path) == tmp_path / "recipes"
    assert read_results(ROOT / "results", "cartpole-ppo") == read_results(RECORDED, "cartpole-ppo") != []


def test_a_study_keeps_the_runs_of_other_seeds(tmp_path, monkeypatch):
    """It compared its settings with those in the file, where a tuple is a list, and dropped earlier seeds."""
    from benchmarks.studies import masks_and_memory, packages

    monkeypatch.setattr(masks_and_memory, "version", lambda name: "1")
    monkeypatch.setattr(packages, "versions", lambda python, names: {})
    for seed in (101, 102, 101):
        for name in ("taxi", "cartpole-positions"):
            masks_and_memory.record(name, [{"seed": seed, "side": "cairn"}], tmp_path / "masks.json")
        packages.record("minigrid-empty", {"seed": seed}, "python", tmp_path / "packages.json")
    for file in ("masks", "packages"):
        for entry in json.loads((tmp_path / f"{file}.json").read_text()):
            assert [run["seed"] for run in entry["runs"]] == [101, 102]
