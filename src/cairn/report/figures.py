"""The figures of a report: learning curves over seeds, episodes from above, films and images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cairn.core.format import writer
from cairn.core.metric import MEASURES, TRAINING, WORDS
from cairn.report import svg
from cairn.report.bands import band
from cairn.report.compare import Group
from cairn.report.gather import Report
from cairn.report.markup import Html, data_uri, el
from cairn.report.plan import Trace
from cairn.report.runs import ordered

SEEDS = (
    "Line: the mean over seeds; band: from the lowest seed to the highest; thin: each seed. A seed that stopped early,"
    " its target held, stays at its last value; an interrupted one counts up to its last step."
)


def _series(groups: Sequence[tuple[int, Group]], name: str, *, held: bool = False) -> list[svg.Series]:
    """One series per group. `held`: seeds that stopped early because they were solved keep their last value."""
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
    """Groups by task and metric: these share axes."""
    panels: dict[tuple[str, str], list[tuple[int, Group]]] = {}
    for number, group in enumerate(report.groups):
        panels.setdefault((group.first.env, group.first.metric), []).append((number, group))
    return panels


def curves(report: Report) -> Html | None:
    """Learning curves of evaluations and of training."""
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


def more_curves(report: Report) -> Html | None:
    """All other metrics."""
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


def plans(report: Report) -> Html | None:
    """Episodes of the best policies, from above."""
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
        if plan.visited is not None:
            title, visits = f"{plan.group.label}: cells visited", plan.visited.visits
            said = f"{len(visits):,} cells of the archive of {plan.run.path}, {visits.sum():,} visits"
            said += f", {visits.min():,} to {visits.max():,} each. The fuller the colour, the more visits."
            drawn = svg.cells(plan.visited, plan.floor, title=title, told=said)
            figures.append(el("figure", el("h3", title), drawn, el("figcaption", said)))
    return el("div", figures, class_="panels") if figures else None


def _subgoals(trace: Trace) -> str:
    return f", {len(trace.subgoals)} subgoals" if len(trace.subgoals) else ""


def media(report: Report, *, live: bool) -> list[Html] | None:
    """Films and images of the run folders; None on a live page."""
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
