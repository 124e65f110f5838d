"""Where a policy, a run or a zoo entry is found by its name.

A name is first taken as a path. The zoo is the one of the checkout, or the part of it that is installed with the
package; a `zoo` in the current folder comes last. Runs are looked for in `runs` of the current folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cairn.core.checks import fit
from cairn.core.errors import CairnError
from cairn.core.places import PACKAGE, checkout
from cairn.runs.folder import folders_of
from cairn.runs.policy_files import checkpoints

RUNS = Path("runs")
ZOO = "zoo"
HERE = "the current folder"  # in sentences


def zoos() -> list[Path]:
    """The folders that hold zoo entries, in the order they are searched."""
    root = checkout()
    places = [PACKAGE / ZOO, Path(ZOO)] if root is None else [root / ZOO, PACKAGE / ZOO, Path(ZOO)]
    return list({place.resolve(): _nearby(place) for place in reversed(places) if place.is_dir()}.values())[::-1]


def find_policy(path: Path) -> Path:
    """The policy folder behind a run folder, a checkpoint or a zoo entry: a run's best, else its newest.

    `zoo/NAME` is found from any folder.
    """
    path = _in_zoo(Path(fit("path", path, str)))
    if path.is_file():
        raise CairnError(
            f"{path} is a file; Cairn reads folders of safetensors and JSON, and never unpickles. Name the folder;"
            " a zip of Stable-Baselines3 goes through `cairn import` first."
        )
    if not path.exists():
        raise CairnError(f"there is no {path}; name a run folder, a checkpoint or a zoo entry{_hint(path)}")
    # .best.old: a run was killed between two renames, or is just renaming; whoever holds its lock puts it right
    for folder in (path, path / "best", path / ".best.old", *reversed(checkpoints(path / "checkpoints"))):
        if (folder / "policy.json").exists():
            return folder
    raise CairnError(f"{path} holds no policy (no policy.json in it, in its best/ or in its checkpoints/).")


def has_policy(path: Path) -> bool:
    """Whether `find_policy` finds one."""
    try:
        return bool(find_policy(path))
    except CairnError:
        return False


def find_source(name: str, use: str, *, own: Path | None = None, runs_first: bool = False) -> Path:
    """The policy that a recipe names as its expert or its start: a folder, a zoo entry, or the newest run of that name.

    `own` is the folder of the run itself, which is never its source. `use` completes the sentence of the error.
    """
    given, zoo = _in_zoo(Path(name)), [place / name for place in zoos()]
    runs = list(reversed(folders_of(RUNS, name)))
    for folder in (given, *(runs + zoo if runs_first else zoo + runs)):
        if has_policy(folder) and (own is None or folder.resolve() != own.resolve()):
            return folder
    if given.exists():
        find_policy(given)  # says what is wrong with it
        raise CairnError(f"{name} is this run's own folder: there is nothing in it to {use}.")
    looked = _listed([HERE, *zoos(), RUNS])
    raise CairnError(
        f"there is no {name} to {use} (looked in {looked}): name a folder, or run `cairn train {name}` first."
    )


def _in_zoo(path: Path) -> Path:
    """A path as it is; where there is none and it begins with `zoo/`, that entry of the zoo."""
    if path.exists() or path.parts[:1] != (ZOO,):
        return path
    entries = (zoo.joinpath(*path.parts[1:]) for zoo in zoos())
    return next((entry for entry in entries if entry.exists()), path)


def _hint(path: Path) -> str:
    """Where a relative path that leads nowhere was looked for, and what its name may have meant."""
    if path.is_absolute():
        return "."
    if path.parts[:1] == (ZOO,):
        return f" (looked in {_listed([HERE, *zoos()])})."
    looked = f" (looked in {_listed([HERE, *zoos(), RUNS])})."
    entries = [Path(ZOO) / path for zoo in zoos() if (zoo / path).is_dir()]
    known = entries or folders_of(RUNS, str(path))[-1:]
    return f"{looked} Did you mean {known[0]}?" if known else looked


def _listed(places: Sequence[Path | str]) -> str:
    *most, last = [str(place) for place in places]
    return f"{', '.join(most)} and {last}" if most else last


def _nearby(path: Path) -> Path:
    """Relative to the current folder where it lies in it: shorter to read."""
    whole, here = path.resolve(), Path.cwd()
    return whole.relative_to(here) if whole.is_relative_to(here) else whole
