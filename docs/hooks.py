"""What the guide shows and does not write: code, figures, curves and equations, taken when it is built.

Marks in the pages, each a line of its own and invisible where Markdown is read without MkDocs:

    <!-- code: cairn.core.returns.gae -->    the source of a function, a class or a method
    <!-- recipe: cartpole-ppo -->            a recipe: command, recorded results, curve, an episode in frames
    <!-- figures: cartpole-ppo -->           its recorded results alone
    <!-- book -->                            every recipe, what was recorded, and where the book tells of it
    <!-- packages -->                        the packages of src/cairn and what they import (docs/diagram.py)
    <!-- table: commands -->                 a table of docs/generated.py
    <!-- file: CONTRIBUTING.md -->           a document of the repository, without its title

A mark that names nothing fails the build. Equations between dollars become MathML, which browsers draw by themselves.
"""

from __future__ import annotations

import ast
import functools
import html
import json
import re
from pathlib import Path
from typing import Any

import curves
import diagram
from generated import agent_options, commands, keywords, run_options  # beside this file
from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

ROOT = Path(__file__).parent.parent
TEST = re.compile(r"^<!-- test: .*? -->\n", re.M)  # for tests/test_guide.py, not for readers
MARK = re.compile(r"^<!-- (code|recipe|figures|book|packages|table|file)(?:: (\S+))? -->$", re.M)
MATH = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.S)
WORDS = {
    "en": {
        "target": "Target",
        "met": "met",
        "missed": "not met",
        "why": "Why: ",
        "none": "no result recorded yet",
        "seed": "training seed",
        "return": "mean return",
        "success": "success",
        "episodes": "fresh episodes",
        "steps": "steps to that policy",
        "seconds": "seconds",
        "seeds": "seeds",
        "curve": "The evaluations of the runs these results came from; the line is their mean, the band their spread.",
        "no curve": "The curves of these runs are not kept; `cairn report` draws that of a run of your own.",
        "frames": "One episode of the policy in zoo/{name}, from its first step to its last.",
        "heads": ("recipe", "task", "agent", "target", "recorded"),
        "files": "{} files, {:,} lines",
        "arrow": "imports",
        "packages": "The packages, drawn from the source. An arrow means that a package imports another one; an import "
        "that longer paths imply is left out. No arrow points upwards or to the side.",
    },
    "zh": {
        "target": "目标",
        "met": "已达到",
        "missed": "未达到",
        "why": "原因：",
        "none": "还没有记录的结果",
        "seed": "训练种子",
        "return": "平均回报",
        "success": "成功率",
        "episodes": "新回合数",
        "steps": "得到该策略的步数",
        "seconds": "秒",
        "seeds": "种子",
        "curve": "得出这些结果的各次训练的评估曲线；线是平均，色带是各种子的范围。",
        "no curve": "这些训练的曲线没有存进仓库；自己训练之后可以用 `cairn report` 画出来。",
        "frames": "zoo/{name} 中策略的一个回合，从第一步到最后一步。",
        "heads": ("配方", "任务", "智能体", "目标", "记录"),
        "files": "{} 个文件，{:,} 行",
        "arrow": "导入",
        "packages": "各个包，由源代码画出。箭头表示导入；能由更长的路径推出的导入省略不画。没有向上或横向的箭头。",
    },
}


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    locale = getattr(page.file, "locale", None) or "en"
    up = "../" * page.file.src_uri.count("/")

    def put(found: re.Match[str]) -> str:
        kind, name = found.groups()
        try:
            makers = {"code": code, "table": table, "file": document}
            makers["figures"] = functools.partial(figures, locale=locale)
            makers["recipe"] = functools.partial(recipe, locale=locale, up=up)
            whole = {"book": book, "packages": packages}
            return whole[kind](locale) if kind in whole else makers[kind](name)
        except KeyError as error:
            raise PluginError(f"{page.file.src_uri}: {found.group(0)} names nothing: {error}") from error

    return MARK.sub(put, TEST.sub("", markdown))


def on_page_content(content: str, **_: Any) -> str:
    return MATH.sub(_mathml, content)


def _mathml(found: re.Match[str]) -> str:
    shown = convert(html.unescape(found.group(3)).strip(), display="block" if found.group(2) == "[" else "inline")
    return shown.replace(' xmlns="http://www.w3.org/1998/Math/MathML"', "")  # HTML knows it


# -- code


def packages(locale: str) -> str:
    """The packages of src/cairn as a picture."""
    say = WORDS[locale]
    drawn = diagram.packages(say["files"], say["arrow"])
    return f'<figure class="packages">{drawn}<figcaption>{say["packages"]}</figcaption></figure>'


@functools.cache
def _module(path: Path) -> tuple[list[str], ast.Module]:
    text = path.read_text()
    return text.splitlines(), ast.parse(text)


def code(name: str) -> str:
    """The source of cairn.room.file.Symbol or .Class.method, as a block with its address."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        path = ROOT / "src" / Path(*parts[:cut]).with_suffix(".py")
        if path.exists():
            break
    else:
        raise KeyError(name)
    lines, tree = _module(path)
    node: Any = tree
    for symbol in parts[cut:]:
        node = next((n for n in node.body if getattr(n, "name", None) == symbol), None)
        if node is None:
            raise KeyError(symbol)
    first = min([node.lineno, *[d.lineno for d in node.decorator_list]])
    body = lines[first - 1 : node.end_lineno]
    indent = len(body[0]) - len(body[0].lstrip())
    text = "\n".join(line[indent:] for line in body)
    return f'```python title="{path.relative_to(ROOT)}, line {first}"\n{text}\n```'


# -- tables made from the parser, documents of the repository


def table(name: str) -> str:
    makers = {"commands": commands, "run": run_options, "agents": agent_options, "keywords": keywords}
    return makers[name]()


def document(name: str) -> str:
    """A Markdown file of the repository below its title. Links into docs/ stay links; others become text."""
    path = ROOT / name
    if not path.exists():
        raise KeyError(name)
    text = path.read_text().partition("\n")[2]
    text = re.sub(r"\]\(docs/([^)]+)\)", r"](\1)", text)
    return re.sub(r"\[([^\]]+)\]\((?!https?:|#)([A-Z\w./-]*[A-Z][\w./-]*|[\w-]+/README\.md)\)", r"\1", text)


# -- recipes


@functools.cache
def _results() -> dict[str, list[dict[str, Any]]]:
    from cairn.recipes import RECIPES
    from cairn.evidence.table import read_results

    return {name: read_results(ROOT / "results", name) for name in RECIPES}


@functools.cache
def _misses() -> dict[str, dict[str, str]]:
    reasons: dict[str, dict[str, str]] = json.loads((ROOT / "results" / "recipes" / "misses.json").read_text())
    return reasons


def recipe(name: str, locale: str, up: str) -> str:
    """Everything kept of a recipe: nothing of it is written by hand."""
    say = WORDS[locale]
    command = f"cairn train {name}" + (f"\ncairn eval zoo/{name}" if (ROOT / "zoo" / name).exists() else "")
    lines = [f"```\n{command}\n```", figures(name, locale)]
    lines.append(curve(name, locale) or (say["no curve"] if _results()[name] else ""))
    if (ROOT / "docs" / "img" / "frames" / f"{name}.jpg").exists():
        words = say["frames"].format(name=name)
        picture = f"![{words}]({up}img/frames/{name}.jpg)"
        lines.append(f'<figure class="frames" markdown>\n{picture}\n<figcaption>{words}</figcaption>\n</figure>')
    return "\n\n".join(x for x in lines if x)


def figures(name: str, locale: str) -> str:
    """The target, whether it is met, the reason where it is not, and a row for each training seed."""
    from cairn.core.format import tabled
    from cairn.recipes import RECIPES
    from cairn.evidence.statistics import interquartile_mean

    plan, records, say = RECIPES[name], _results()[name], WORDS[locale]
    lines = []
    if plan.target is not None:
        met = bool(records) and interquartile_mean([r["figure"] for r in records]) >= plan.target
        verdict = say["met"] if met else say["missed"] if records else say["none"]
        told = f"**{say['target']}**: {tabled(plan.target, plan.metric)} ({say[plan.metric]}), {verdict}."
        reason = "" if met else _misses().get(name, {}).get(locale, "")
        stop = "。" if locale == "zh" else "."
        lines.append(f"{told} {say['why']}{reason}{stop}" if reason else told)
    if records:
        heads = [say["seed"], say[plan.metric], say["episodes"], say["steps"], say["seconds"]]
        rows = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
        for one in records:
            spread = f" ± {one['std']:,.1f}" if plan.metric == "return" else ""
            seconds = "-" if one.get("train_seconds") is None else f"{one['train_seconds']:,.0f}"
            cells = [one["seed"], tabled(one["figure"], plan.metric) + spread, f"{one['episodes']:,}"]
            rows.append("| " + " | ".join(map(str, [*cells, f"{one['train_steps']:,}", seconds])) + " |")
        lines.append("\n".join(rows))
    return "\n\n".join(lines)


def curve(name: str, locale: str) -> str:
    """The evaluations of the runs behind a recipe's results, as SVG; "" where they are not kept."""
    from cairn.recipes import RECIPES

    kept, say = curves.stored().get(name, {}), WORDS[locale]
    told = f"{say['seeds']} {', '.join(sorted(kept, key=int))}"
    drawn = curves.recipe_chart(name, kept, title=f"{name}: {say[RECIPES[name].metric]}", told=told)
    if not drawn:
        return ""
    return f'<figure class="curve">{drawn}<figcaption>{name}, {told}. {say["curve"]}</figcaption></figure>'


def book(locale: str) -> str:
    """Every recipe with its figures, linked to where the book tells of it."""
    from cairn.algorithms.registry import agent_name
    from cairn.core.format import tabled
    from cairn.recipes import RECIPES

    where = {}
    for page in sorted((ROOT / "docs" / "experiments").glob("*.md")):
        if page.name.endswith(".zh.md"):  # a link to the English page finds its translation
            continue
        for name in re.findall(r"<!-- (?:recipe|figures): (\S+) -->", page.read_text()):
            where[name] = f"experiments/{page.name}"
    heads = WORDS[locale]["heads"]
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for name, plan in RECIPES.items():
        figures = ", ".join(tabled(r["figure"], plan.metric) for r in _results()[name]) or "-"
        target = "-" if plan.target is None else tabled(plan.target, plan.metric)
        link = f"[`{name}`]({where[name]}#{name})" if name in where else f"`{name}`"
        lines.append(f"| {link} | {plan.env} | {agent_name(plan.agent)} | {target} | {figures} |")
    return "\n".join(lines)
