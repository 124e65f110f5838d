"""MLflow as a tracker, at the address that the user's MLflow is configured for."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from cairn.recipes.recipe import Recipe
from cairn.runs.trackers import Ended, Tracker, run_name, settings

T = TypeVar("T")
BATCH = 100  # parameters per request
LONGEST = 500  # characters of a parameter's value
STATUS: dict[Ended, str] = {"finished": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}


def begin(recipe: Recipe, folder: Path | None, run: str) -> Callable[[], Tracker]:
    """A function that starts the run `run`, or a new one. Called in the user's thread, which knows the active run."""
    mlflow = sys.modules.get("mlflow")
    active = mlflow.active_run() if mlflow is not None else None
    theirs = "" if active is None else str(active.info.run_id)
    return lambda: MLflow(recipe, folder, run, theirs)


class MLflow:
    """An MLflow run: the user's own if one is active, else the earlier run of a resumed training, or a new one."""

    def __init__(self, recipe: Recipe, folder: Path | None, run: str, theirs: str) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
        import mlflow
        from mlflow.entities import Metric, Param

        self.client: Any = mlflow.MlflowClient()
        self.metric: Any = Metric
        self.theirs, self.resumed = bool(theirs), bool(run)
        self.last: dict[str, int] = {}  # step of the newest value of each metric
        self.run = theirs or run
        if not self.run:
            made = self.client.create_run(self._experiment(), run_name=run_name(recipe, folder))
            self.run = str(made.info.run_id)
            params = [Param(name, str(value)[:LONGEST]) for name, value in settings(recipe).items()]
            for some in _batches(params, BATCH):
                self.client.log_batch(self.run, params=some)
        elif not theirs:
            self.client.update_run(self.run, status="RUNNING")
        self.id = "" if theirs else self.run
        self.where = f"logging to the run {self.run} at {mlflow.get_tracking_uri()}"

    def _experiment(self) -> str:
        """The experiment of the user's MLflow settings, or the one called cairn."""
        if number := os.environ.get("MLFLOW_EXPERIMENT_ID"):
            return number
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "cairn"
        for last in (False, True):
            found = self.client.get_experiment_by_name(name)
            if found is not None:
                return str(found.experiment_id)
            try:
                return str(self.client.create_experiment(name))
            except Exception:  # another run may have made it in the meantime
                if last:
                    raise
        raise AssertionError

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Log values, except those that a resumed run has logged before."""
        now = int(time.time() * 1000)
        fresh = {name: value for name, value in values.items() if step > self._newest(name)}
        self.last.update(dict.fromkeys(fresh, step))
        if fresh:
            found = [self.metric(name, float(value), now, step) for name, value in fresh.items()]
            self.client.log_batch(self.run, metrics=found)

    def _newest(self, name: str) -> int:
        if name not in self.last:
            before = self.client.get_metric_history(self.run, name) if self.resumed and not self.theirs else ()
            self.last[name] = max((one.step for one in before), default=-1)
        return self.last[name]

    def close(self, ended: Ended) -> None:
        if not self.theirs:
            self.client.set_terminated(self.run, STATUS[ended])


def _batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for k in range(0, len(items), size):
        yield items[k : k + size]
