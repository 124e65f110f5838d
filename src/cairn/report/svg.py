"""SVG drawings: learning curves with bands, and episodes from above. Colours come from the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cairn.core.format import percent, short
from cairn.core.goals import Region
from cairn.report.bands import Band
from cairn.report.markup import Html, el
from cairn.report.plan import Trace
from cairn.runs.curves import Point
from cairn.runs.visited import Visited

WIDTH, HEIGHT = 480, 300  # size of the drawing; letters stay readable when a page scales it to 360 px
LEFT, RIGHT, TOP, BOTTOM = 56, 24, 18, 42
DASHES = ("", "7 4", "2 3", "9 3 2 3")  # distinguish groups without colours
COLOURS = 8  # classes .c0 to .c7 of the style sheet
POINTS = 200  # points of one line at most
MARKED = 30  # up to this many points are drawn as dots with their values


@dataclass(frozen=True)
class Series:
    """One group's curve: its band over seeds, and each seed's own line."""

    label: str
    number: int  # of the group; gives its colour and dashes
    band: Band
    seeds: Sequence[Sequence[Point]]


Scale = Callable[[float], float]


def style(number: int) -> dict[str, str | None]:
    """The attributes of a group's lines."""
    dashes = DASHES[(number + number // COLOURS) % len(DASHES)]  # so that the ninth group differs from the first
    return {"class_": f"line c{number % COLOURS}", "stroke_dasharray": dashes or None}


def swatch(number: int) -> Html:
    """A piece of a group's line, for a legend."""
    line = el("path", d="M1 6H35", **style(number))
    return el("svg", line, class_="swatch", viewbox="0 0 36 12", width=36, height=12, aria_hidden="true")


def chart(series: Sequence[Series], *, title: str, told: str, share: bool = False, target: float | None = None) -> Html:
    """A chart of values against steps. `told` describes it in words; `share` draws 0 to 1 as percentages."""
    values = [v for s in series for v in (*s.band.low, *s.band.high)] + ([] if target is None else [target])
    low, high = (min(0.0, *values), max(1.0, *values)) if share else _padded(min(values), max(values))
    last = max(max(s.band.steps) for s in series) or 1
    x, y = _scale(0, last, LEFT, WIDTH - RIGHT), _scale(low, high, HEIGHT - BOTTOM, TOP)
    write = percent if share else short
    parts: list[object] = [el("title", title), *_axes(x, y, last, low, high, write)]
    if target is not None:
        at = f"{y(target):.1f}"
        parts.append(el("line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, class_="target"))
    parts += [_drawn(one, x, y, write) for one in series]
    if target is not None:
        parts.append(el("text", f"target {write(target)}", x=LEFT + 4, y=f"{y(target) - 6:.1f}", class_="note"))
    return el("svg", parts, viewbox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=f"{title}. {told}", class_="chart")


def _drawn(one: Series, x: Scale, y: Scale, write: Callable[[float], str]) -> list[Html]:
    keep = thinned(len(one.band.steps))
    steps = [one.band.steps[i] for i in keep]
    mean, low, high = ([values[i] for i in keep] for values in (one.band.mean, one.band.low, one.band.high))
    colour = f"c{one.number % COLOURS}"
    parts = []
    if len(one.seeds) > 1:
        there = _path(zip(steps, high, strict=True), x, y)
        back = _path(zip(reversed(steps), reversed(low), strict=True), x, y).replace("M", "L", 1)
        parts.append(el("path", d=f"{there}{back}Z", class_=f"band {colour}"))
        for seed in one.seeds:
            some = [seed[i] for i in thinned(len(seed))]
            parts.append(el("path", d=_path([(p.step, p.value) for p in some], x, y), class_=f"seed {colour}"))
    parts.append(el("path", d=_path(zip(steps, mean, strict=True), x, y), **style(one.number)))
    if len(steps) <= MARKED:
        for step, value, least, most in zip(steps, mean, low, high, strict=True):
            said = f"{one.label}: {write(value)} at step {step:,}"
            said += f" (seeds {write(least)} to {write(most)})" if most > least else ""
            spot = {"cx": f"{x(step):.1f}", "cy": f"{y(value):.1f}", "r": 3}
            parts.append(el("circle", el("title", said), class_=f"dot {colour}", **spot))
    return parts


def _axes(x: Scale, y: Scale, last: float, low: float, high: float, write: Callable[[float], str]) -> list[Html]:
    parts = []
    for value in ticks(low, high):
        at = f"{y(value):.1f}"
        parts.append(el("line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, class_="grid"))
        parts.append(el("text", write(value), x=LEFT - 6, y=float(at) + 5, class_="tick end"))
    for value in ticks(0, last):
        parts.append(el("text", short(value), x=f"{x(value):.1f}", y=HEIGHT - BOTTOM + 18, class_="tick middle"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(el("line", x1=LEFT, x2=WIDTH - RIGHT, y1=HEIGHT - BOTTOM, y2=HEIGHT - BOTTOM, class_="axis"))
    parts.append(el("text", "steps", x=middle, y=HEIGHT - 6, class_="tick middle"))
    return parts


def _path(points: Iterable[tuple[float, float]], x: Scale, y: Scale) -> str:
    spots = [f"{x(a):.1f} {y(b):.1f}" for a, b in points]
    if len(spots) == 1:
        spots *= 2  # a line of length 0 with round ends is a dot
    return "M" + "L".join(spots)


def _scale(low: float, high: float, start: float, end: float) -> Scale:
    span = high - low or 1.0
    return lambda value: start + (value - low) / span * (end - start)


def _padded(low: float, high: float) -> tuple[float, float]:
    room = 0.05 * (high - low) or max(abs(high), 1.0) * 0.1
    return low - room, high + room


def thinned(count: int, most: int = POINTS) -> list[int]:
    """At most `most` of the indices 0 to count - 1, evenly spaced, with both ends."""
    if count <= most:
        return list(range(count))
    return sorted({round(k * (count - 1) / (most - 1)) for k in range(most)})


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers between low and high: multiples of 1, 2 or 5 times a power of ten."""
    span = high - low
    if not span > 0 or not math.isfinite(span):
        return [low]
    rough = span / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))
    return [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


# -- from above


def above(traces: Sequence[Trace], floor: Region | None, *, title: str, told: str, side: int = 400) -> Html:
    """Episodes from above: path, start (●), subgoals (+), goal (★); x to the right, y upwards."""
    spots = [(float(a), float(b)) for t in traces for a, b in (*t.path, *t.subgoals, *_goals(t))]
    spots += [(float(c[0]), float(c[1])) for box in (floor.boxes if floor else ()) for c in box]
    spots = [(a, b) for a, b in spots if math.isfinite(a) and math.isfinite(b)]
    left, low = (min(p[k] for p in spots) for k in (0, 1))
    span = max(max(p[k] for p in spots) - (left, low)[k] for k in (0, 1)) * 1.1 or 1.0
    wide = max(p[0] for p in spots) - left + 0.1 * span
    tall = max(p[1] for p in spots) - low + 0.1 * span
    unit = side / span
    width, height = max(wide * unit, 120.0), max(tall * unit, 120.0)

    def at(a: float, b: float) -> tuple[float, float]:
        return (a - left + 0.05 * span) * unit, height - (b - low + 0.05 * span) * unit

    parts: list[object] = [el("title", title)]
    for corner, other in floor.boxes if floor else ():
        (x0, y0), (x1, y1) = at(corner[0], corner[1]), at(other[0], other[1])
        size = {"width": f"{abs(x1 - x0):.1f}", "height": f"{abs(y1 - y0):.1f}"}
        parts.append(el("rect", x=f"{min(x0, x1):.1f}", y=f"{min(y0, y1):.1f}", class_="floor", **size))
    for k, one in enumerate(traces):
        colour = f"c{k % COLOURS}"
        line = [at(*one.path[i]) for i in thinned(len(one.path), 400)]
        d = "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in line)
        parts.append(el("path", d=d, class_=f"line {colour}"))
        parts.append(el("circle", cx=f"{line[0][0]:.1f}", cy=f"{line[0][1]:.1f}", r=5, class_=f"dot {colour}"))
        for a, b in (at(*point) for point in one.subgoals):
            parts.append(el("path", d=f"M{a - 5:.1f} {b:.1f}h10M{a:.1f} {b - 5:.1f}v10", class_=f"line {colour}"))
        for a, b in (at(*goal) for goal in _goals(one)):
            parts.append(el("polygon", points=_star(a, b, 9), class_=f"goal {colour}"))
    box = f"0 0 {width:.0f} {height:.0f}"
    return el("svg", parts, viewbox=box, role="img", aria_label=f"{title}. {told}", class_="above")


def cells(visited: Visited, floor: Region | None, *, title: str, told: str, side: int = 400) -> Html:
    """The cells of an archive from above, the more visits the fuller the colour; x to the right, y upwards."""
    found: dict[tuple[int, int], int] = {}
    for cell, visits in zip(visited.cells[:, :2].tolist(), visited.visits.tolist(), strict=True):
        found[cell[0], cell[1]] = found.get((cell[0], cell[1]), 0) + visits  # over what else makes up a cell
    (a, b), most = visited.size[:2].tolist(), max(found.values())
    boxes = [((i - 0.5) * a, (j - 0.5) * b, a, b) for i, j in found]
    ground = [(c[0], c[1], d[0] - c[0], d[1] - c[1]) for c, d in (floor.boxes if floor else ())]
    left, low = (min(box[k] for box in (*boxes, *ground)) for k in (0, 1))
    span = max(max(box[k] + box[k + 2] for box in (*boxes, *ground)) - (left, low)[k] for k in (0, 1))
    unit = side / span
    tall = (max(box[1] + box[3] for box in (*boxes, *ground)) - low) * unit
    wide = (max(box[0] + box[2] for box in (*boxes, *ground)) - left) * unit

    def spot(box: tuple[float, float, float, float]) -> dict[str, str]:
        x, y = (box[0] - left) * unit, tall - (box[1] + box[3] - low) * unit
        size = {"width": f"{box[2] * unit:.1f}", "height": f"{box[3] * unit:.1f}"}
        return {"x": f"{x:.1f}", "y": f"{y:.1f}", **size}

    parts: list[object] = [el("title", title), *(el("rect", class_="floor", **spot(box)) for box in ground)]
    for box, visits in zip(boxes, found.values(), strict=True):
        full = 0.15 + 0.75 * math.log1p(visits) / math.log1p(most)
        said = f"{visits:,} visit{'s' * (visits != 1)} around {short(box[0] + a / 2)}, {short(box[1] + b / 2)}"
        parts.append(el("rect", el("title", said), class_="dot c0", fill_opacity=f"{full:.2f}", **spot(box)))
    size = f"0 0 {wide:.0f} {tall:.0f}"
    return el("svg", parts, viewbox=size, role="img", aria_label=f"{title}. {told}", class_="above")


def _goals(trace: Trace) -> list[tuple[float, float]]:
    return [] if trace.goal is None else [(float(trace.goal[0]), float(trace.goal[1]))]


def _star(x: float, y: float, radius: float) -> str:
    spokes = [(radius if k % 2 == 0 else radius * 0.45, math.pi * k / 5) for k in range(10)]
    return " ".join(f"{x + r * math.sin(a):.1f},{y - r * math.cos(a):.1f}" for r, a in spokes)
