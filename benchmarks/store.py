"""Where measurements are kept: one object a comparison, replaced when it is measured again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = ROOT / "results" / "benchmarks"  # what scripts of speed, peers and checks measured
STUDIES = ROOT / "results" / "studies"  # what scripts of studies found
RESULTS = BENCHMARKS / "speed.json"  # beside one peer, a ratio each
SCALE = BENCHMARKS / "scale.json"  # many environments, many machines, many libraries: rows each


def save(entry: dict[str, Any], path: Path = RESULTS) -> None:
    """Replace the entry of the same name (and seed, where it has one), or append it; all others are kept."""
    entries = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    at = next((i for i, old in enumerate(entries) if _key(old) == _key(entry)), len(entries))
    entries[at : at + 1] = [entry]
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".tmp")
    fresh.write_text(json.dumps(entries, indent=2) + "\n")
    os.replace(fresh, path)


def _key(entry: dict[str, Any]) -> tuple[str, Any]:
    return entry["name"], entry.get("settings", {}).get("seed")
