"""The guide builds without a warning, in both languages, and asks nothing of the network."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from cairn.cli.main import COMMANDS
from cairn.recipes import RECIPES

ROOT = Path(__file__).parent.parent
LOADS = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "video": "src",
    "audio": "src",
    "source": "src",
    "object": "data",
}
NOT_LOADED = {"canonical", "alternate", "next", "prev", "license"}  # of <link>: told, not fetched


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built once. A proxy where nobody listens stands for the network: who asks for it fails."""
    pytest.importorskip("mkdocs")
    out = tmp_path_factory.mktemp("site")
    nowhere = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")}
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)],
        cwd=ROOT,
        env={**os.environ, **nowhere, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "WARNING" not in said and "ERROR" not in said, said
    return out


class Requests(HTMLParser):
    """What a browser would fetch for a page."""

    def __init__(self):
        super().__init__()
        self.found, self.style = [], False

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.style = tag == "style"
        if tag in LOADS:
            self.found += [
                given.get(LOADS[tag]),
                *(part.split()[0] for part in (given.get("srcset") or "").split(",") if part),
            ]
        elif tag == "link" and not NOT_LOADED & set((given.get("rel") or "").split()):
            self.found.append(given.get("href"))
        self.found += re.findall(r"url\(([^)]*)\)", given.get("style") or "")

    def handle_data(self, data):
        if self.style:
            self.found += re.findall(r"url\(([^)]*)\)|@import\s+([^;]*)", data)


def outside(address):
    return address is not None and re.match(r"""["']?\s*(https?:)?//""", "".join(address)) is not None


def test_both_languages_have_every_page(site):
    english = {
        p.relative_to(site) for p in site.rglob("*.html") if p.relative_to(site).parts[0] not in ("zh", "404.html")
    }
    chinese = {p.relative_to(site / "zh") for p in (site / "zh").rglob("*.html")}
    assert english - chinese == set() and len(english) > 20
    assert (
        'lang="zh"' in (site / "zh" / "index.html").read_text()
        and "强化学习" in (site / "zh" / "index.html").read_text()
    )


class Links(HTMLParser):
    """Where a page links to, and the anchors that it has."""

    def __init__(self):
        super().__init__()
        self.links, self.anchors = set(), set()

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.add(given["href"])


def test_no_link_inside_the_site_is_dead(site):
    pages = {path: Links() for path in site.rglob("*.html") if path.name != "404.html"}
    for path, page in pages.items():
        page.feed(path.read_text())
    dead, checked = [], 0
    for path, page in pages.items():
        for link in page.links:
            place, _, anchor = unquote(link).partition("#")
            if re.match(r"[a-z]+:|//", place):
                continue
            target, checked = (path.parent / place).resolve() if place else path, checked + 1
            target = target / "index.html" if target.is_dir() else target
            there = target.exists() and (not anchor or target not in pages or anchor in pages[target].anchors)
            dead += [] if there else [f"{path.relative_to(site)}: {link}"]
    assert not dead and checked > 1000


def test_no_page_loads_anything_from_outside(site):
    for page in site.rglob("*.html"):
        reader = Requests()
        reader.feed(page.read_text())
        assert not [a for a in reader.found if outside(a)], page
    for sheet in site.rglob("*.css"):
        found = re.findall(r"url\(([^)]*)\)|@import\s+([^;]*)", sheet.read_text())
        assert not [a for a in found if outside(a)], sheet


def test_marks_and_equations_were_put_into_words(site):
    """Nothing is left of what docs/hooks.py replaces: no mark, no TeX."""
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert not re.search(r"<!-- (code|recipe|figures|book|packages|table|file|test)( -->|: )", text), page
        assert 'class="arithmatex"' not in text, page
        assert not re.search(r"<m[a-z]+[^>]*>[^<]*\\[A-Za-z]", text), page


def test_commands_that_are_shown_exist():
    """The command, the recipe it names and the entry of the zoo; FILE, NAME and the like stand for anything."""
    unknown = []
    for page in [ROOT / "README.md", ROOT / "README.zh-CN.md", *(ROOT / "docs").rglob("*.md")]:
        for line in re.findall(r"^cairn [a-z].*$|`cairn [a-z][^`]*`", page.read_text(), re.M):
            words = line.strip("`").split()
            named = words[2] if words[1] in ("train", "sweep", "tune") and len(words) > 2 else "NAME"
            run = named.startswith("runs/") and "--resume" in words
            free = run or named.isupper() or named.startswith(("-", "#")) or named.endswith(".json")
            entries = re.findall(r"zoo/([a-z][\w-]*)", line)
            if words[1] not in COMMANDS or not (free or named in RECIPES):
                unknown.append(f"{page.name}: {line}")
            unknown += [f"{page.name}: {line}" for entry in entries if not (ROOT / "zoo" / entry).exists()]
    assert not unknown


def test_what_a_page_loads_is_seen():
    reader = Requests()
    reader.feed('<img src="a.png"><script src="https://b/c.js"></script><link rel="stylesheet" href="//d/e.css">')
    reader.feed(
        '<a href="https://f">g</a><link rel="alternate" href="https://h"><style>p{background:url(http://i)}</style>'
    )
    assert [bool(outside(a)) for a in reader.found] == [False, True, True, True]


def test_the_readme_of_the_benchmarks_has_a_line_for_every_script():
    listed = (ROOT / "benchmarks" / "README.md").read_text()
    for kind in ("speed", "studies", "checks"):
        files = [path for path in (ROOT / "benchmarks" / kind).glob("*.py") if path.stem != "__init__"]
        assert len(files) > 5
        for path in files:
            script = "__main__" in path.read_text() and path.stem != "child"  # which the others start
            assert (f"python -m benchmarks.{kind}.{path.stem}" if script else f"`{path.stem}`") in listed, path
