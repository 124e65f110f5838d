"""Experiment trackers in addition to a run's own logs: Weights & Biases and MLflow.

Each works in its own thread, so that a slow or missing server does not delay the training. A tracker that fails is
dropped with one message. A resumed run continues the tracker's run whose id is in trackers.json.
"""

from __future__ import annotations

import importlib.util
import json
import os
import queue
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal, Protocol

from cairn.core.errors import CairnError
from cairn.core.serialise import to_json
from cairn.core.untrusted import read_json
from cairn.recipes.recipe import Recipe, TrackerName

TRACKERS = "trackers.json"
PATIENCE = 60.0  # seconds that a run waits at its end for a tracker
ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
LABELS: dict[TrackerName, str] = {"wandb": "Weights & Biases", "mlflow": "MLflow"}
Ended = Literal["finished", "stopped", "failed"]


class Tracker(Protocol):
    """A run in an experiment tracker. Its methods can be slow and raise any exception."""

    @property
    def id(self) -> str:
        """Identifies the run for a resume; "" if the run is the user's own."""

    @property
    def where(self) -> str:
        """Where the run is, for a message."""

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Log values at a step."""

    def close(self, ended: Ended) -> None:
        """End the run."""


class Background:
    """A tracker in a thread. The training's thread prints its messages."""

    def __init__(self, name: TrackerName, begin: Callable[[], Tracker], note: Callable[[str, str], None]) -> None:
        self.name, self.label, self.begin, self.note = name, LABELS[name], begin, note
        self.waiting: queue.SimpleQueue[tuple[int, dict[str, float]] | Ended] = queue.SimpleQueue()
        self.said: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._work, name=f"cairn-{name}", daemon=True)
        self.thread.start()

    def _work(self) -> None:
        try:
            tracker = self.begin()
            if tracker.id:
                self.note(self.name, tracker.id)
            self.said.put(f"{self.label}: {tracker.where}.")
            while not isinstance(order := self.waiting.get(), str):
                tracker.scalars(*order)
            tracker.close(order)
        except Exception as error:  # a foreign package, a server or a disk may raise anything
            told = " ".join(str(error).split())[:200].rstrip(".")
            why = f"{type(error).__name__}{f': {told}' if told else ''}"
            self.said.put(f"{self.label} failed ({why}); training goes on without it.")

    def sentences(self) -> Iterable[str]:
        """The messages since the last call."""
        while not self.said.empty():
            yield self.said.get()

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        if self.thread.is_alive():
            self.waiting.put((step, dict(values)))

    def close(self, ended: Ended) -> None:
        self.waiting.put(ended)
        self.thread.join(PATIENCE)
        if self.thread.is_alive():
            self.said.put(f"{self.label} did not answer for {PATIENCE:.0f} s; its last figures may be missing.")


class Trackers:
    """The trackers of a recipe. Before `begin`, nothing is imported and no thread is started."""

    def __init__(self, recipe: Recipe, folder: Path | None) -> None:
        self.recipe, self.folder = recipe, folder
        self.say: Callable[[str], None] = print
        self.running: list[Background] = []
        self.lock = threading.Lock()

    def begin(self, say: Callable[[str], None]) -> None:
        """Start all trackers; `say` prints their messages."""
        self.say = say
        for name in dict.fromkeys(self.recipe.log):
            make = BEGIN[name]
            self.running.append(Background(name, make(self.recipe, self.folder, self._ids().get(name, "")), self._note))

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Log values at a step with every tracker."""
        for one in self.running:
            one.scalars(step, values)
        self._pass_on()

    def close(self, ended: Ended) -> None:
        """End all trackers, waiting a limited time for each."""
        for one in self.running:
            one.close(ended)
        self._pass_on()

    def _pass_on(self) -> None:
        for one in self.running:
            for sentence in one.sentences():
                self.say(f"cairn: {sentence}")

    def _ids(self) -> dict[str, str]:
        """The ids of earlier runs by tracker; none from a damaged file."""
        try:
            body = {} if self.folder is None else read_json(self.folder / TRACKERS, 4096)
        except CairnError:
            return {}
        found = body.items() if isinstance(body, dict) else ()
        return {name: one for name, one in found if isinstance(one, str) and ID.fullmatch(one)}

    def _note(self, name: str, run: str) -> None:
        if self.folder is None:
            return
        with self.lock:
            path, temporary = self.folder / TRACKERS, self.folder / f".{TRACKERS}.tmp"
            temporary.write_text(json.dumps({**self._ids(), name: run}) + "\n", encoding="utf-8")
            temporary.replace(path)


def _wandb(recipe: Recipe, folder: Path | None, run: str) -> Callable[[], Tracker]:
    from cairn.runs.wandb_tracker import begin

    return begin(recipe, folder, run)


def _mlflow(recipe: Recipe, folder: Path | None, run: str) -> Callable[[], Tracker]:
    from cairn.runs.mlflow_tracker import begin

    return begin(recipe, folder, run)


BEGIN: dict[TrackerName, Callable[[Recipe, Path | None, str], Callable[[], Tracker]]] = {
    "wandb": _wandb,
    "mlflow": _mlflow,
}


def check_installed(recipe: Recipe) -> None:
    """Raise CairnError where a tracker of the recipe is not installed."""
    for name in recipe.log:
        found = importlib.util.find_spec(name)
        if found is None or found.origin is None:  # such as a folder of that name, which W&B writes
            raise CairnError(f"logging to {LABELS[name]} needs an extra: pip install 'cairn-rl[{name}]'.")


def settings(recipe: Recipe) -> dict[str, object]:
    """A recipe by dotted names: {"agent.lr": 0.0003, "steps": 100000, ...}."""
    return dict(_flat("", to_json(recipe)))


def _flat(name: str, value: object) -> Iterable[tuple[str, object]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _flat(f"{name}.{key}" if name else str(key), item)
    else:
        yield name, value


def run_name(recipe: Recipe, folder: Path | None) -> str:
    """The name of a run in a tracker: that of its folder, else the recipe's name and seed."""
    return os.path.basename(os.path.abspath(folder)) if folder is not None else f"{recipe.name}-s{recipe.seed}"
