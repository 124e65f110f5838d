"""The English and the Chinese pages have the same headings, commands, links and figures, and the READMEs stay short."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
READMES = ROOT / "README.md", ROOT / "README.zh-CN.md"
RESULTS = ROOT / "docs" / "results.md", ROOT / "docs" / "results.zh.md"
TRANSLATED = [(page.with_name(page.name.replace(".zh.md", ".md")), page) for page in (ROOT / "docs").rglob("*.zh.md")]
FENCE = re.compile(r"^```(.*?)\n(.*?)^```", re.M | re.S)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)]+)\)")
# A number that is no part of a name such as SB3, TD3 or Pong-v5.
FIGURE = re.compile(r"(?<![A-Za-z0-9_.,-])-?\d+(?:,\d{3})*(?:\.\d+)?")


def headings(text: str) -> list[int]:
    return [len(found) for found in re.findall(r"^(#+) ", FENCE.sub("", text), re.M)]


def code(text: str) -> list[tuple[str, list[str]]]:
    """The code blocks without their comments, which are translated."""
    found = []
    for kind, body in FENCE.findall(text):
        lines = (re.sub(r"(^|\s+)# .*", "", line).rstrip() for line in body.splitlines())
        found.append((kind, [line for line in lines if line]))
    return found


def links(text: str) -> list[str]:
    """Link targets, each as its English page."""
    targets = (re.sub(r"\.zh(-CN)?\.md", ".md", target) for target in LINK.findall(FENCE.sub("", text)))
    return sorted(targets)


def figures(text: str) -> list[str]:
    """Numbers in prose and tables; those in code and in links are compared as such."""
    return sorted(FIGURE.findall(re.sub(r"`[^`]*`", "", LINK.sub("", FENCE.sub("", text)))))


@pytest.mark.parametrize("pair", [READMES, RESULTS], ids=["README", "results"])
def test_both_languages_say_the_same(pair):
    english, chinese = (page.read_text() for page in pair)
    assert headings(english) == headings(chinese)
    assert code(english) == code(chinese)
    assert links(english) == links(chinese)
    assert figures(english) == figures(chinese) and len(figures(english)) > 40


@pytest.mark.parametrize("pair", TRANSLATED, ids=lambda pair: str(pair[0].relative_to(ROOT / "docs")))
def test_translated_pages_have_the_same_headings_and_commands(pair):
    english, chinese = (page.read_text() for page in pair)
    assert headings(english) == headings(chinese)
    assert code(english) == code(chinese)


def test_a_difference_between_languages_is_seen():
    page = "# Title\n\nScore 93.2 % (3 seeds, -160 to -154), [page](a.md).\n\n```\ncairn list  # words\n```\n"
    other = "# 题\n\n得分 93.2 %（3 个种子，-160 至 -154），[页](a.zh.md)。\n\n```\ncairn list  # 字\n```\n"
    parts = (headings, code, links, figures)
    assert [part(page) for part in parts] == [part(other) for part in parts]
    for was, now in (("93.2", "95.2"), ("-160", "160"), ("a.zh", "b.zh"), ("list", "eval"), ("# 题", "## 题")):
        changed = other.replace(was, now)
        assert [part(page) for part in parts] != [part(changed) for part in parts], was


@pytest.mark.parametrize("page", READMES, ids=lambda page: page.name)
def test_readmes_are_short_and_their_links_lead_somewhere(page):
    text = page.read_text()
    assert len(text.splitlines()) <= 140 and len(text.split()) <= 1300
    targets = {target.partition("#")[0] for target in LINK.findall(text)}
    assert not [target for target in targets if not (ROOT / target).exists()]
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text)
    assert pictures and sum((ROOT / picture).stat().st_size for picture in pictures) <= 2_000_000


def test_the_python_of_the_readme_prints_what_the_readme_says(tmp_path):
    blocks = FENCE.findall(READMES[0].read_text())
    (at,) = [k for k, (kind, _) in enumerate(blocks) if kind == "python"]
    script, printed = blocks[at][1], blocks[at + 1][1]
    assert len([line for line in script.splitlines() if line]) <= 12
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
