"""`python -m benchmarks.studies.curves NAME [GROUP/LABEL=RUN ...] [--draw]`

The curves of runs made by hand, kept and drawn.

Each run folder of `cairn train` adds its evaluations to results/studies/NAME.json, with what it changed of its recipe,
so that the command behind a curve can be read from the file. --draw makes docs/img/NAME.png and prints the table from
that file alone. Runs of one GROUP/LABEL are seeds of one curve.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.store import ROOT, STUDIES
from benchmarks.studies.draw import panels
from cairn.core.serialise import to_json
from cairn.recipes import RECIPES
from cairn.recipes.identity import NOT_HASHED
from cairn.runs.curves import evaluations


def changed(config: dict[str, Any], recipe: dict[str, Any], at: str = "") -> dict[str, Any]:
    """What a run has otherwise than its recipe, as option: value."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        known = recipe.get(key)
        if key == "capacity":
            continue  # no larger than a run's steps can fill, whatever was asked
        if isinstance(value, dict) and isinstance(known, dict) and "kind" in value:
            found |= changed(value, known, f"{at}{key}.")
        elif value != known and (at or key not in NOT_HASHED):
            found[f"{at}{key}"] = value
    return found


def read(label: str, folder: Path) -> dict[str, Any]:
    config = json.loads((folder / "config.json").read_text())
    group, _, name = label.rpartition("/")
    plain = to_json(RECIPES[config["name"]]) if config["name"] in RECIPES else {}
    return {
        "name": name,
        "group": group,
        "recipe": config["name"],
        "changed": changed(config, plain),
        "seed": config["seed"],
        "curve": [list(point) for point in evaluations(folder, config["metric"])],
    }


def grouped(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry a curve, its seeds together."""
    entries: dict[tuple[str, str], dict[str, Any]] = {}
    for run in runs:
        entry = entries.setdefault(
            (run["group"], run["name"]), {"name": run["name"], "group": run["group"], "runs": []}
        )
        entry["runs"].append(run)
    return list(entries.values())


def table(runs: list[dict[str, Any]]) -> str:
    lines = [
        "| run | seed | best evaluation | at step | last | steps, seconds |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for run in runs:
        best = max(run["curve"], key=lambda point: point[2])
        last = run["curve"][-1]
        name = "/".join(part for part in (run["group"], run["name"]) if part)
        lines.append(
            f"| {name} | {run['seed']} | {best[2]:.4g} | {best[0]:,} | {last[2]:.4g} | {last[0]:,}, {last[1]:,.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.studies.curves", description="The curves of runs made by hand."
    )
    parser.add_argument("name")
    parser.add_argument("runs", nargs="*", metavar="GROUP/LABEL=RUN")
    parser.add_argument("--draw", action="store_true", help="draw what is recorded")
    args = parser.parse_args()
    path = STUDIES / f"{args.name}.json"
    if args.runs:
        found = [read(label, Path(folder)) for label, _, folder in (one.partition("=") for one in args.runs)]
        path.write_text(json.dumps(found) + "\n")
    runs = json.loads(path.read_text())
    print(table(runs))
    if args.draw:
        print(panels(grouped(runs), ROOT / "docs" / "img" / f"{args.name}.png"))


if __name__ == "__main__":
    main()
