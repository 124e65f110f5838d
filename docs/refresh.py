"""Bring the documents up to the recorded results: `python docs/refresh.py [--picture RUN] [--curves RUNS] [--frames]`.

The table between the marks in both READMEs is made from results/recipes/*.json; the picture from a run folder and its policy.
`--curves RUNS` takes the evaluations of every run under a folder that a recorded result came from into
results/recipes/curves.json; `--frames [NAME...]` draws an episode of each policy of the zoo into docs/img/frames.
"""

from __future__ import annotations

import itertools
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from cairn.core.format import tabled
from cairn.evidence.table import anchors, last_scores, notes, read_results, recipe_rows, result_rows

ROOT = Path(__file__).parent.parent
HEADS = {
    "README.md": (
        "recipe",
        "task",
        "agent",
        "target",
        "recorded: mean return or success over fresh episodes, per training seed (episodes)",
        "interquartile mean over seeds; 95 % interval from five seeds on, else range",
        "last evaluation in training, per seed (mean steps in all)",
        "published by others",
        "to know",
    ),
    "README.zh-CN.md": (
        "配方",
        "任务",
        "智能体",
        "目标",
        "记录：每个训练种子在新回合上的平均回报或成功率（回合数）",
        "各种子的四分位均值；五个种子起给 95 % 区间，不足五个给范围",
        "训练中最后一次评估，每个种子（平均总步数）",
        "他人发表的结果",
        "须知",
    ),
}


def table(heads: tuple[str, ...], language: str = "en") -> str:
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    together, public = {row["recipe"]: row for row in result_rows(ROOT / "results")}, anchors(ROOT / "results")
    said = notes(ROOT / "results")
    for row in recipe_rows(ROOT / "results"):
        records = read_results(ROOT / "results", row["recipe"])
        figures = ", ".join(tabled(r["figure"], r["metric"]) for r in records) or "-"
        if records:
            figures += f" ({records[0]['episodes']:,})"
        target = "-" if row["target"] is None else tabled(row["target"], row["metric"])
        cells = (f"`{row['recipe']}`", row["task"], row["agent"], target, figures)
        told = said.get(row["recipe"], {}).get(language, "-")
        cells += (interval(together.get(row["recipe"]), row["metric"], language), last(records, row["metric"]))
        cells += (public.get(row["recipe"], "-"), told)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def interval(row: dict[str, Any] | None, metric: str, language: str) -> str:
    """The interval of five seeds or more, the range of two to four, nothing of one."""
    if row is None or row["seeds"] < 2:
        return "-"
    iqm, low, high = (tabled(row[key], metric) for key in ("iqm", "low", "high"))
    if row["spread"] == "range":
        return f"{iqm}, {low} 至 {high}（范围）" if language == "zh" else f"{iqm}, range {low} to {high}"
    return f"{iqm} [{low}, {high}]"


def last(records: list[dict[str, Any]], metric: str) -> str:
    """What the policies at the end of the runs scored there; - where it is not known."""
    found = last_scores(ROOT / "results", records)
    if not any(found):
        return "-"
    steps = [one[1] for one in found if one is not None]
    figures = ", ".join("-" if one is None else tabled(round(one[0], 4), metric) for one in found)
    return f"{figures} ({round(sum(steps) / len(steps)):,})"


def refreshed(name: str) -> str:
    """A README with its table as the results are now."""
    before, rest = (ROOT / name).read_text().split("<!-- results:begin -->")
    _, after = rest.split("<!-- results:end -->")
    body = table(HEADS[name], "zh" if "zh" in name else "en")
    return f"{before}<!-- results:begin -->\n{body}\n<!-- results:end -->{after}"


def refresh_tables() -> None:
    for name in HEADS:
        (ROOT / name).write_text(refreshed(name))


def refresh_speed() -> None:
    path = ROOT / "docs" / "speed.md"
    heads = ("case", "Cairn", "SB3", "unit", "ratio", "memory, MB", "what it shows")
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for row in json.loads((ROOT / "results" / "benchmarks" / "speed.json").read_text()):
        figures = ["not reached" if row[k] is None else f"{row[k]:,.0f}" for k in ("ours", "theirs")]
        ratio = "-" if row.get("ratio") is None else f"{row['ratio']:.2f}"
        memory = f"{row['memory_ours_mb']:.0f} / {row['memory_theirs_mb']:.0f}" if row.get("memory_ours_mb") else "-"
        text = row["settings"].get("about", f"limit {row['settings'].get('limit_seconds')} s")
        lines.append("| " + " | ".join([row["name"], *figures, row["unit"], ratio, memory, text]) + " |")
    before, rest = path.read_text().split("<!-- bench:begin -->")
    _, after = rest.split("<!-- bench:end -->")
    body = "\n".join(lines)
    path.write_text(f"{before}<!-- bench:begin -->\n{body}\n<!-- bench:end -->{after}")


def picture(run: Path, out: Path) -> None:
    """Frames of one episode in a strip, above the learning curve."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    from cairn.envs.task import Task
    from cairn.runs.checkpoint import load_policy
    from cairn.runs.curves import evaluations
    from cairn.runs.evaluation import as_policy

    saved = load_policy(run)
    policy, env = as_policy(saved.agent), Task(saved.task.id, render_mode="rgb_array")()
    obs, _ = env.reset(seed=1000)
    frames, over = [], False
    while not over:
        frames.append(env.render())
        obs, _, terminated, truncated, _ = env.step(policy(obs[None])[0])
        over = terminated or truncated
    env.close()
    chosen = [frames[i] for i in np.linspace(20, 160, 6).astype(int)]
    points = evaluations(run, "return")
    figure = plt.figure(figsize=(10, 4.6), constrained_layout=True)
    top, bottom = figure.subfigures(2, 1, height_ratios=(1, 1.35))
    for axis, frame in zip(top.subplots(1, 6), chosen, strict=True):
        axis.imshow(frame)
        axis.axis("off")
    axis = bottom.subplots()
    axis.plot([p.step / 1e6 for p in points], [p.value for p in points], "o-", color="#b3541e")
    axis.axhline(300, color="#888", linewidth=0.8, linestyle="--")
    axis.set_xlabel("environment steps (millions)")
    axis.set_ylabel("mean return, 20 episodes")
    axis.set_title(f"{saved.about['recipe']}, seed {saved.about['seed']}", fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)


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


def frames(names: list[str]) -> None:
    """Six moments of one episode of each policy of the zoo, in a strip: docs/img/frames/NAME.jpg."""
    from cairn.report.video import _mark, prepare_headless

    prepare_headless()
    import imageio.v3 as imageio
    import numpy as np
    from PIL import Image

    from cairn.report.play import play
    from cairn.runs.checkpoint import load_policy
    from cairn.runs.evaluation import as_policy

    folder = ROOT / "docs" / "img" / "frames"
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or sorted(p.name for p in (ROOT / "zoo").iterdir()):
        saved = load_policy(ROOT / "zoo" / name)
        env = replace(saved.task, render_mode="rgb_array")()
        policy = as_policy(saved.agent)
        length = play(policy, env, seed=1000, watch=lambda row, point: None).length
        wanted = set(np.linspace(0, length, 6).astype(int).tolist())
        pictures: list[Image.Image] = []
        seen = itertools.count()

        def watch(row: object, point: object) -> None:
            if next(seen) in wanted:  # noqa: B023
                if point is not None:
                    _mark(env, point)  # noqa: B023
                picture = Image.fromarray(np.asarray(env.render()))  # noqa: B023
                pictures.append(picture.resize((round(180 * picture.width / picture.height), 180)))  # noqa: B023

        play(policy, env, seed=1000, watch=watch)
        env.close()
        imageio.imwrite(folder / f"{name}.jpg", np.concatenate([np.asarray(p) for p in pictures], 1), quality=80)
        print(f"{name}: {len(pictures)} of {length} steps")


if __name__ == "__main__":
    refresh_tables()
    refresh_speed()
    if "--picture" in sys.argv:
        picture(Path(sys.argv[sys.argv.index("--picture") + 1]), ROOT / "docs" / "img" / "bipedal.png")
    if "--curves" in sys.argv:
        refresh_curves(Path(sys.argv[sys.argv.index("--curves") + 1]))
    if "--frames" in sys.argv:
        frames(sys.argv[sys.argv.index("--frames") + 1 :])
