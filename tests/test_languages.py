"""The English and the Chinese pages have the same headings, commands, links and figures, and the READMEs stay short."""

import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
READMES = ROOT / "README.md", ROOT / "README.zh-CN.md"
DOCS = ROOT / "docs"
TRANSLATED = [(page.with_name(page.name.replace(".zh.md", ".md")), page) for page in sorted(DOCS.rglob("*.zh.md"))]
ENGLISH_ONLY = {
    "design.md": "for those who change the code; it changes with the code",
    "speed.md": "tables and remarks on measurements that a command writes",
    "reference/agents.md": "made of docstrings",
    "reference/parts.md": "made of docstrings",
    "reference/python.md": "made of docstrings",
}
TERM = re.compile(r"^\| (?!---|term \||术语 \|)(.* \| .* \| .*) \|$", re.M)
# Words that are in use elsewhere for a term of docs/glossary.zh.md; one term has one word here.
OTHER_WORDS = {
    "情节": "回合",
    "剧集": "回合",
    "经验池": "回放缓冲区",
    "回放池": "回放缓冲区",
    "异策略": "离策略",
    "重标定": "重标记",
    "重标注": "重标记",
    "层级": "分层",
    "运行目录": "训练目录",
    "监视器": "观察者",
    "附加包": "附加组件",
    "可选组件": "附加组件",
    "标准化": "归一化",
    "代理": "智能体",
    "评论家": "critic",
}
FENCE = re.compile(r"^```(.*?)\n(.*?)^```", re.M | re.S)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)]+)\)")
# A number that is no part of a name such as SB3, TD3 or Pong-v5.
FIGURE = re.compile(r"(?<![A-Za-z0-9_.,-])(-?\d+(?:,\d{3})*(?:\.\d+)?)(?: ?(million|万|亿))?")
UNITS = {"million": 1_000_000, "万": 10_000, "亿": 100_000_000}


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


def figures(text: str) -> list[Decimal]:
    """Numbers in prose and tables; those in code and in links are compared as such, comments are not shown."""
    shown = re.sub(r"`[^`]*`|<!--.*?-->|\{ #.*? \}", "", LINK.sub("", FENCE.sub("", text)))
    return sorted(Decimal(number.replace(",", "")) * UNITS.get(unit, 1) for number, unit in FIGURE.findall(shown))


def marks(text: str) -> list[str]:
    """What docs/hooks.py puts into the page: recipes, curves, source, tables."""
    return re.findall(r"^<!-- (?!test: )(.*?) -->$", text, re.M)


@pytest.mark.parametrize("pair", [READMES, *TRANSLATED], ids=lambda pair: str(pair[0].relative_to(ROOT)))
def test_both_languages_say_the_same(pair):
    english, chinese = (page.read_text() for page in pair)
    assert headings(english) == headings(chinese)
    assert code(english) == code(chinese)
    assert links(english) == links(chinese)
    assert figures(english) == figures(chinese)
    assert marks(english) == marks(chinese)


def test_every_page_is_in_both_languages():
    """A page that a user reads is translated. The few that are not stand in ENGLISH_ONLY with the reason."""
    pages = [page for page in DOCS.rglob("*.md") if not page.name.endswith(".zh.md")]
    without = {str(page.relative_to(DOCS)) for page in pages if not page.with_suffix(".zh.md").exists()}
    assert without == set(ENGLISH_ONLY), "write the .zh.md page, or name it in ENGLISH_ONLY with the reason"
    assert {english for english, _ in TRANSLATED} <= set(pages), "a Chinese page whose English page is gone"


def test_every_page_says_first_what_it_is_for():
    """Below the title: what the reader can do after it, or look up on it."""
    starts = ("After this page you", "On this page you can look up", "This page is CONTRIBUTING.md", "Cairn is a")
    pages = [page for page in DOCS.rglob("*.md") if not page.name.endswith(".zh.md")]
    others = [str(p.relative_to(DOCS)) for p in pages if not p.read_text().partition("\n\n")[2].startswith(starts)]
    assert not others
    chinese = ("读完本页，", "本页可以查到", "Cairn 是", "本页是仓库里的 CONTRIBUTING.md")
    others = [
        str(p.relative_to(DOCS)) for _, p in TRANSLATED if not p.read_text().partition("\n\n")[2].startswith(chinese)
    ]
    assert not others


def test_every_title_of_the_navigation_is_translated():
    told = (ROOT / "mkdocs.yml").read_text()
    given, _, nav = told.partition("\nnav:\n")
    titles = set(re.findall(r"^ +- (.+?):(?: |$)", nav, re.M))
    names = set(re.findall(r"^ +(.+?): ", given.partition("nav_translations:\n")[2].partition("\n  - ")[0], re.M))
    assert titles - names == {"DQN", "HIRO"} and names <= titles and len(titles) > 30


def test_the_glossary_is_the_same_from_both_sides():
    english = [line.split(" | ") for line in TERM.findall((DOCS / "glossary.md").read_text())]
    chinese = [line.split(" | ") for line in TERM.findall((DOCS / "glossary.zh.md").read_text())]
    assert [(term, zh) for term, _, zh in english] == [(term, zh) for zh, _, term in chinese]
    assert len(english) > 40


@pytest.mark.parametrize(
    "page", [READMES[1], *(zh for _, zh in TRANSLATED)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_chinese_pages_use_the_words_of_the_glossary(page):
    found = {word: term for word, term in OTHER_WORDS.items() if word in page.read_text()}
    assert not found, f"docs/glossary.zh.md has another word: {found}"


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
