"""Finds policies, runs and zoo entries by name.

A name is first taken as a path. The zoo is that of the checkout, or the part of it that is installed with the package;
a `zoo` in the current folder comes last. Runs are searched in `runs` of the current folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cairn.core.checks import fit
from cairn.core.errors import CairnError, nearest
from cairn.core.places import PACKAGE, checkout
from cairn.runs.folder import folders_of
from cairn.runs.policy_files import checkpoints

RUNS = Path("runs")
ZOO = "zoo"
HERE = "the current folder"  # in messages


def zoos() -> list[Path]:
    """The folders with zoo entries, in the order they are searched."""
    root = checkout()
    places = [PACKAGE / ZOO, Path(ZOO)] if root is None else [root / ZOO, PACKAGE / ZOO, Path(ZOO)]
    return list({place.resolve(): _nearby(place) for place in reversed(places) if place.is_dir()}.values())[::-1]


def find_policy(path: Path) -> Path:
    """The policy folder behind a run folder, a checkpoint or a zoo entry: a run's best, else its newest.

    `zoo/NAME` is found from any folder. Raises CairnError where there is none.
    """
    path = _in_zoo(Path(fit("path", path, str)))
    if path.is_file():
        if path.suffix == ".zip":
            raise CairnError(
                f"{path} is a zip, as Stable-Baselines3 writes them; convert it first: cairn import {path}"
                f" --out {path.with_suffix('')}, then name the folder {path.with_suffix('')}."
            )
        raise CairnError(
            f"{path} is a file; Cairn reads folders of safetensors and JSON, and never unpickles: name a folder."
        )
    if not path.exists():
        raise CairnError(f"there is no {path}; name a run folder, a checkpoint or a zoo entry{_hint(path)}")
    # .best.old: a run is renaming, or was killed between two renames; the next one with its lock repairs it
    for folder in (path, path / "best", path / ".best.old", *reversed(checkpoints(path / "checkpoints"))):
        if (folder / "policy.json").exists():
            return folder
    raise CairnError(f"{path} holds no policy (no policy.json in it, in its best/ or in its checkpoints/).")


def has_policy(path: Path) -> bool:
    """Whether `find_policy` finds a policy."""
    try:
        return bool(find_policy(path))
    except CairnError:
        return False


def find_source(name: str, use: str, *, own: Path | None = None, runs_first: bool = False, zips: bool = False) -> Path:
    """The policy that a recipe names as expert or start: a folder, a zoo entry, or the newest run of that name.

    Args:
        name: What the recipe says.
        use: Completes the sentence of the error, such as "start from".
        own: The folder of the run itself, which cannot be its own source.
        runs_first: Whether runs are searched before the zoo.
        zips: Whether it may also be a zip of Stable-Baselines3.

    Raises:
        CairnError: There is no such policy.
    """
    given, zoo = _in_zoo(Path(name)), [place / name for place in zoos()]
    if zips and given.suffix == ".zip" and given.is_file():
        return given
    runs = list(reversed(folders_of(RUNS, name)))
    for folder in (given, *(runs + zoo if runs_first else zoo + runs)):
        if has_policy(folder) and (own is None or folder.resolve() != own.resolve()):
            return folder
    if given.exists():
        find_policy(given)  # raises with the reason
        raise CairnError(f"{name} is this run's own folder: there is nothing in it to {use}.")
    looked = _listed([HERE, *zoos(), RUNS])
    raise CairnError(
        f"there is no {name} to {use} (looked in {looked}): name a folder, or run `cairn train {name}` first."
    )


def _in_zoo(path: Path) -> Path:
    """The path itself; if it does not exist and begins with `zoo/`, that entry of the zoo."""
    if path.exists() or path.parts[:1] != (ZOO,):
        return path
    entries = (zoo.joinpath(*path.parts[1:]) for zoo in zoos())
    return next((entry for entry in entries if entry.exists()), path)


def _hint(path: Path) -> str:
    """Where a missing relative path was searched, and what its name may mean."""
    if path.is_absolute():
        return "."
    if path.parts[:1] == (ZOO,):
        near = nearest(path.name, [entry.name for zoo in zoos() for entry in zoo.iterdir() if entry.is_dir()])
        return f" (looked in {_listed([HERE, *zoos()])}).{f' Did you mean {ZOO}/{near}?' if near else ''}"
    looked = f" (looked in {_listed([HERE, *zoos(), RUNS])})."
    entries = [Path(ZOO) / path for zoo in zoos() if (zoo / path).is_dir()]
    known = entries or folders_of(RUNS, str(path))[-1:]
    return f"{looked} Did you mean {known[0]}?" if known else looked


def _listed(places: Sequence[Path | str]) -> str:
    *most, last = [str(place) for place in places]
    return f"{', '.join(most)} and {last}" if most else last


def _nearby(path: Path) -> Path:
    """The path relative to the current folder if it is inside, because that is shorter."""
    whole, here = path.resolve(), Path.cwd()
    return whole.relative_to(here) if whole.is_relative_to(here) else whole
