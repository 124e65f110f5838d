"""Learning curves of the recorded results, every seed: `python docs/curves.py` writes docs/img/curves.svg.

One panel for each recipe of the README's table whose evaluations were kept (results/recipes/curves.json). The guide
draws the curve of every recipe when it is built (docs/hooks.py); this picture is for the README, which GitHub shows as it is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cairn.recipes import RECIPES
from cairn.report.bands import band
from cairn.report.markup import Html, el
from cairn.report.svg import HEIGHT, WIDTH, Series, chart
from cairn.runs.curves import Point, held

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "img" / "curves.svg"
COLUMNS, TITLE = 3, 26  # panels in a row; room above each, in pixels
STYLE = """
svg { --ink: #1b1f23; --faint: #57606a; --rule: #d0d5da; --card: #ffffff; --line: #0b63b0; }
@media (prefers-color-scheme: dark) {
  svg { --ink: #e8eaed; --faint: #a9b1ba; --rule: #3a4148; --card: #1e2226; --line: #6db3f2; }
}
.ground { fill: var(--card); }
text { fill: var(--ink); font: 15px system-ui, Helvetica, Arial, "DejaVu Sans", sans-serif; }
text.name { font-weight: 600; }
.end { text-anchor: end; } .middle { text-anchor: middle; }
.note { paint-order: stroke; stroke: var(--card); stroke-width: 5px; stroke-linejoin: round; }
.grid { stroke: var(--rule); } .axis { stroke: var(--faint); }
.target { stroke: var(--faint); stroke-dasharray: 3 3; }
.line { fill: none; stroke: var(--line); stroke-width: 3; stroke-linecap: round; stroke-linejoin: round; }
.seed { fill: none; stroke: var(--line); stroke-width: 1.5; opacity: .5; }
.band { fill: var(--line); opacity: .15; } .dot { fill: var(--line); }
"""


def stored() -> dict[str, dict[str, list[Any]]]:
    """The evaluations that were kept: recipe, seed, [[step, seconds or null, value], ...]."""
    kept: dict[str, dict[str, list[Any]]] = json.loads((ROOT / "results/recipes/curves.json").read_text())
    return kept


def recipe_chart(name: str, kept: dict[str, list[Any]], *, title: str, told: str) -> Html:
    """The evaluations of one recipe: a line for each seed, their mean and their range; "" where there are none."""
    plan = RECIPES[name]
    lines = [kept[seed] for seed in sorted(kept, key=int)]  # where the second was not kept, it is null
    seeds = [[Point(int(s), float("nan" if t is None else t), float(v)) for s, t, v in line] for line in lines]
    found = band(seeds, [held(points, plan.target, plan.hold) for points in seeds]) if seeds else None
    if found is None:
        return Html("")
    share = plan.metric == "success"
    return chart([Series(name, 0, found, seeds)], title=title, told=told, share=share, target=plan.target)


def panels(curves: dict[str, dict[str, list[Any]]], names: list[str]) -> Html:
    """A panel for each recipe, side by side, with its name and the number of its seeds."""
    shown = [name for name in names if curves.get(name)]
    rows = -(-len(shown) // COLUMNS)
    width, height = COLUMNS * WIDTH, rows * (HEIGHT + TITLE)
    parts: list[object] = [el("title", "Learning curves of Cairn's recipes, all seeds"), el("style", Html(STYLE))]
    parts.append(el("rect", class_="ground", width="100%", height="100%"))
    for k, name in enumerate(shown):
        x, y = k % COLUMNS * WIDTH, k // COLUMNS * (HEIGHT + TITLE)
        count = len(curves[name])
        told = f"{name}, {count} seed{'s' if count > 1 else ''}, {RECIPES[name].metric}"
        drawn = recipe_chart(name, curves[name], title=name, told=told)
        parts.append(el("text", told, x=x + 56, y=y + 20, class_="name"))
        parts.append(el("svg", drawn, x=x, y=y + TITLE, width=WIDTH, height=HEIGHT))
    box = f"0 0 {width} {height}"
    return el("svg", parts, xmlns="http://www.w3.org/2000/svg", viewbox=box, role="img")


def picture() -> str:
    from refresh import FAMILIES  # the rows of the README's table

    return panels(stored(), [name for name, *_ in FAMILIES]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture())
