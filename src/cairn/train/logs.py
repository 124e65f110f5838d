"""What a run writes down: metrics.csv, TensorBoard, and monitor.csv and evaluations.npz in SB3's formats."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from torch.utils.tensorboard import SummaryWriter

from cairn.core.types import Episode
from cairn.core.untrusted import read_npz
from cairn.train.evaluate import Score
from cairn.train.watching import Remark


class Logs:
    """Append-only files. `offsets` goes into a checkpoint; given back, the files are cut to it, so curves continue."""

    def __init__(self, folder: Path, env: str, *, offsets: Mapping[str, int] | None = None, step: int = 0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.files: dict[str, TextIO] = {}
        heads = {
            "metrics.csv": "step,seconds,name,value\n",
            "monitor.csv": "#" + json.dumps({"t_start": time.time(), "env_id": env}) + "\nr,l,t\n",
        }
        for name, head in heads.items():
            path = folder / name
            if offsets is None or not path.exists():
                path.write_text(head)
            else:
                os.truncate(path, offsets[name])
            self.files[name] = open(path, "a")
        self.board = SummaryWriter(str(folder / "tb"), purge_step=step + 1 if step else None)
        self.evaluations: list[tuple[int, Score]] = []
        if offsets is not None:
            self._reload_evaluations(step)

    def metrics(self, step: int, seconds: float, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.files["metrics.csv"].write(f"{step},{seconds:.2f},{name},{value:.6g}\n")
            self.board.add_scalar(name, value, step)
        self.files["metrics.csv"].flush()  # someone may be following it

    def episode(self, episode: Episode, seconds: float) -> None:
        self.files["monitor.csv"].write(f"{episode.total:.6f},{episode.length},{seconds:.4f}\n")

    def remark(self, step: int, remark: Remark) -> None:
        """A watcher spoke: one JSON object a line, read back when the run is resumed."""
        with open(self.folder / "watch.jsonl", "a") as file:
            file.write(json.dumps({"step": step, **vars(remark)}) + "\n")

    def evaluation(self, step: int, score: Score) -> None:
        self.evaluations.append((step, score))
        path = self.folder / "evaluations.npz"
        temporary = path.with_name(".evaluations.tmp.npz")
        told: dict[str, Any] = {}
        if score.success is not None:
            told["successes"] = np.array([score.successes for _, score in self.evaluations], bool)
        np.savez(
            temporary,
            timesteps=[s for s, _ in self.evaluations],
            results=[score.returns for _, score in self.evaluations],
            ep_lengths=[score.lengths for _, score in self.evaluations],
            **told,
        )
        temporary.replace(path)

    def _reload_evaluations(self, step: int) -> None:
        path = self.folder / "evaluations.npz"
        if not path.exists():
            return
        old = read_npz(path, ["timesteps", "results", "ep_lengths"], optional=["successes"])
        told = old["successes"] if "successes" in old else [[None] * len(row) for row in old["results"]]
        for at, *columns in zip(old["timesteps"], old["results"], old["ep_lengths"], told, strict=True):
            if at <= step:
                rows = zip(*columns, strict=True)
                episodes = [Episode(0, float(r), int(n), None if s is None else bool(s)) for r, n, s in rows]
                self.evaluations.append((int(at), Score.of(episodes)))

    def offsets(self) -> dict[str, int]:
        for file in self.files.values():
            file.flush()
        self.board.flush()
        return {name: file.tell() for name, file in self.files.items()}

    def close(self) -> None:
        for file in self.files.values():
            file.close()
        self.board.close()
