"""The pictures of the guide show what the code and the results are now: films, curves, terminals, the packages."""

import ast
import html
import importlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.test_layering import LAYERS, SRC, imports, module_of

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "img"


@pytest.fixture
def script(monkeypatch):
    """A script of docs/ as a module."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    return importlib.import_module


# -- films


def test_films_show_the_policies_of_the_zoo_as_they_are(script):
    pytest.importorskip("PIL")
    pictures = script("pictures")
    drawn = {str(path.relative_to(IMAGES)) for path in [*IMAGES.glob("films/*"), *IMAGES.glob("*.gif")]}
    assert drawn == set(pictures.FILMS)
    for name, film in pictures.FILMS.items():
        assert pictures.read_shown(IMAGES / name) == pictures.shown(film), (
            f"draw it again: docs/pictures.py films {name}"
        )
    assert len({tile.policy for film in pictures.FILMS.values() for tile in film.tiles}) > 12


def test_a_film_of_another_policy_is_seen(script, monkeypatch):
    pytest.importorskip("PIL")
    pictures = script("pictures")
    monkeypatch.setattr(pictures, "checksum", lambda policy: "another")
    assert pictures.read_shown(IMAGES / "tasks.gif") != pictures.shown(pictures.FILMS["tasks.gif"])


def test_the_frames_of_a_film_are_those_that_its_policies_play(script):
    """CartPole in the film of the basics, drawn again."""
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("pygame")
    pictures = script("pictures")
    film = pictures.FILMS["films/basics.webp"]
    frames = pictures.moments(film.tiles[0], film.moments)
    with image.open(IMAGES / "films" / "basics.webp") as kept:
        for k in (0, film.moments - 1):
            kept.seek(k)
            shown = np.asarray(kept.convert("RGB"), float)[:, : film.width]
            assert np.abs(shown - np.asarray(pictures.framed(frames[k], film.tiles[0], film), float)).mean() < 3


def test_the_pictures_are_small_and_shown_somewhere():
    pictures = [path for path in IMAGES.rglob("*.*") if path.is_file()]
    assert sum(path.stat().st_size for path in pictures) <= 6_000_000
    pages = "".join(p.read_text() for p in [*ROOT.glob("README*.md"), *(ROOT / "docs").rglob("*.md")])
    drawn = {f"img/{path.relative_to(IMAGES)}" for path in pictures if path.parent.name != "frames"}
    assert not [path for path in drawn if path not in pages]


# -- curves


def test_the_curves_are_those_of_the_results(script):
    curves = script("curves")
    kept = curves.PICTURE.read_text()
    assert kept == curves.picture(), "draw it again: python docs/curves.py"
    assert kept.count("<polygon") + kept.count('class="line c0"') == 12
    stored = curves.stored()
    name, seeds = next((name, seeds) for name, seeds in stored.items() if len(seeds) == 5)
    panel = curves.panels(stored, [name])
    assert panel.count('class="seed c0"') == 5  # every seed has a line
    seeds["1"][-1][2] += 50
    assert curves.panels(stored, [name]) != panel


def test_the_guide_draws_the_curve_of_every_recipe_whose_runs_were_kept(script):
    pytest.importorskip("mkdocs")
    pytest.importorskip("latex2mathml")
    hooks = script("hooks")
    for name, seeds in json.loads((ROOT / "results" / "recipes" / "curves.json").read_text()).items():
        drawn = hooks.curve(name, "en")
        assert drawn.count('class="seed c0"') == (len(seeds) if len(seeds) > 1 else 0)
        assert f"seeds {', '.join(sorted(seeds, key=int))}" in drawn
    assert hooks.curve("her-goals", "en") == ""


# -- terminals


def lines_of(name):
    text = (IMAGES / "terminal" / f"{name}.svg").read_text()
    return [html.unescape(line) for line in re.findall(r"<text [^>]*>(.*?)</text>", text)]


def words(text):
    return re.sub(r"[\d.,]+", "0", text)


def numbers(lines):
    return [float(found) for line in lines for found in re.findall(r"-?\d+(?:\.\d+)?", re.sub(r"\(\d+ s\)", "", line))]


@pytest.mark.parametrize(("name", "needs"), [("list", []), ("eval", ["Box2D", "gymnasium_robotics"]), ("doctor", [])])
def test_a_picture_of_the_terminal_is_what_the_commands_print(script, name, needs):
    """Figures may differ a little: processors round differently."""
    for package in needs:
        pytest.importorskip(package)
    shown, now = lines_of(name), script("terminal").scene(name)
    assert max(map(len, shown)) <= 80 and shown[0].startswith("$ cairn ")
    assert list(map(words, shown)) == list(map(words, now))
    assert numbers(shown) == pytest.approx(numbers(now), rel=0.02, abs=0.5)


def test_the_picture_of_a_training_has_the_words_of_a_training(script, tmp_path):
    """A shorter training: numbers differ, words do not."""
    command, live, *end = lines_of("train")
    said = script("terminal").run("cairn train cartpole-ppo --seed 2 --steps 12000", tmp_path).split("\n")
    assert command == "$ cairn train cartpole-ppo --seed 2" and max(map(len, [live, *end])) <= 80
    assert words(said[0]) == words(live)
    assert words(" ".join(said[1:])).split("target")[0].split() == words(" ".join(end)).split("target")[0].split()
    assert end[-1].startswith("target 500: holds")


def test_what_a_terminal_shows_in_the_end(script):
    terminal = script("terminal")
    assert terminal.on_screen("\r\x1b[2Kone\r\x1b[2Ktwo\r\nthree\r\n") == "two\nthree"
    assert 'xml:space="preserve"' in terminal.picture(["$ a  b", ""], "a")


# -- the packages


def test_the_picture_of_the_packages_is_drawn_from_the_source(script):
    diagram = script("diagram")
    assert diagram.ranks() == list(LAYERS)
    found = diagram.imports()
    for name in found:
        told = {
            module_of(module, what).split(".")[1]
            for path in (SRC / name).rglob("*.py")
            for module, what in imports(ast.parse(path.read_text()))
            if module.startswith("cairn.") or (module == "cairn" and what in found)
        }
        assert found[name] == told - {name}, name
    drawn = diagram.packages("{} files, {:,} lines", "imports")
    named = re.findall(r'class="name">(\w+)<', drawn)
    assert sorted(named) == sorted(name for row in LAYERS for name in row)
    rank = {name: k for k, row in enumerate(LAYERS) for name in row}
    arrows = [(a, b) for a, others in diagram.reduced(found).items() if a in rank for b in others]
    assert drawn.count('class="arrow"') == len(arrows) > len(rank) and all(rank[a] > rank[b] for a, b in arrows)


def test_a_new_import_changes_the_picture(script, tmp_path):
    diagram = script("diagram")
    for name, line in {"core": "", "nets": "from cairn.core import types", "envs": "import cairn.core.types"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"def f():\n    {line or 'pass'}\n")
    assert diagram.imports(tmp_path) == {"core": set(), "envs": {"core"}, "nets": {"core"}}
    (tmp_path / "envs" / "more.py").write_text("from cairn import nets\n")
    assert diagram.reduced(diagram.imports(tmp_path)) == {"core": set(), "envs": {"nets"}, "nets": {"core"}}


def test_arrows_are_kept_clear_of_boxes(script):
    diagram = script("diagram")
    rows, graph = diagram.ranks(), diagram.imports()
    graph = diagram.reduced({name: graph[name] for row in rows for name in row})
    arrows = [(a, b) for a in graph for b in graph[a]]
    spots = diagram.arranged(rows, graph)
    ends = [(diagram.leaving(spots[a]), diagram.arriving(spots[b]), {a, b}) for a, b in arrows]
    assert not [1 for start, end, own in ends for c in spots if c not in own and diagram.passes(start, end, spots[c])]
