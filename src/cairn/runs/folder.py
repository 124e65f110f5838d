"""Run folders: their names, the marker of Cairn's own folders, and what may be started or resumed in them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

from cairn.core.errors import CairnError
from cairn.core.untrusted import NotThere, read_json, shown
from cairn.replay.storage import NAMES
from cairn.runs.config import CONFIG, MARKER, read_recipe, write_config
from cairn.runs.disk import writing
from cairn.runs.evaluation_log import EVALUATIONS
from cairn.runs.lock import LOCK, Lock
from cairn.runs.policy_files import checkpoints, read_card, recover
from cairn.runs.tensorboard import PREFIX

FORMAT = 1
LEARNERS = "learners"  # holds the replay and the generators of learners 1, 2, ..., in a folder each
LONGEST = 150  # bytes of a folder's name, without suffixes such as -s3 and -2
RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")  # device names on Windows


# -- names


def folder_name(text: str) -> str:
    """`text` as a valid name for files on every system; other characters become '-'."""
    name = "".join(c if c.isprintable() and c not in '<>:"/\\|?*' else "-" for c in text)
    name = name.lstrip(" .-").rstrip(" .") or "run"
    if RESERVED.fullmatch(name):
        name = f"_{name}"
    blob = name.encode()
    if len(blob) > LONGEST:
        name = f"{blob[:LONGEST].decode(errors='ignore').rstrip(' .')}-{zlib.crc32(blob):08x}"
    return name


def check_name(name: str) -> str:
    """A user's name for a run. Raises CairnError where it is not a valid name of a folder."""
    if folder_name(name) != name:
        raise CairnError(
            f"{shown(name, 60)!r} cannot be the name of a run, because its folder is called after it; use letters,"
            f" digits, '-', '_' and '.', at most {LONGEST} of them. --out names a folder anywhere."
        )
    return name


def new_folder(root: Path, name: str, seed: int) -> Path:
    """The first free path of root/NAME-s0, root/NAME-s0-2, root/NAME-s0-3, ..."""
    first, k = run_folder(root, name, seed), 1
    folder = first
    while os.path.lexists(folder):
        k += 1
        folder = first.with_name(f"{first.name}-{k}")
    return folder


def run_folder(root: Path, name: str, seed: int) -> Path:
    """The path of the first run of this name and seed: root/NAME-s0."""
    return root / f"{folder_name(name)}-s{seed}"


def folders_of(root: Path, name: str, seed: int | None = None) -> list[Path]:
    """The folders that `new_folder` made for runs of this name (and seed), the last modified at the end."""
    seeds = r"\d+" if seed is None else str(seed)
    made = re.compile(rf"{re.escape(folder_name(name))}-s{seeds}(-\d+)?")
    found = [p for p in root.iterdir() if made.fullmatch(p.name) and p.is_dir()] if root.is_dir() else []
    return sorted(found, key=lambda p: p.stat().st_mtime)


def run_path(out: str | Path) -> Path:
    """The path of a folder that the user named for a run. Raises CairnError for an invalid name."""
    if not str(out).strip() or "\0" in str(out):
        raise CairnError(f"the folder of a run cannot be called {shown(str(out), 60)!r}; name one, or leave it out.")
    return Path(out)


# -- the marker


def marked(folder: Path) -> bool:
    """Whether Cairn made this folder. Raises CairnError where a newer Cairn did."""
    try:
        body = read_json(folder / MARKER, 4096)
    except NotThere:
        return False
    except CairnError:
        return (folder / MARKER).is_file()  # damaged, but Cairn's
    if isinstance(body, dict) and isinstance(body.get("format"), int) and body["format"] > FORMAT:
        raise CairnError(f"{folder} is a run of a newer Cairn (format {body['format']}); upgrade Cairn.")
    return True


def mark(folder: Path) -> None:
    """Write the marker where it is missing or damaged."""
    path, text = folder / MARKER, json.dumps({"format": FORMAT}) + "\n"
    with writing(path):
        if not path.is_file() or path.read_bytes() != text.encode():
            path.write_text(text)


def _earlier(folder: Path) -> bool:
    """Whether this is a run of Cairn 0.1, which had no marker but config.json and policies in checkpoints/."""
    try:
        read_recipe(folder, trust=True)
    except CairnError:
        return False
    return any(_whole(path) for path in checkpoints(folder / "checkpoints"))


def _whole(policy: Path) -> bool:
    """Whether the card of a policy is undamaged."""
    try:
        return bool(read_card(policy / "policy.json"))
    except CairnError:
        return False


def is_run(folder: Path) -> bool:
    """Whether a folder contains a run."""
    return os.path.isdir(folder) and (marked(folder) or _earlier(folder))


# -- a folder in use


@contextlib.contextmanager
def in_use(folder: Path | None, *, resume: bool) -> Iterator[Lock | None]:
    """Context that locks the folder of a run while it is written; gives the lock.

    Raises CairnError where the folder is not Cairn's, or another process writes it. What is refused is left unchanged.
    A
    folder in which nothing was written is removed again.
    """
    if folder is None:
        if resume:
            raise CairnError("a run without a folder cannot be resumed; name its folder.")
        yield None
        return
    _check(folder, resume)
    made = [p for p in (folder, *folder.parents) if not os.path.exists(p)]
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with Lock(folder, resume=resume) as lock:
            try:
                recover(folder)
                _check(folder, resume)  # another process may have written it in the meantime
                if resume and not marked(folder):
                    write_config(folder, read_recipe(folder, trust=True))  # adds a digest
                mark(folder)
                if not checkpoints(folder / "checkpoints"):
                    _clear(folder)
                yield lock
            finally:
                _leave(folder)
    finally:
        with contextlib.suppress(OSError):  # not empty, or removed already
            for path in made:
                path.rmdir()


def _check(folder: Path, resume: bool) -> None:
    """Raise CairnError where a run may not be started, or resumed, in this folder."""
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise CairnError(f"{folder} is a file; name a folder for the run.")
    with writing(folder):
        held = os.listdir(folder) if os.path.isdir(folder) else []
    ours = marked(folder) if held else False
    if resume and not (ours and CONFIG in held) and not _earlier(folder):
        if ours and checkpoints(folder / "checkpoints"):
            return  # checkpoints contain the settings too
        raise CairnError(f"{folder} holds no run to resume; start one without resume.")
    if resume or not held or set(held) <= {LOCK}:
        return
    if ours and CONFIG not in held and not checkpoints(folder / "checkpoints"):
        return  # a start without results
    if ours or _earlier(folder):
        raise CairnError(f"{folder} already holds a run; resume it, or name another folder.")
    raise CairnError(
        f"{folder} holds files that Cairn did not write ({shown(sorted(held)[0], 60)}), and none is overwritten;"
        " name a new or an empty folder."
    )


def _clear(folder: Path) -> None:
    """Remove what a start without a checkpoint left behind, its learners too. Touches only files that Cairn writes."""
    ours = [at / "replay" / f"{name}.bin" for at in (folder, *(folder / LEARNERS).glob("*")) for name in NAMES]
    ours += [folder / EVALUATIONS, *(folder / "tb").glob(f"{PREFIX}*")]
    for path in ours:
        if path.is_file() or path.is_symlink():
            path.unlink()


def _leave(folder: Path) -> None:
    """Remove the files and the marker of a start that wrote nothing."""
    if (folder / CONFIG).exists() or checkpoints(folder / "checkpoints"):
        return
    with contextlib.suppress(OSError):
        _clear(folder)
        if (folder / "replay").is_dir() and not any((folder / "replay").iterdir()):
            (folder / "replay").rmdir()
        if {p.name for p in folder.iterdir()} <= {MARKER, LOCK}:
            (folder / MARKER).unlink(missing_ok=True)
            (folder / LOCK).unlink(missing_ok=True)
