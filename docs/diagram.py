"""The packages of src/cairn and what they import, as a picture: read from the syntax tree when the guide is built.

`<!-- packages -->` in a page stands for it (docs/hooks.py). Each row is a rank of tests/test_layering.py, which holds
that a package imports lower ranks only.
"""

from __future__ import annotations

import ast
import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cairn.report.markup import Html, el

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src" / "cairn"
WIDTH, ROW, BOX, HIGH = 600, 70, 124, 42  # of the picture, from row to row, of a box
COLUMNS = 4  # places for the boxes of a row
MIDDLE = {1: (1,), 2: (1, 2), 3: (0, 1, 2)}  # where they stand at first

Spot = tuple[float, float]  # x and y, in pixels
Places = dict[str, Spot]


def ranks() -> list[tuple[str, ...]]:
    """The ranks that the layering test states, the lowest first."""
    tree = ast.parse((ROOT / "tests" / "test_layering.py").read_text())
    (value,) = [n.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "LAYERS"]
    return list(ast.literal_eval(value))


def imports(src: Path = SRC) -> dict[str, set[str]]:
    """The packages that each package imports from, wherever the import stands."""
    names = {path.parent.name for path in src.glob("*/__init__.py")}
    found: dict[str, set[str]] = {name: set() for name in sorted(names)}
    for name in found:
        for path in (src / name).rglob("*.py"):
            found[name] |= {other for other in modules(path) if other in names and other != name}
    return found


def modules(path: Path) -> Iterable[str]:
    """The part of cairn that each import of a file names: "core" for `from cairn.core.types import Array`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            parts = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            parts = [[*node.module.split("."), alias.name] for alias in node.names]
        else:
            continue
        yield from (part[1] for part in parts if part[0] == "cairn" and len(part) > 1)


def reduced(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The graph without the imports that a longer way of imports implies."""

    def reach(name: str) -> set[str]:
        return {name}.union(*(reach(other) for other in graph[name]))

    return {
        name: {other for other in others if not any(other in reach(third) for third in others - {other})}
        for name, others in graph.items()
    }


def arranged(rows: Sequence[Sequence[str]], graph: Mapping[str, set[str]]) -> Places:
    """The middle of each box, the highest rank first: each row is moved until no arrow gets clearer or shorter."""
    arrows = [(name, other) for name in graph for other in sorted(graph[name])]
    found = [spread(row, line, MIDDLE[len(row)]) for line, row in enumerate(reversed(rows))]

    def cost(line: int, moved: Places) -> tuple[int, float]:
        spots = {name: spot for k, row in enumerate(found) for name, spot in (moved if k == line else row).items()}
        return hidden(arrows, spots), sum(math.dist(spots[a], spots[b]) for a, b in arrows)

    while True:
        before = [*found]
        for line, row in enumerate(found):
            ways = itertools.permutations(range(COLUMNS), len(row))
            found[line] = min([row, *(spread([*row], line, way) for way in ways)], key=functools.partial(cost, line))
        if found == before:
            return {name: spot for row in found for name, spot in row.items()}


def spread(row: Sequence[str], line: int, columns: Sequence[int]) -> Places:
    """The boxes of a row, each in its column."""
    y = HIGH / 2 + 2 + ROW * line
    return {name: (WIDTH / COLUMNS * (column + 0.5), y) for name, column in zip(row, columns, strict=True)}


def hidden(arrows: Sequence[tuple[str, str]], spots: Places) -> int:
    """How often an arrow passes behind a box or crosses another arrow."""
    ends = {(a, b): (leaving(spots[a]), arriving(spots[b])) for a, b in arrows}
    behind = sum(passes(*ends[pair], spots[c]) for pair in arrows for c in spots if c not in pair)
    pairs = itertools.combinations(arrows, 2)
    return behind + sum(meet(*ends[one], *ends[two]) for one, two in pairs if not {*one} & {*two})


def leaving(box: Spot) -> Spot:
    return box[0], box[1] + HIGH / 2


def arriving(box: Spot) -> Spot:
    return box[0], box[1] - HIGH / 2


def passes(start: Spot, end: Spot, box: Spot) -> bool:
    """Whether the straight line between two places touches a box, or nearly."""
    points = ((start[0] + (end[0] - start[0]) * k / 24, start[1] + (end[1] - start[1]) * k / 24) for k in range(1, 24))
    return any(abs(x - box[0]) < BOX / 2 + 4 and abs(y - box[1]) < HIGH / 2 + 4 for x, y in points)


def meet(a: Spot, b: Spot, c: Spot, d: Spot) -> bool:
    """Whether the lines a-b and c-d cross."""

    def side(p: Spot, q: Spot, r: Spot) -> float:
        return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])

    return side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0


@functools.cache
def packages(files: str, arrow: str) -> Html:
    """Boxes with the size of each package, and arrows to those it imports.

    `files` is the text under a name, with the number of files and of lines; `arrow` says what an arrow means.
    """
    rows = ranks()
    listed = {name for row in rows for name in row}
    graph = {name: others for name, others in imports().items() if name in listed}  # others are old names
    drawn = reduced(graph)
    spots = arranged(rows, drawn)
    head = el("marker", el("path", d="M0 0L8 4L0 8Z"), id="imports", viewbox="0 0 8 8", refX=7, refY=4, orient="auto")
    parts: list[object] = [el("defs", head)]
    for name, others in drawn.items():
        for other in sorted(others):
            (x0, y0), (x1, y1) = leaving(spots[name]), arriving(spots[other])
            d = f"M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}"
            parts.append(el("path", d=d, class_="arrow", marker_end="url(#imports)"))
    for name, (x, y) in spots.items():
        paths = list((SRC / name).rglob("*.py"))
        size = files.format(len(paths), sum(len(path.read_text().splitlines()) for path in paths))
        said = f"{name}: {arrow} {', '.join(sorted(graph[name])) or '-'}"
        box = {"x": f"{x - BOX / 2:.1f}", "y": f"{y - HIGH / 2:.1f}", "width": BOX, "height": HIGH, "rx": 5}
        words = [el("text", name, x=f"{x:.1f}", y=f"{y - 3:.1f}", class_="name")]
        words.append(el("text", size, x=f"{x:.1f}", y=f"{y + 14:.1f}", class_="size"))
        parts.append(el("g", el("title", said), el("rect", **box), words))
    told = "; ".join(f"{name} -> {', '.join(sorted(others))}" for name, others in drawn.items() if others)
    box = f"0 0 {WIDTH} {ROW * (len(rows) - 1) + HIGH + 4}"
    return el("svg", parts, viewbox=box, role="img", aria_label=told, class_="packages")
