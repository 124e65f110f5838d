"""The logs of a run: metrics.csv, TensorBoard, and monitor.csv and evaluations.npz in the formats of SB3.

A resume does not need them. If one is missing or damaged then, it is renamed with a message and a new one is started.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cairn.core.errors import CairnError
from cairn.core.types import Episode
from cairn.core.untrusted import MIB
from cairn.runs.disk import failure, writing
from cairn.runs.evaluation import Score
from cairn.runs.evaluation_log import EVALUATIONS, Evaluation, as_arrays, checksum, read_evaluations
from cairn.runs.tensorboard import Board
from cairn.runs.watching import Remark

BLOCK = MIB


class TextLog:
    """An append-only text file. A resume cuts it back to the size in the `mark` of a checkpoint.

    `head` are its first lines; without a head, the file is made when there is something to write.
    """

    def __init__(self, path: Path, head: str, saved: Mapping[str, int] | None, say: Callable[[str], None]) -> None:
        self.path, self.size, self.crc = path, 0, 0
        self.waiting: list[str] = []
        self.handle = -1
        if saved is not None:
            self._continue(saved, say)
        elif os.path.lexists(path):
            set_aside(path) if not _regular(path) else path.unlink()
        if self.size == 0 and head:
            self.write(head)
            self.flush()

    def _continue(self, saved: Mapping[str, int], say: Callable[[str], None]) -> None:
        size, crc = saved["size"], saved.get("crc")
        if not os.path.lexists(self.path):
            if size:
                say(f"{self.path} is missing; a new one is started.")
            return
        if not _regular(self.path) or self.path.stat().st_size < size or crc not in (None, _crc(self.path, size)):
            kept = set_aside(self.path)
            say(f"{self.path} is damaged: it is kept as {kept.name}, and a new one is started.")
            return
        os.truncate(self.path, size)
        self.size, self.crc = size, _crc(self.path, size)

    def write(self, text: str) -> None:
        """Add text to the buffer."""
        self.waiting.append(text)

    def flush(self) -> None:
        """Write the buffer, all or nothing. Raises DiskError."""
        blob = "".join(self.waiting).encode()
        self.waiting.clear()
        if not blob:
            return
        try:
            if self.handle < 0:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
                self.handle = os.open(self.path, flags, 0o666)
            left = memoryview(blob)
            while left:
                left = left[os.write(self.handle, left) :]
        except OSError as error:
            if self.handle >= 0:
                with contextlib.suppress(OSError):
                    os.ftruncate(self.handle, self.size)
            raise failure(self.path, error) from error
        self.size, self.crc = self.size + len(blob), zlib.crc32(blob, self.crc)

    def mark(self) -> dict[str, int]:
        """Size and checksum of the file, for a checkpoint."""
        self.flush()
        return {"size": self.size, "crc": self.crc}

    def close(self) -> None:
        """Close the file without flushing."""
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1


def _regular(path: Path) -> bool:
    return stat.S_ISREG(os.lstat(path).st_mode)


def _crc(path: Path, size: int) -> int:
    """Checksum of the first `size` bytes."""
    crc = 0
    with open(path, "rb") as file:
        while size > 0 and (blob := file.read(min(size, BLOCK))):
            crc, size = zlib.crc32(blob, crc), size - len(blob)
    return crc


def set_aside(path: Path) -> Path:
    """Rename a damaged file to metrics.csv.damaged, .damaged-2, ...; returns the new path."""
    kept, k = path.with_name(f"{path.name}.damaged"), 1
    while os.path.lexists(kept):
        k += 1
        kept = path.with_name(f"{path.name}.damaged-{k}")
    with writing(kept):
        path.rename(kept)
    return kept


class Logs:
    """All logs of a run. With the `marks` of a checkpoint as `saved`, curves continue from there."""

    def __init__(
        self,
        folder: Path,
        env: str,
        *,
        saved: Mapping[str, Any] | None = None,
        step: int = 0,
        say: Callable[[str], None] = print,
    ) -> None:
        self.folder = folder
        heads = {
            "metrics.csv": "step,seconds,name,value\n",
            "monitor.csv": "#" + json.dumps({"t_start": time.time(), "env_id": env}) + "\nr,l,t\n",
            "watch.jsonl": "",
        }
        self.rows: list[Evaluation] = []
        if saved is not None:
            self._reload_evaluations(step, saved.get(EVALUATIONS), say)
        self.files = {name: TextLog(folder / name, head, _of(saved, name), say) for name, head in heads.items()}
        if os.path.lexists(folder / "tb") and not (folder / "tb").is_dir():
            say(f"{folder / 'tb'} is no folder: it is kept as {set_aside(folder / 'tb').name}.")
        self.board = Board(folder / "tb", purge_step=step + 1 if step else None)

    def metrics(self, step: int, seconds: float, values: Mapping[str, float]) -> None:
        """Write values at a step to metrics.csv and TensorBoard."""
        for name, value in values.items():
            self.files["metrics.csv"].write(f"{step},{seconds:.2f},{name},{value:.6g}\n")
        self.files["metrics.csv"].flush()  # for readers that follow the file
        self.files["monitor.csv"].flush()
        self.board.scalars(step, values)

    def episode(self, episode: Episode, seconds: float) -> None:
        """Add a finished episode to monitor.csv."""
        self.files["monitor.csv"].write(f"{episode.total:.6f},{episode.length},{seconds:.4f}\n")

    def remark(self, step: int, remark: Remark) -> None:
        """Add a watcher's remark to watch.jsonl."""
        self.files["watch.jsonl"].write(json.dumps({"step": step, **vars(remark)}) + "\n")
        self.files["watch.jsonl"].flush()

    def evaluation(self, step: int, score: Score) -> None:
        """Add an evaluation to evaluations.npz, which is rewritten atomically."""
        self.rows.append(Evaluation(step, score.returns, score.lengths, score.successes))
        path = self.folder / EVALUATIONS
        temporary = path.with_name(".evaluations.tmp.npz")
        arrays = as_arrays(self.rows)
        with writing(path):
            try:
                np.savez(temporary, **arrays)
                if path.is_dir():
                    set_aside(path)
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)

    def _reload_evaluations(self, step: int, saved: Mapping[str, int] | None, say: Callable[[str], None]) -> None:
        path = self.folder / EVALUATIONS
        count = None if saved is None else saved["count"]
        if not os.path.lexists(path):
            if count:
                say(f"{path} is missing; a new one is started.")
            return
        try:
            self.rows = [row for row in read_evaluations(path) if row.step <= step]
            whole = saved is None or (len(self.rows) == count and checksum(self.rows) == saved["crc"])
        except CairnError:
            whole = False
        if not whole:
            self.rows = []
            kept = set_aside(path)
            say(f"{path} is damaged: it is kept as {kept.name}, and a new one is started with the next evaluation.")

    def marks(self) -> dict[str, dict[str, int]]:
        """The marks of all logs, for a checkpoint."""
        found = {name: file.mark() for name, file in self.files.items()}
        return {**found, EVALUATIONS: {"count": len(self.rows), "crc": checksum(self.rows)}}

    def close(self, *, quietly: bool = False) -> None:
        """Close all logs; `quietly`, after an error, drops what is buffered."""
        try:
            if not quietly:
                for file in self.files.values():
                    file.flush()
        finally:
            for file in self.files.values():
                file.close()
            self.board.close()


def _of(saved: Mapping[str, Any] | None, name: str) -> Mapping[str, int] | None:
    if saved is None:
        return None
    mark: Any = saved.get(name, {"size": 0})
    return {"size": mark} if isinstance(mark, int) else mark  # Cairn 0.1 stored only the size
