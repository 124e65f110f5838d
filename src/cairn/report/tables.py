"""The tables of a report: evaluations, results, watchers' remarks, configurations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cairn.core.format import duration, writer
from cairn.core.metric import figure
from cairn.evidence.statistics import bootstrap, interquartile_mean
from cairn.report import svg
from cairn.report.compare import Group, changed, differences, flat
from cairn.report.gather import Report
from cairn.report.markup import Html, el
from cairn.report.runs import RunFolder, as_number


def table(
    label: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    figures: Sequence[int] = (),
    caption: object = None,
) -> Html:
    """A table whose first cells are row heads. A wide table scrolls by itself, also by keyboard."""
    kinds = ["figure" if k in figures else None for k in range(len(heads))]
    top = el("tr", [el("th", head, scope="col", class_=kind) for head, kind in zip(heads, kinds, strict=True)])
    lines = []
    for first, *rest in rows:
        cells = [el("td", cell, class_=kind) for cell, kind in zip(rest, kinds[1:], strict=True)]
        lines.append(el("tr", el("th", first, scope="row"), cells))
    whole = el("table", el("caption", caption or label), el("thead", top), el("tbody", lines))
    return el("div", whole, class_="scroll", role="region", aria_label=label, tabindex=0)


def evaluations(report: Report) -> list[Html] | None:
    """One table of evaluations per group, and the recorded results."""
    parts = []
    scored = any(run.score is not None for run in report.runs)
    heads = ["run", "seed", "state", "steps", "time", "last evaluation", "best evaluation", "at step"]
    for number, group in enumerate(report.groups):
        rows = [_row(run, scored) for run in group.runs]
        target = group.first.target
        words = "" if target is None else f", target {writer(group.first.metric)(target)}"
        caption = [svg.swatch(number), el("strong", group.label), words]
        columns = [*heads, "fresh episodes"] if scored else heads
        label = f"Evaluations of {group.label}"
        parts.append(table(label, columns, rows, figures=range(3, len(columns)), caption=caption))
        together = _together(group)
        parts += [el("p", together)] if together else []
    if report.results:
        parts.append(_results_table(report.results))
    return parts or None


def _row(run: RunFolder, scored: bool) -> list[object]:
    write, points, last = writer(run.metric), run.evaluations, run.curves.last()
    best = max(points, key=lambda p: p.value, default=None)
    cells: list[object] = [str(run.path), run.seed, run.state]
    cells += [f"{last.step:,} of {run.steps:,}" if last else "-", duration(last.seconds) if last else "-"]
    cells += [write(points[-1].value) if points else "-"]
    cells += [write(best.value) if best else "-", f"{best.step:,}" if best else "-"]
    if scored:
        cells.append(_fresh(run))
    return cells


def _fresh(run: RunFolder) -> str:
    scored = _fresh_figure(run)
    if scored is None or run.score is None:
        return "-"
    count = as_number(run.score.get("episodes"))
    return writer(run.metric)(scored) + (f" ({count:,.0f})" if count else "")


def _fresh_figure(run: RunFolder) -> float | None:
    mean = None if run.score is None else as_number(run.score.get("mean"))
    if run.score is None or mean is None:
        return None
    return figure(run.metric, mean, as_number(run.score.get("success")))


def _together(group: Group) -> str:
    """A summary over seeds: of fresh episodes if all runs have them, else of the last evaluations."""
    fresh = [_fresh_figure(run) for run in group.runs]
    last = [run.evaluations[-1].value if run.evaluations else None for run in group.runs]
    what, values = ("fresh episodes", fresh) if None not in fresh else ("last evaluations", last)
    known = [v for v in values if v is not None]
    if len(known) < 2:
        return ""
    write, (low, high) = writer(group.first.metric), bootstrap(known)
    return (
        f"{len(known)} seeds together, by their {what}: interquartile mean {write(interquartile_mean(known))}"
        f" (95 % of resampled sets {write(low)} to {write(high)})."
    )


def _results_table(results: Sequence[dict[str, object]]) -> Html:
    rows = []
    for one in results:
        write = writer(str(one.get("metric")))
        numbers = {k: as_number(one.get(k)) for k in ("figure", "target", "episodes", "train_steps", "train_seconds")}
        rows.append([
            str(one.get("recipe", "-")),
            str(one.get("seed", "-")),
            *("-" if (v := numbers[k]) is None else write(v) for k in ("figure", "target")),
            *("-" if (v := numbers[k]) is None else f"{v:,.0f}" for k in ("episodes", "train_steps")),
            "-" if (v := numbers["train_seconds"]) is None else duration(v),
        ])  # fmt: skip
    heads = ["recipe", "seed", "recorded", "target", "episodes", "training steps", "training time"]
    return table("Recorded results of these recipes (results/)", heads, rows, figures=range(2, 7))


def remarks(report: Report) -> list[Html] | None:
    """The remarks of the watchers."""
    parts = []
    for run in report.runs:
        for remark in run.remarks:
            said = {k: str(remark.get(k, "")) for k in ("code", "severity", "what", "evidence", "remedy")}
            kind = said["severity"] if said["severity"] in ("error", "warning", "hint") else "hint"
            step = as_number(remark.get("step"))
            where = f"{run.path}, step {step:,.0f}" if step is not None else str(run.path)
            told = [("where", where), ("measured", said["evidence"]), ("remedy", said["remedy"])]
            rows = [[el("dt", name), el("dd", value)] for name, value in told if value]
            head = el("p", el("span", f"{kind}: ", class_="severity"), said["what"], " ", el("code", said["code"]))
            parts.append(el("div", head, el("dl", rows), class_=f"finding {kind}"))
    if not parts and report.runs:
        parts.append(el("p", "Nothing: no watcher spoke in these runs."))
    return parts or None


def configuration(report: Report) -> list[Html] | None:
    """The options that differ between groups and from the recipes, and all options."""
    parts = []
    rows = differences(report.groups)
    if rows:
        heads = ["option", *(group.label for group in report.groups)]
        shared = [[name, *values] for name, values in rows if "-" not in values]
        rare = [[name, *values] for name, values in rows if "-" in values]
        parts.append(table("Options that differ between these runs", heads, shared))
        if rare:
            label = f"{len(rare)} options that only some of them have"
            parts.append(el("details", el("summary", label), table(label, heads, rare)))
    elif len(report.runs) > 1:
        parts.append(el("p", "These runs share one configuration; they differ in their seeds alone."))
    for group in report.groups:
        found = changed(group.first)
        if found:
            caption = f"{group.label}: what it changed of the recipe as it ships"
            parts.append(table(caption, ["option", "recipe", "this run"], found))
        elif found is not None:
            parts.append(el("p", el("strong", group.label), " is the recipe as it ships."))
        if group.first.config:
            whole = table(f"Every option of {group.label}", ["option", "value"], list(flat(group.first.config).items()))
            parts.append(el("details", el("summary", f"Every option of {group.label}"), whole))
    return parts or None
