"""The report of some runs: one self-contained page without scripts, links or fonts from elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from pathlib import Path

from cairn import __version__
from cairn.core.errors import CairnError
from cairn.core.format import writer
from cairn.report.figures import curves, media, more_curves, plans
from cairn.report.gather import Report, gather
from cairn.report.markup import Html, document, el, sheet
from cairn.report.style import CSS
from cairn.report.tables import configuration, evaluations, remarks

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:"  # no external resources, no scripts
)
FAULTS = 8  # faults shown without unfolding
NAMED = 4  # recipes in the title


def page(report: Report, *, refresh: int = 0) -> Html:
    """The whole document. With `refresh`, the page is served and reloads itself after that many seconds."""
    names = list(dict.fromkeys(g.first.name for g in report.groups))
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    title = f"Cairn: {', '.join(names[:NAMED]) or 'no run yet'}{more}"
    sections = [
        ("short", "In short", _in_short(report)),
        ("curves", "Learning curves", curves(report)),
        ("evaluations", "Evaluations", evaluations(report)),
        ("watchers", "What watchers said", remarks(report)),
        ("configuration", "Configuration", configuration(report)),
        ("above", "From above", plans(report)),
        ("pictures", "Pictures and films", media(report, live=bool(refresh))),
        ("more", "More curves", more_curves(report)),
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


def write(
    paths: Iterable[Path], out: Path, *, episodes: int, results: Path | None = None, trust: bool = False
) -> Report:
    """Make the page of these runs and write it atomically. Raises CairnError where there is nothing to show."""
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
