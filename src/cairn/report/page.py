"""The report of some runs: one page that holds all it shows, without a script, an address or a font from elsewhere."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from cairn import __version__
from cairn.core.errors import CairnError
from cairn.evidence.statistics import bootstrap, interquartile_mean
from cairn.report import svg
from cairn.report.gather import Report, gather
from cairn.report.markup import Html, data_uri, document, el, sheet
from cairn.report.plan import Trace
from cairn.report.runs import (
    Group,
    RunFolder,
    as_number,
    band,
    changed,
    differences,
    flat,
    ordered,
)
from cairn.report.style import CSS
from cairn.runs.curves import MEASURES

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:"  # nothing from outside, no script
)
FAULTS = 8  # shown at once
NAMED = 4  # recipes in the title
TRAINING = {"success": "rollout/success_rate", "return": "rollout/ep_rew_mean"}
SEEDS = (
    "Line: the mean over seeds; band: from the lowest seed to the highest; thin: each seed. A seed that stopped early,"
    " its target held, stays at its last value; one that broke off counts as far as it went."
)
WORDS = {"success": "success", "return": "mean return"}


# -- the page


def page(report: Report, *, refresh: int = 0) -> Html:
    """The whole document. `refresh`: it is served, and asks for itself anew after so many seconds."""
    names = list(dict.fromkeys(g.first.name for g in report.groups))
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    title = f"Cairn: {', '.join(names[:NAMED]) or 'no run yet'}{more}"
    sections = [
        ("short", "In short", _in_short(report)),
        ("curves", "Learning curves", _curves(report)),
        ("evaluations", "Evaluations", _evaluations(report)),
        ("watchers", "What watchers said", _remarks(report)),
        ("configuration", "Configuration", _configuration(report)),
        ("above", "From above", _plans(report)),
        ("pictures", "Pictures and films", _media(report, live=bool(refresh))),
        ("more", "More curves", _more_curves(report)),
    ]
    shown = [(name, head, body) for name, head, body in sections if body]
    links = [el("li", el("a", head, href=f"#{name}")) for name, head, _ in shown]
    again = f" It asks for itself anew every {refresh} seconds." if refresh else ""
    made = time.strftime("%Y-%m-%d %H:%M:%S %Z")
    count = f"{len(report.runs)} run{'s' * (len(report.runs) != 1)}"
    top = [
        el("h1", title),
        el("p", f"{count}, read {made} by Cairn {__version__}.{again}", class_="faint"),
        el("nav", el("ul", links), aria_label="Sections") if links else None,
    ]
    body = [el("section", el("h2", head, id=f"{name}-head"), part, id=name, aria_labelledby=f"{name}-head")
            for name, head, part in shown]  # fmt: skip
    foot = "This page holds all it shows: it needs no network and no script."
    return document(_head(title, refresh), [el("header", top), el("main", _faults(report), body), el("footer", foot)])


def _head(title: str, refresh: int) -> list[Html | None]:
    return [
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=POLICY),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="referrer", content="no-referrer"),
        el("meta", http_equiv="refresh", content=refresh) if refresh else None,
        el("link", rel="icon", href="data:,"),
        el("title", title),
        sheet(CSS),
    ]


def _faults(report: Report) -> Html | None:
    if not report.faults:
        return None
    head = el("h2", "What could not be read", id="faults-head")
    first, rest = report.faults[:FAULTS], report.faults[FAULTS:]
    parts = [el("ul", [el("li", fault) for fault in first])]
    if rest:
        parts.append(el("details", el("summary", f"{len(rest)} more"), el("ul", [el("li", fault) for fault in rest])))
    return el("section", head, parts, class_="fault", aria_labelledby="faults-head")


def _in_short(report: Report) -> Html | None:
    items = []
    for group in report.groups:
        first, write = group.first, writer(group.first.metric)
        seeds = f"{len(group.runs)} seed{'s' * (len(group.runs) != 1)} ({', '.join(r.seed for r in group.runs)})"
        said = f": {first.agent} on {first.env}, {seeds}."
        bests = [max((p.value for p in run.evaluations), default=None) for run in group.runs]
        if first.target is not None:
            reached = sum(best is not None and best >= first.target for best in bests)
            said += f" The target of {write(first.target)} was reached by {reached} of {len(group.runs)}."
        told = [write(best) for best in bests if best is not None]
        said += f" Best evaluations: {', '.join(told)}." if told else " No evaluation yet."
        items.append(el("li", el("strong", group.label), said))
    return el("ul", items) if items else None


# -- curves


def _series(groups: Sequence[tuple[int, Group]], name: str, *, held: bool = False) -> list[svg.Series]:
    """`held`: seeds that stopped early, solved, stay at their last value."""
    found = []
    for number, group in groups:
        lines = [ordered(run.curves.named.get(name, [])) for run in group.runs]
        over = band(lines, [held and run.solved for run in group.runs])
        if over is not None:
            found.append(svg.Series(group.label, number, over, [line for line in lines if line]))
    return found


def _figure(series: list[svg.Series], title: str, *, share: bool, target: float | None = None, note: str = "") -> Html:
    write = writer("success" if share else "return")
    told = " ".join(f"{s.label}: {write(s.band.mean[-1])} at step {s.band.steps[-1]:,}." for s in series)
    drawn = svg.chart(series, title=title, told=told, share=share, target=target)
    legend = el("ul", [el("li", svg.swatch(s.number), s.label) for s in series], class_="legend")
    return el("figure", el("h3", title), drawn, legend, el("figcaption", note) if note else None)


def _panels(report: Report) -> dict[tuple[str, str], list[tuple[int, Group]]]:
    """Groups of one task and one measure can share axes."""
    panels: dict[tuple[str, str], list[tuple[int, Group]]] = {}
    for number, group in enumerate(report.groups):
        panels.setdefault((group.first.env, group.first.metric), []).append((number, group))
    return panels


def _curves(report: Report) -> Html | None:
    figures = []
    for (env, metric), groups in _panels(report).items():
        targets = {group.first.target for _, group in groups}
        target = targets.pop() if len(targets) == 1 else None
        share, several = metric == "success", any(len(group.runs) > 1 for _, group in groups)
        judged = _series(groups, MEASURES[metric], held=True)
        if judged:
            title = f"{env}: {WORDS[metric]} in evaluations"
            figures.append(_figure(judged, title, share=share, target=target, note=SEEDS if several else ""))
        rolled = _series(groups, TRAINING[metric])
        if rolled:
            title = f"{env}: {WORDS[metric]} in training"
            note = "Over the last 100 episodes, exploration included."
            figures.append(_figure(rolled, title, share=share, target=target, note=note))
    if not figures:
        return el("p", "No run has measured anything yet.") if report.groups else None
    return el("div", figures, class_="panels")


def _more_curves(report: Report) -> Html | None:
    """Every other metric, for whoever looks for the reason of something."""
    figures = []
    for (env, metric), groups in _panels(report).items():
        names = dict.fromkeys(name for _, group in groups for run in group.runs for name in run.curves.named)
        for name in sorted(set(names) - {MEASURES[metric], TRAINING[metric]}):
            series = _series(groups, name)
            if series:
                figures.append(_figure(series, f"{env}: {name}", share=name.endswith("success_rate")))
    if not figures:
        return None
    count = f"{len(figures)} more: losses, lengths, speeds"
    return el("details", el("summary", count), el("div", figures, class_="panels"))


# -- tables


def writer(metric: str) -> Callable[[float], str]:
    """How a figure of this measure is written."""
    return (lambda value: f"{100 * value:.4g} %") if metric == "success" else (lambda value: f"{value:,.5g}")


def table(
    label: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    figures: Sequence[int] = (),
    caption: object = None,
) -> Html:
    """The first cell of a row is its head. It scrolls by itself where it is wide, by keyboard too."""
    kinds = ["figure" if k in figures else None for k in range(len(heads))]
    top = el("tr", [el("th", head, scope="col", class_=kind) for head, kind in zip(heads, kinds, strict=True)])
    lines = []
    for first, *rest in rows:
        cells = [el("td", cell, class_=kind) for cell, kind in zip(rest, kinds[1:], strict=True)]
        lines.append(el("tr", el("th", first, scope="row"), cells))
    whole = el("table", el("caption", caption or label), el("thead", top), el("tbody", lines))
    return el("div", whole, class_="scroll", role="region", aria_label=label, tabindex=0)


def duration(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def _evaluations(report: Report) -> list[Html] | None:
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
    figure = _fresh_figure(run)
    if figure is None or run.score is None:
        return "-"
    count = as_number(run.score.get("episodes"))
    return writer(run.metric)(figure) + (f" ({count:,.0f})" if count else "")


def _fresh_figure(run: RunFolder) -> float | None:
    return None if run.score is None else as_number(run.score.get("success" if run.metric == "success" else "mean"))


def _together(group: Group) -> str:
    """What the seeds say together: of fresh episodes where every run has them, else of the last evaluations."""
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


def _remarks(report: Report) -> list[Html] | None:
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


def _configuration(report: Report) -> list[Html] | None:
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


# -- pictures


def _plans(report: Report) -> Html | None:
    figures = []
    for plan in report.plans:
        played = [t.episode for t in plan.traces]
        told = [e.success for e in played if e.success is not None]
        said = f"{len(played)} episodes of {plan.run.path}, its best policy"
        said += f"; {sum(told)} of {len(told)} succeeded" if told else ""
        lengths = " ".join(
            f"Episode {k + 1}: {e.length} steps, return {e.total:.4g}{_subgoals(t)}."
            for k, (t, e) in enumerate(zip(plan.traces, played, strict=True))
        )
        title = f"{plan.group.label} from above"
        drawn = svg.above(plan.traces, plan.floor, title=title, told=f"{said}. {lengths}")
        signs = (
            "Path, start (●), subgoals (+), goal (★)." if _subgoals(plan.traces[0]) else "Path, start (●), goal (★)."
        )
        caption = f"{said}. {signs} {lengths}"
        figures.append(el("figure", el("h3", title), drawn, el("figcaption", caption)))
    return el("div", figures, class_="panels") if figures else None


def _subgoals(trace: Trace) -> str:
    return f", {len(trace.subgoals)} subgoals" if len(trace.subgoals) else ""


def _media(report: Report, *, live: bool) -> list[Html] | None:
    if live or not report.runs:
        return None
    figures, without = [], []
    for run in report.runs:
        for medium in run.media:
            source, name = data_uri(medium.kind, medium.data), f"{run.path / medium.name}"
            if medium.kind.startswith("video/"):
                label = f"Film of the policy of {run.path}, without sound"
                settings = {"controls": True, "playsinline": True, "loop": True, "muted": True, "preload": "auto"}
                shown = el("video", src=source, aria_label=label, **settings)
            else:
                shown = el("img", src=source, alt=f"{medium.name}, a picture in the folder of the run {run.path}")
            figures.append(el("figure", shown, el("figcaption", name)))
        if not any(medium.kind.startswith("video/") for medium in run.media):
            without.append(str(run.path))
    parts = [el("div", figures, class_="panels")] if figures else []
    if without:
        films = f"cairn watch {without[0]} --out {Path(without[0]) / 'video.mp4'}"
        parts.append(el("p", f"No film in {', '.join(without)}: ", el("code", films), " makes one.", class_="faint"))
    return parts


def write(
    paths: Iterable[Path], out: Path, *, episodes: int, results: Path | None = None, trust: bool = False
) -> Report:
    """Make the page of these runs and write it, whole or not at all; CairnError where there is nothing to show."""
    report = gather(paths, episodes=episodes, results=results, trust=trust)
    if not report.runs:
        raise CairnError(" ".join(report.faults) or "name at least one run folder.")
    temporary = out.with_name(f".{out.name}.tmp")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(page(report), encoding="utf-8")
        temporary.replace(out)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise CairnError(f"{out} could not be written: {error.strerror}.") from error
    return report
