"""Reads run folders for a report: whatever can be read, and a sentence for each thing that cannot."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cairn.core.errors import CairnError
from cairn.core.metric import MEASURES
from cairn.core.serialise import from_json, to_json
from cairn.core.untrusted import NotThere, read_bytes, read_json
from cairn.recipes.recipe import Recipe
from cairn.runs.checkpoint import about_policy
from cairn.runs.curves import Curves, Point, finite, held, read_curves, read_remarks
from cairn.runs.evaluation_log import EVALUATIONS, read_evaluations

PICTURES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".svg": "image/svg+xml"}
FILMS = {".mp4": "video/mp4", ".webm": "video/webm"}
LARGEST = 64 * 2**20  # bytes of one image or film on a page
MEDIA = 100  # images and films of one run on a page
MOST = 1e15  # larger steps and values count as invalid
APART = 1e-4  # relative; metrics.csv has six digits


@dataclass(frozen=True)
class Media:
    """A picture or a film of a run folder."""

    name: str
    kind: str  # media type
    data: bytes


@dataclass(frozen=True)
class RunFolder:
    """The contents of a run folder. `config` is plain JSON; `faults` say what could not be read."""

    path: Path
    config: dict[str, Any]
    curves: Curves
    remarks: list[dict[str, Any]] = field(default_factory=list)
    score: dict[str, Any] | None = None  # of score.json, over fresh episodes
    media: tuple[Media, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the run: of its recipe, else its task, else its folder."""
        return str(self.config.get("name") or self.config.get("env") or self.path.name)

    @property
    def env(self) -> str:
        """The task's id."""
        return str(self.config.get("env") or "an unknown task")

    @property
    def agent(self) -> str:
        """The algorithm's name."""
        stored = self.config.get("agent")
        kind = str(stored.get("kind", "")) if isinstance(stored, dict) else ""
        return kind.removesuffix("Config").lower() or "an unknown agent"

    @property
    def seed(self) -> str:
        """The seed as text; ? if unknown."""
        return str(self.config.get("seed", "?"))

    @property
    def metric(self) -> str:
        """The recipe's metric."""
        metric = self.config.get("metric")
        return metric if isinstance(metric, str) and metric in MEASURES else "return"

    @property
    def target(self) -> float | None:
        """The recipe's target; None without one."""
        return as_number(self.config.get("target"))

    @property
    def steps(self) -> int:
        """The number of steps of the run; 0 if unknown."""
        return int(as_number(self.config.get("steps")) or 0)

    @property
    def evaluations(self) -> list[Point]:
        """The evaluations, by the recipe's metric."""
        return ordered(self.curves.named.get(MEASURES[self.metric], []))

    @property
    def solved(self) -> bool:
        """Whether the run stopped early because it held its target."""
        return held(self.evaluations, self.target, max(int(as_number(self.config.get("hold")) or 1), 1))

    @property
    def state(self) -> str:
        """The state of the run in words."""
        last = self.curves.last()
        if self.solved:
            return "target held"
        if last is None:
            return "nothing measured yet"
        return "all steps taken" if self.steps and last.step >= self.steps else "under way or interrupted"


def as_number(value: object) -> float | None:
    """A finite number; None for anything else, because files may contain anything."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def ordered(points: Sequence[Point]) -> list[Point]:
    """The points sorted by step, one per step (the last written), without values that cannot be drawn."""
    sane = [p for p in finite(list(points)) if 0 <= p.step < MOST and abs(p.value) < MOST]
    return sorted({p.step: p for p in sane}.values())


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """Each folder once. A folder that is not a run but contains runs, such as a sweep's, stands for these."""
    found: dict[Path, Path] = {}
    for path in paths:
        inner = [] if _is_run(path) else [child for child in _inside(path) if _is_run(child)]
        for run in inner or [path]:
            found.setdefault(Path(os.path.realpath(run)), run)
    return list(found.values())


def _is_run(path: Path) -> bool:
    return any(os.path.isfile(path / name) for name in ("config.json", "metrics.csv"))  # False without permission


def _inside(path: Path) -> list[Path]:
    try:
        return sorted(path.iterdir())
    except OSError:
        return []


def read_run(path: Path, *, media: bool = True) -> RunFolder:
    """The contents of a run folder. Raises CairnError where nothing can be read."""
    if not path.exists():
        raise CairnError(f"there is no run folder {path}.")
    if not path.is_dir():
        raise CairnError(f"{path} is a file; name the folder of a run.")
    if not _is_run(path):
        raise CairnError(f"{path} holds no run: it has neither config.json nor metrics.csv.")
    faults: list[str] = []
    config = _config(path / "config.json", faults)
    curves = _curves(path, faults)
    if not config and not curves.named:
        raise CairnError(f"nothing of the run in {path} can be read: {' '.join(faults)}")
    remarks, lost = read_remarks(path)
    if lost:
        faults.append(f"{lost} of the lines in {path / 'watch.jsonl'} cannot be read.")
    _check_evaluations(path, curves, faults)
    _check_policy(path, faults)
    shown = _media(path, faults) if media else ()
    return RunFolder(path, config, curves, remarks, _score(path / "score.json", faults), shown, tuple(faults))


def _json(path: Path, faults: list[str]) -> dict[str, Any] | None:
    try:
        body = read_json(path, links=False)
    except NotThere:
        return None
    except CairnError as error:
        faults.append(str(error))
        return None
    if not isinstance(body, dict):
        faults.append(f"{path} was not written by Cairn.")
        return None
    return body


def _config(path: Path, faults: list[str]) -> dict[str, Any]:
    """The recipe. Fields that are newer than the run get their defaults, so that old runs join new ones."""
    body = _json(path, faults)
    if body is None:
        if not path.exists():
            faults.append(f"{path} is missing, so this run's recipe and seed are not known.")
        return {}
    try:
        body.pop("digest", None)
        plain: dict[str, Any] = to_json(from_json(Recipe, body))
        return plain
    except CairnError as error:
        faults.append(f"{path} is of another version of Cairn and shown as it is ({str(error).rstrip('.')}).")
        return body


def _curves(path: Path, faults: list[str]) -> Curves:
    try:
        curves = read_curves(path)
    except CairnError as error:
        faults.append(str(error))
        return Curves({})
    if curves.lost:
        faults.append(f"{curves.lost} of the lines in {path / 'metrics.csv'} are no measurements and were left out.")
    if not curves.named:
        faults.append(f"{path} holds no measurements yet (metrics.csv).")
    return curves


def _score(path: Path, faults: list[str]) -> dict[str, Any] | None:
    body = _json(path, faults)
    if body is None:
        return None
    mean, success = as_number(body.get("mean")), body.get("success")
    share = as_number(success)
    if mean is None or (success is not None and (share is None or not 0 <= share <= 1)):
        faults.append(f"{path} is not what an evaluation wrote, and was left out.")
        return None
    return body


def _check_evaluations(path: Path, curves: Curves, faults: list[str]) -> None:
    """Compare the means in metrics.csv with the episodes in evaluations.npz: a difference was made by hand."""
    file = path / EVALUATIONS
    if file.is_symlink():
        faults.append(f"{file} is refused: it is a link.")
        return
    try:
        means = {one.step: float(np.mean(one.returns)) for one in read_evaluations(file)}
    except NotThere:
        return
    except CairnError:
        faults.append(f"{file} cannot be read: it is cut short or not an archive of NumPy's.")
        return
    for point in ordered(curves.named.get(MEASURES["return"], [])):
        mean = means.get(point.step, point.value)
        if not math.isclose(point.value, mean, rel_tol=APART, abs_tol=APART):
            faults.append(
                f"{path}: metrics.csv tells a mean of {point.value:g} at step {point.step:,} and the episodes of"
                f" evaluations.npz one of {mean:g}; one of them was altered."
            )
            return


def _check_policy(path: Path, faults: list[str]) -> None:
    if (path / "best").is_dir():
        try:
            about_policy(path / "best")
        except CairnError as error:
            faults.append(str(error))


def _media(path: Path, faults: list[str]) -> tuple[Media, ...]:
    """video.mp4, or else the first film, and the images of the folder."""
    files = sorted(p for p in path.iterdir() if p.suffix.lower() in FILMS | PICTURES)[:MEDIA]
    films = sorted((p for p in files if p.suffix.lower() in FILMS), key=lambda p: (p.name != "video.mp4", p.name))
    found = [_medium(p, faults) for p in films[:1] + [p for p in files if p.suffix.lower() in PICTURES]]
    return tuple(medium for medium in found if medium is not None)


def _medium(path: Path, faults: list[str]) -> Media | None:
    kind = (FILMS | PICTURES)[path.suffix.lower()]
    try:
        data = read_bytes(path, LARGEST, links=False)  # a link could lead to any file on this machine
    except CairnError as error:
        faults.append(f"{str(error).rstrip('.')}, and was left out.")
        return None
    signs = {"video/mp4": (b"ftyp", b"moov"), "image/png": (b"\x89PNG", b"IEND"), "image/jpeg": (b"\xff\xd8",)}
    if not data or not all(sign in data for sign in signs.get(kind, ())):
        faults.append(f"{path} is {'empty' if not data else 'cut short or not what its name says'} and was left out.")
        return None
    return Media(path.name, kind, data)
