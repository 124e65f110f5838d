"""Bring the tables in the documents up to the recorded results: `python docs/refresh.py [--curves RUNS]`.

It rewrites what stands between the marks <!-- NAME:begin --> and <!-- NAME:end -->:

    README.md, README.zh-CN.md          families: one recipe of each task family
    docs/results.md, results.zh.md      results, misses, notes: every recipe
    docs/speed.md                       bench: Cairn beside Stable-Baselines3 and SBX
    docs/packages.md, packages.zh.md    packages, commands: tasks of other people's packages
    docs/environments.md, .zh.md        masks, memory: beside sb3-contrib

from results/recipes/*.json, results/benchmarks/speed.json and results/studies; tests/test_results.py compares them.
`--curves RUNS` copies the evaluations of the runs under a folder that recorded results came from into
results/recipes/curves.json.
docs/pictures.py draws the pictures.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from cairn.algorithms.registry import agent_name
from cairn.core.format import tabled
from cairn.evidence.table import anchors, last_scores, notes, read_results, recipe_rows, result_rows
from cairn.recipes import RECIPES

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"

# The rows of the READMEs' table: recipe, task family in English and Chinese, chapter of the experiment book.
FAMILIES = (
    ("cartpole-ppo", "Classic control, discrete", "经典控制，离散动作", "basics"),
    ("sac-pendulum", "Classic control, continuous", "经典控制，连续动作", "basics"),
    ("bipedal-sac", "Walking", "双足行走", "walker"),
    ("bipedal-hardcore", "Walking over obstacles", "越障行走", "walker"),
    ("bitflip-dqn-her", "Goals, 50 bits", "目标任务，50 个比特", "goals"),
    ("fetch-push-her", "Goals, robot arm pushes", "目标任务，机械臂推物", "goals"),
    ("fetch-slide-her", "Goals, robot arm slides", "目标任务，机械臂滑物", "goals"),
    ("reach-far-hiro", "Subgoals, far reach", "子目标，远距离伸手", "subgoals"),
    ("ant-maze-hiro", "Subgoals, ant in a maze", "子目标，蚂蚁迷宫", "subgoals"),
    ("ant-push-hiro", "Subgoals, ant pushes a block", "子目标，蚂蚁推箱", "subgoals"),
    ("bipedal-aggrevated-reinforce", "Imitating a good expert", "模仿好的专家", "experts"),
    ("hopper-aggrevated", "Surpassing a weak expert", "超过弱的专家", "experts"),
    ("pong-ppo", "Pixels, Pong", "像素，Pong", "pixels"),
    ("breakout-dqn", "Pixels, Breakout", "像素，Breakout", "pixels"),
)
# The chapters of the experiment book, which the results page follows.
CHAPTERS = (
    ("basics", "Basics and vector tasks", "基础任务"),
    ("walker", "The walker", "双足行走"),
    ("goals", "Goals", "目标"),
    ("subgoals", "Subgoals", "子目标"),
    ("experts", "Experts", "专家"),
    ("pixels", "Pixels", "像素"),
)
SPELT = {"dagger": "DAgger", "aggrevate": "AggreVaTe", "aggrevated": "AggreVaTeD"}
WORDS: dict[str, dict[str, Any]] = {
    "en": {
        "families": ("family", "recipe", "algorithm", "Cairn: score", "target", "published, or the expert's score"),
        "results": (
            "recipe",
            "task",
            "agent",
            "target",
            "met",
            "score of each training seed (episodes)",
            "interquartile mean over seeds",
            "last evaluation in training, each seed (mean total steps)",
            "published by others",
        ),
        "score": ("{} (1 seed)", "{0} ({1} seeds)", "{0} ({1} seeds, {2} to {3})"),
        "verdict": "{}, {}",
        "expert": "expert `{}`: {}",
        "met": {"yes": "met", "no": "missed", "": "-", "none": "no result"},
        "interval": ("{}, range {} to {}", "{} [{}, {}]"),
        "missed": "**{} of {} recipes miss their target or have no result yet**: {}. {} gives the reasons.",
        "miss": "{}, target {}; ",
        "page": "[The results page](docs/results.md#targets-that-are-not-met)",
        "note": "Note on `{}`: {}.",
        "comma": ", ",
        "packages": (
            "name",
            "packages",
            "bar",
            "score, each seed",
            "last evaluation, each seed",
            "steps",
            "steps until the bar, each seed",
            "seconds, each seed",
        ),
        "beside": (
            "task",
            "bar",
            "Cairn: steps until the bar",
            "sb3-contrib: steps until the bar",
            "Cairn: last score",
            "sb3-contrib: last score",
        ),
    },
    "zh": {
        "families": ("任务类别", "配方", "算法", "Cairn 的得分", "目标", "他人发表的结果，或专家的得分"),
        "results": (
            "配方",
            "任务",
            "智能体",
            "目标",
            "是否达到",
            "每个训练种子的得分（回合数）",
            "各种子的四分位均值",
            "训练中最后一次评估，每个种子（平均总步数）",
            "他人发表的结果",
        ),
        "score": ("{}（1 个种子）", "{0}（{1} 个种子）", "{0}（{1} 个种子，{2} 至 {3}）"),
        "verdict": "{}，{}",
        "expert": "专家 `{}`：{}",
        "met": {"yes": "达到", "no": "未达到", "": "-", "none": "无结果"},
        "interval": ("{}，范围 {} 至 {}", "{} [{}, {}]"),
        "missed": "**{} / {} 个配方未达到目标或还没有结果**：{}。原因见{}。",
        "miss": "{}，目标 {}；",
        "page": "[结果页](docs/results.zh.md#targets-that-are-not-met)",
        "note": "关于 `{}`：{}。",
        "comma": "、",
        "packages": (
            "名称",
            "包",
            "门槛",
            "得分，各种子",
            "最后一次评估，各种子",
            "步数",
            "到达门槛的步数，各种子",
            "秒，各种子",
        ),
        "beside": (
            "任务",
            "门槛",
            "Cairn：到达门槛的步数",
            "sb3-contrib：到达门槛的步数",
            "Cairn：最后得分",
            "sb3-contrib：最后得分",
        ),
    },
}
# What anchors.json says in English, in Chinese. The figures stay as they are.
CHINESE = (
    (r"the paper: better than its expert", "论文：超过其专家"),
    (r"the paper: as good as its expert, or better", "论文：不低于其专家"),
    (r"the paper: up to about (\d+) bits", r"论文：最多约 \1 个比特"),
    (r"the paper: (.+?) at best, about (.+?) in the mean", r"论文：最好 \1，平均约 \2"),
    (r",? at ([\d.]+[kM]) to ([\d.]+[kM])( steps)?", r"，\1 至 \2 步"),
    (r",? at ([\d.]+[kM])( steps)?", r"，\1 步"),
    (r"(\d(?: %)?) to (\d)", r"\1 至 \2"),
    (r"[;,] ", "；"),
    (r": ", "："),
    (r" \((.+?)\)", r"（\1）"),
)


def language_of(name: str) -> str:
    return "zh" if "zh" in name else "en"


def grid(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    lines = [list(heads), *(list(row) for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def published(name: str, language: str) -> str:
    """What anchors.json says of a recipe."""
    told = anchors(RESULTS).get(name, "-")
    if language == "zh":
        for english, chinese in CHINESE:
            told = re.sub(english, chinese, told)
    return told


def joint() -> dict[str, dict[str, Any]]:
    """What the seeds of each recorded recipe say together."""
    return {row["recipe"]: row for row in result_rows(RESULTS)}


def unmet() -> dict[str, dict[str, str]]:
    """The recipes without a result that meets the target, with the reason in both languages: misses.json."""
    reasons: dict[str, dict[str, str]] = json.loads((RESULTS / "recipes" / "misses.json").read_text())
    rows = joint()
    return {name: reasons[name] for name in RECIPES if name not in rows or rows[name]["met"] == "no"}


# -- README


def families(language: str) -> str:
    """One recipe of each family, the notes on those recipes, and which recipes miss their targets."""
    say, rows = WORDS[language], joint()
    lines = []
    for name, english, chinese, chapter in FAMILIES:
        link = f"[`{name}`](docs/experiments/{chapter}{'.zh' if language == 'zh' else ''}.md)"
        cells = [chinese if language == "zh" else english, link, algorithm_of(name), score(rows[name], language)]
        lines.append([*cells, verdict(rows[name], language), compared(name, rows, language)])
    told = [grid(say["families"], lines)]
    shown = [name for name, *_ in FAMILIES]
    told += [say["note"].format(name, one[language]) for name, one in notes(RESULTS).items() if name in shown]
    missing = say["comma"].join(f"`{name}`" for name in unmet())
    told.append(say["missed"].format(len(unmet()), len(RECIPES), missing, say["page"]))
    return "\n\n".join(told)


def score(row: dict[str, Any], language: str) -> str:
    """The interquartile mean over all seeds, their number and, where they differ, the lowest and highest."""
    metric = RECIPES[row["recipe"]].metric
    iqm, low, high = (tabled(row[key], metric) for key in ("iqm", "worst", "best"))
    kind = 0 if row["seeds"] == 1 else 1 if low == high else 2
    return str(WORDS[language]["score"][kind].format(iqm, row["seeds"], low, high))


def verdict(row: dict[str, Any], language: str) -> str:
    """The target, and whether it is met; bold where it is not."""
    say = WORDS[language]
    told = say["verdict"].format(tabled(row["target"], RECIPES[row["recipe"]].metric), say["met"][row["met"]])
    return f"**{told}**" if row["met"] == "no" else str(told)


def compared(name: str, rows: dict[str, dict[str, Any]], language: str) -> str:
    """The published figure, or the recorded score of the expert that a recipe imitates."""
    expert = RECIPES[name].expert
    if expert in rows:
        return str(WORDS[language]["expert"].format(expert, tabled(rows[expert]["iqm"], RECIPES[expert].metric)))
    return published(name, language)


def algorithm_of(name: str) -> str:
    """The agent of a recipe as papers write it, and HER where its replay relabels goals."""
    plan = RECIPES[name]
    agent = agent_name(plan.agent)
    return SPELT.get(agent, agent.upper()) + (" + HER" if plan.hindsight != "off" else "")


# -- the results page


def chapters() -> dict[str, str]:
    """The chapter of the experiment book in which each recipe stands."""
    found = {}
    for chapter, *_ in CHAPTERS:
        page = (ROOT / "docs" / "experiments" / f"{chapter}.md").read_text()
        found.update({name: chapter for name in re.findall(r"<!-- (?:recipe|figures): (\S+) -->", page)})
    return found


def results(language: str) -> str:
    """Every recipe, in a table for each chapter of the experiment book."""
    say, rows, where, parts = WORDS[language], joint(), chapters(), []
    every = recipe_rows(RESULTS)
    for chapter, english, chinese in CHAPTERS:
        here = [row for row in every if where.get(row["recipe"]) == chapter]
        lines = [result_line(row, rows.get(row["recipe"]), chapter, language) for row in here]
        if lines:
            parts.append(f"### {chinese if language == 'zh' else english}\n\n{grid(say['results'], lines)}")
    return "\n\n".join(parts)


def result_line(row: dict[str, Any], together: dict[str, Any] | None, chapter: str, language: str) -> list[str]:
    say, name, metric = WORDS[language], row["recipe"], row["metric"]
    records = read_results(RESULTS, name)
    figures = ", ".join(tabled(r["figure"], metric) for r in records) or "-"
    if records:
        figures += f" ({records[0]['episodes']:,})"
    if name in notes(RESULTS):
        figures += " [*](#notes)"
    target = "-" if row["target"] is None else tabled(row["target"], metric)
    met = say["met"][together["met"]] if together else say["met"]["none"]
    cells = [f"[`{name}`](experiments/{chapter}.md#{name})", row["task"], row["agent"], target, met, figures]
    return [*cells, interval(together, metric, language), last(records, metric), published(name, language)]


def interval(row: dict[str, Any] | None, metric: str, language: str) -> str:
    """The interval of five seeds or more, the range of two to four, nothing of one."""
    if row is None or row["seeds"] < 2:
        return "-"
    iqm, low, high = (tabled(row[key], metric) for key in ("iqm", "low", "high"))
    return str(WORDS[language]["interval"][row["spread"] != "range"].format(iqm, low, high))


def last(records: list[dict[str, Any]], metric: str) -> str:
    """The scores of the policies at the end of the runs; - where they are not known."""
    found = last_scores(RESULTS, records)
    if not any(found):
        return "-"
    steps = [one[1] for one in found if one is not None]
    figures = ", ".join("-" if one is None else tabled(round(one[0], 4), metric) for one in found)
    return f"{figures} ({round(sum(steps) / len(steps)):,})"


def misses(language: str) -> str:
    """The recipes that miss their target: score and target from the records, the reason from misses.json."""
    rows, told = joint(), {}
    for name, reason in unmet().items():
        row, metric = rows.get(name), RECIPES[name].metric
        figures = ""
        if row is not None:
            figures = WORDS[language]["miss"].format(*(tabled(row[key], metric) for key in ("iqm", "target")))
        told[name] = {language: figures + reason[language]}
    return listed(told, language)


def listed(reasons: dict[str, dict[str, str]], language: str) -> str:
    """Sentences on recipes, as a list."""
    colon, stop = ("：", "。") if language == "zh" else (": ", ".")
    return "\n".join(f"- `{name}`{colon}{one[language]}{stop}" for name, one in reasons.items())


# -- speed


def speed(language: str) -> str:
    heads = ("case", "peer", "Cairn", "the peer", "unit", "ratio", "returns", "memory, MB", "what it shows")
    lines = []
    for row in json.loads((RESULTS / "benchmarks" / "speed.json").read_text()):
        figures = ["not reached" if row[k] is None else f"{row[k]:,.0f}" for k in ("ours", "theirs")]
        ratio = "-" if row.get("ratio") is None else f"{row['ratio']:.2f}"
        memory = f"{row['memory_ours_mb']:.0f} / {row['memory_theirs_mb']:.0f}" if row.get("memory_ours_mb") else "-"
        returns = f"{row['score_ours']:.0f} / {row['score_theirs']:.0f}" if "score_ours" in row else "-"
        text = row["settings"].get("about", f"limit {row['settings'].get('limit_seconds')} s")
        peer = "SBX" if row["peer"] == "sbx-rl" else "SB3"
        lines.append([row["name"].removesuffix("-sbx"), peer, *figures, row["unit"], ratio, returns, memory, text])
    return grid(heads, lines)


# -- other people's packages; masks and memory beside sb3-contrib


def study(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((RESULTS / "studies" / f"{name}.json").read_text())
    return rows


def listing(values: Iterable[float | int | None], of: Callable[[Any], str]) -> str:
    """The values of several seeds."""
    return ", ".join("-" if value is None else of(value) for value in values)


def of_score(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def of_count(value: float) -> str:
    return f"{value:,.0f}"


def packages(language: str) -> str:
    """A row for each entry of results/studies/packages.json."""
    lines = []
    for row in study("packages"):
        runs, metric = row["runs"], row["metric"]
        told = {key: [run[key] for run in runs] for key in ("score", "last", "seconds", "steps to bar")}
        percent = (lambda value: f"{value:.0%}".replace("%", " %")) if metric == "success" else of_score
        asked = "-" if row["bar"] is None else f"≥ {percent(row['bar'])}"
        versions = ", ".join(f"{name} {number}" for name, number in row["versions"].items() if name not in EVERYWHERE)
        lines.append(
            [
                f"`{row['name']}`",
                versions or f"gymnasium {row['versions']['gymnasium']}",
                asked,
                listing(told["score"], percent),
                listing(told["last"], percent),
                of_count(max(run["steps"] for run in runs)),
                listing(told["steps to bar"], of_count),
                listing(told["seconds"], of_count),
            ]
        )
    return grid(WORDS[language]["packages"], lines)


EVERYWHERE = ("gymnasium", "torch", "numpy")


def commands(language: str) -> str:
    """What was typed for each entry, for seed 101."""
    lines = []
    for row in study("packages"):
        lines += [f"# {row['name']}: pip install '{row['pip']}'", f"{row['command']} --seed {row['runs'][0]['seed']}"]
    body = "\n".join(lines)
    return f"<!-- test: skip, trains for minutes and needs the packages -->\n```bash\n{body}\n```"


def beside(language: str, names: Iterable[str]) -> str:
    """Steps until the bar and last scores of Cairn and sb3-contrib, seed by seed."""
    lines = []
    for row in study("masks-and-memory"):
        if row["name"] in names:
            cells = [f"`{row['name']}`", f"≥ {of_score(row['bar'])}"]
            for key, of in (("steps to bar", of_count), ("last", of_score)):
                for side in ("cairn", "sb3-contrib"):
                    cells.append(listing([run[key] for run in row["runs"] if run["side"] == side], of))
            lines.append(cells)
    return grid(WORDS[language]["beside"], lines)


MASKED = ("invalid-discrete", "invalid-multidiscrete", "invalid-multibinary", "taxi")
REMEMBERED = ("cartpole-positions",)

# -- documents

Maker = Callable[[str], str]
FULL: dict[str, Maker] = {
    "results": results,
    "misses": misses,
    "notes": lambda language: listed(notes(RESULTS), language),
}
BESIDE: dict[str, Maker] = {
    "masks": lambda language: beside(language, MASKED),
    "memory": lambda language: beside(language, REMEMBERED),
}
PAGES: dict[str, dict[str, Maker]] = {
    "README.md": {"families": families},
    "README.zh-CN.md": {"families": families},
    "docs/results.md": FULL,
    "docs/results.zh.md": FULL,
    "docs/speed.md": {"bench": speed},
    "docs/packages.md": {"packages": packages, "commands": commands},
    "docs/packages.zh.md": {"packages": packages, "commands": commands},
    "docs/environments.md": BESIDE,
    "docs/environments.zh.md": BESIDE,
}


def refreshed(name: str, text: str) -> str:
    """The text of a document with its tables as the results are now."""
    for mark, make in PAGES[name].items():
        before, rest = text.split(f"<!-- {mark}:begin -->")
        _, after = rest.split(f"<!-- {mark}:end -->")
        text = f"{before}<!-- {mark}:begin -->\n{make(language_of(name))}\n<!-- {mark}:end -->{after}"
    return text


def refresh_curves(runs: Path) -> None:
    """The curve of each recorded result whose run lies under `runs`: {recipe: {seed: [[step, seconds, value], ...]}}.

    A run is that of a result if its best policy is of the same recipe, seed, step and second. Others found before stay.
    """
    from cairn.runs.curves import evaluations, finite

    path = ROOT / "results" / "recipes" / "curves.json"
    curves = json.loads(path.read_text()) if path.exists() else {}
    for metrics in sorted(runs.rglob("metrics.csv")):
        run = metrics.parent
        try:
            about = json.loads((run / "best" / "policy.json").read_text())["about"]
        except (OSError, ValueError, KeyError):
            continue
        for record in read_results(ROOT / "results", str(about.get("recipe"))):
            told = record["seed"], record["train_steps"], record.get("train_seconds")
            if told == (about.get("seed"), about.get("step"), about.get("seconds")) and told[2] is not None:
                points = finite(evaluations(run, record["metric"]))
                curves.setdefault(record["recipe"], {})[str(record["seed"])] = [list(p) for p in points]
    lines = [f"{json.dumps(name)}: {json.dumps(curves[name], sort_keys=True)}" for name in sorted(curves)]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    for page in PAGES:
        (ROOT / page).write_text(refreshed(page, (ROOT / page).read_text()))
    if "--curves" in sys.argv:
        refresh_curves(Path(sys.argv[sys.argv.index("--curves") + 1]))
